"""Row 22: the trace of a coordinator that loads or unloads in another term than its own."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_checker.catalogue.explain import explain
from highwater_checker.catalogue.rows import CATALOGUE
from highwater_core.config import MayBreak
from highwater_core.events import EventKind as E
from highwater_core.events import TraceEvent
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_planted import PLANTED

ROW_22 = {"I14": MayBreak((22,))}

Step = tuple[E, int, dict[str, Any]]

LEADER, LEADER_ANEW = (E.BECAME_LEADER, 1, {}), (E.BECAME_LEADER, 3, {})
FOLLOWER, STOPPED = (E.BECAME_FOLLOWER, 2, {}), (E.REPLICA_STOPPED, 2, {})
RISEN, STARTED = (E.HIGH_WATERMARK_ADVANCED, 1, {}), (E.NODE_STARTED, 0, {})
LOADED: Step = (E.GROUP_LOAD_ENDED, 1, {"since_epoch": 1})
LOADED_ANEW: Step = (E.GROUP_LOAD_ENDED, 3, {"since_epoch": 3})
UNLOADED: Step = (E.GROUP_UNLOADED, 1, {"since_epoch": 1})


def named(*steps: Step, topic: str = OFFSETS_TOPIC, partition: int = 3) -> str:
    trace = [
        TraceEvent(
            seq,
            1,
            1,
            seq,
            kind,
            None if kind is E.NODE_STARTED else OFFSETS_TOPIC,
            partition=None if kind is E.NODE_STARTED else 3,
            leader_epoch=leader_epoch,
            detail=detail,
        )
        for seq, (kind, leader_epoch, detail) in enumerate(steps)
    ]
    found = explain("I14", topic, partition, -1, trace, ROW_22)
    return found[0].evidence if found else ""


@pytest.mark.parametrize(
    "steps",
    [
        (LEADER, LOADED, RISEN, FOLLOWER, UNLOADED, LEADER_ANEW, LOADED_ANEW),
        (LEADER, LOADED, UNLOADED, RISEN, STOPPED, LEADER_ANEW, LOADED_ANEW),
        (LEADER, FOLLOWER, UNLOADED, LEADER_ANEW, LOADED_ANEW),
        (LEADER, LOADED, LEADER_ANEW, FOLLOWER, UNLOADED),
        (LEADER, LOADED, UNLOADED, STARTED, LEADER_ANEW, LOADED_ANEW),
    ],
)
def test_terms_in_their_order_name_nothing(steps: tuple[Step, ...]) -> None:
    assert named(*steps) == ""


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ((LEADER, FOLLOWER, UNLOADED, LOADED), "epoch 1, when it did not lead"),
        ((LEADER, STOPPED, LOADED), "epoch 1, when it did not lead"),
        ((LEADER, FOLLOWER, UNLOADED, LEADER_ANEW, LOADED), "when it led the partition since"),
        ((LEADER, STARTED, LOADED), "epoch 1, when it did not lead"),
        ((LEADER, LOADED, UNLOADED), "went on leading"),
        ((LEADER, LOADED, UNLOADED, RISEN, LEADER_ANEW), "went on leading"),
    ],
)
def test_a_load_or_an_unload_out_of_its_term_names_the_row(
    steps: tuple[Step, ...], says: str
) -> None:
    assert says in named(*steps)
    assert says in named(*steps, topic="orders", partition=0)
    assert named(*steps, partition=4) == ""


def test_the_planted_mistakes_of_a_row_exist_and_break_its_invariants() -> None:
    for row in CATALOGUE:
        for name in row.planted:
            assert set(row.breaks) <= set(PLANTED[name].breaks)
