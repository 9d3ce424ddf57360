"""Row 20: the trace of a controller that is back after its session, and waits for its own znode."""

from __future__ import annotations

import pytest

from highwater_checker.catalogue.explain import explain
from highwater_checker.catalogue.rows import CATALOGUE
from highwater_core.config import MayBreak
from highwater_core.events import EventKind as E
from highwater_core.events import TraceEvent
from highwater_planted import PLANTED

ROW_20 = {"L1": MayBreak((20,))}

Step = tuple[E, int, int]
"""A kind of event, its node and incarnation."""

OPENED, ELECTED, RESIGNED = (
    (kind, 1000, 1) for kind in (E.SESSION_OPENED, E.CONTROLLER_ELECTED, E.CONTROLLER_RESIGNED)
)
ANOTHER_OPENED, ANOTHER_ELECTED = (E.SESSION_OPENED, 1001, 1), (E.CONTROLLER_ELECTED, 1001, 1)
OPENED_AFTER_A_START = (E.SESSION_OPENED, 1000, 2)


def named(*steps: Step) -> str:
    trace = [
        TraceEvent(seq, node, incarnation, seq, kind, controller_epoch=seq)
        for seq, (kind, node, incarnation) in enumerate(steps)
    ]
    found = explain("L1", "", -1, -1, trace, ROW_20)
    return found[0].evidence if found else ""


def test_a_controller_that_is_back_and_not_elected_is_named() -> None:
    assert named(OPENED, ELECTED, RESIGNED, OPENED) == (
        "controller 1000, of epoch 1, opened another session once it had resigned; none was "
        "elected since"
    )


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (OPENED, ELECTED),
        (OPENED, ELECTED, OPENED),
        (OPENED, ELECTED, RESIGNED),
        (OPENED, ELECTED, OPENED, RESIGNED),
        (OPENED, RESIGNED, OPENED),
        (OPENED, ELECTED, RESIGNED, ANOTHER_OPENED),
        (OPENED, ELECTED, RESIGNED, OPENED_AFTER_A_START),
        (OPENED, ELECTED, RESIGNED, OPENED, ELECTED),
        (OPENED, ELECTED, RESIGNED, OPENED, ANOTHER_ELECTED),
    ],
)
def test_less_than_that_names_nothing(steps: tuple[Step, ...]) -> None:
    assert named(*steps) == ""


def test_the_row_names_a_planted_mistake_that_is_there() -> None:
    assert set(CATALOGUE[19].planted) <= set(PLANTED)
