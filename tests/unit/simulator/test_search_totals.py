"""Sums of schedules do not depend on order, and keep the first schedule of each kind."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from highwater_core.config import Preset
from highwater_core.events import EventKind
from highwater_simulator.generate import Family
from highwater_simulator.known_marks import (
    merge_marks,
    never_reached,
    read_known_marks,
    write_known_marks,
)
from highwater_simulator.oracle.violation import Violation
from highwater_simulator.search import (
    Chunk,
    Found,
    Kind,
    Schedule,
    Summary,
    chunks_of,
    schedules_of,
    total,
)

PROCESSES, DISKS = Family.PROCESSES, Family.DISKS


def summary_of(seed: int, family: Family = PROCESSES, found: Found | None = None) -> Summary:
    return Summary(
        schedule=Schedule(seed, family),
        found=found,
        events=100,
        simulated_ns=2_000,
        cpu_ns=30,
        acknowledged=4,
        is_excused=family is DISKS,
        flagged=Counter(),
        fired=Counter(kill=2),
        missed=Counter(pause=1),
        not_reached=Counter(),
        marks=Counter({"became_leader": 3, f"mark of {seed}": 1}),
    )


LOSS = Found(Violation("I1", "lost", 5, "t", 0, 7))
NAMED_LOSS = Found(
    Violation("I1", "lost", 5, "t", 0, 7), rows=(1,), ids=("KIP-101",), is_documented=True
)
SUMMARIES = (
    summary_of(3, found=LOSS),
    summary_of(2, found=NAMED_LOSS),
    summary_of(9, found=LOSS),
    summary_of(4, DISKS),
)


@pytest.mark.parametrize(
    ("count", "families", "schedules"),
    [
        (0, (PROCESSES,), []),
        (2, (DISKS,), [(5, DISKS), (6, DISKS)]),
        (3, (PROCESSES, DISKS), [(5, PROCESSES), (5, DISKS), (6, PROCESSES)]),
    ],
)
def test_several_families_take_turns_on_each_seed(
    count: int, families: tuple[Family, ...], schedules: list[tuple[int, Family]]
) -> None:
    assert schedules_of(5, count, families) == [Schedule(*each) for each in schedules]


def test_totals_do_not_depend_on_the_order_of_summaries() -> None:
    expected = total(SUMMARIES)
    for order in itertools.permutations(SUMMARIES):
        assert total(order) == expected


def test_totals_add_up_and_count_documented_violations_as_no_failure() -> None:
    totals = total(SUMMARIES)
    assert totals.schedules == 4
    assert totals.by_family == Counter({PROCESSES: 3, DISKS: 1})
    assert (totals.events, totals.simulated_ns, totals.cpu_ns) == (400, 8_000, 120)
    assert (totals.acknowledged, totals.excused) == (16, 1)
    assert (totals.fired, totals.missed) == (Counter(kill=8), Counter(pause=4))
    assert totals.failing == 2
    assert totals.reached_by()["became_leader"] == 4
    assert totals.reached_by()["mark of 9"] == 1


def test_totals_keep_the_least_schedule_of_each_kind_of_violation() -> None:
    totals = total(SUMMARIES)
    assert totals.kinds == Counter({Kind("I1"): 2, Kind("I1", (1,)): 1})
    assert totals.first[Kind("I1")].schedule.seed == 3
    assert totals.first[Kind("I1", (1,))].schedule.seed == 2


def test_chunks_cover_all_schedules_once_in_order() -> None:
    schedules = schedules_of(1, 7, (PROCESSES, DISKS))
    chunks = list(chunks_of(schedules, Chunk((), Preset.V3, has_feedback=True), 3))
    assert [len(chunk.schedules) for chunk in chunks] == [3, 3, 1]
    assert [each for chunk in chunks for each in chunk.schedules] == schedules
    assert all(chunk.preset is Preset.V3 and chunk.has_feedback for chunk in chunks)
    assert chunks[0].after(2) == replace(chunks[0], schedules=(schedules[2],))


def test_known_marks_are_merged_by_preset_and_family(tmp_path: Path) -> None:
    known = merge_marks({}, Preset.FENCED, {DISKS: ["b", "a"]})
    known = merge_marks(known, Preset.FENCED, {DISKS: ["c", "a"], PROCESSES: ["d"]})
    known = merge_marks(known, Preset.V3, {DISKS: ["e"]})
    assert known == {
        Preset.FENCED: {DISKS: ["a", "b", "c"], PROCESSES: ["d"]},
        Preset.V3: {DISKS: ["e"]},
    }
    file = tmp_path / "marks.json"
    assert read_known_marks(file) == {}
    write_known_marks(known, file)
    assert read_known_marks(file) == known


def test_marks_never_reached_are_those_of_the_families_and_whole_kinds_of_events() -> None:
    known = {Preset.FENCED: {DISKS: ["on disks"], PROCESSES: ["of processes"]}}
    reached = [f"{kind}: detail" for kind in EventKind if kind is not EventKind.TOPIC_DELETED]
    missing = never_reached(known, Preset.FENCED, (PROCESSES,), reached)
    assert missing == ["of processes", "topic_deleted"]
    assert never_reached(known, Preset.V3, (DISKS,), [*reached, "topic_deleted"]) == []
