"""A run's traces may begin in the middle of a cluster's life: as declared, and no greener."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater_checker.finding import CheckResult
from highwater_checker.invariants.committed_before import check_committed_before
from highwater_checker.invariants.compactions import check_compactions
from highwater_checker.invariants.coordinators import check_coordinators
from highwater_checker.invariants.leader_uniqueness import check_leader_uniqueness
from highwater_checker.judging import judge_run
from highwater_checker.run_folder.documents import SLICE
from highwater_checker.slices import Slices, TraceBegin, kept_events
from highwater_checker.verdict import Outcome
from highwater_core.events import EventKind, TraceEvent
from highwater_core.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from highwater_core.traces import encode_event
from tests.support.run_on_disk import write, write_run

E = EventKind
Check = Callable[[Sequence[TraceEvent]], CheckResult]


def event(
    seq: int,
    kind: EventKind = E.CHECKPOINT_WRITTEN,
    *,
    node: int = 0,
    incarnation: int = 1,
    topic: str | None = OFFSETS_TOPIC,
    epoch: int = 1,
    offset: int = 0,
    **detail: Any,
) -> TraceEvent:
    """Return an event of an offsets partition; its time is its number."""
    return TraceEvent(
        seq, node, incarnation, seq, kind, topic, 0, epoch, offset=offset, detail=detail
    )


# ---------------------------------------------------------------- declared, and gaps


@pytest.mark.parametrize(
    ("begins", "numbers", "told"),
    [
        ((), (0, 1, 2), ""),
        ((), (7, 8), "seq 7 where 0 is due"),
        ((TraceBegin(0, 1, 7),), (7, 8), ""),
        ((TraceBegin(0, 1, 7),), (8, 9), "seq 8 where 7 is due"),
        ((TraceBegin(0, 1, 7),), (7, 9), "seq 9 where 8 is due"),
        ((TraceBegin(0, 1, 7),), (7, 8, 8), "seq 8 where 9 is due"),
        ((TraceBegin(0, 1, 7, 2),), (1, 4, 7, 8), ""),
        ((TraceBegin(0, 1, 7, 2),), (1, 4, 8), "seq 8 where 7 is due"),
        ((TraceBegin(0, 1, 7, 2),), (4, 1, 7), "seq 1 after 4"),
        ((TraceBegin(0, 1, 9, 2),), (7, 8, 9), "seq 7 is of the run"),  # two gaps would not be seen
        ((TraceBegin(0, 1, 7, 3),), (1, 4, 7), "2 events from before the run, where 3"),
        ((TraceBegin(0, 1, 7),), (4, 7), "1 events from before the run, where 0"),
        ((TraceBegin(0, 1, 7, 2),), (), "0 events from before the run, where 2"),
        ((TraceBegin(0, 1, 7),), (), ""),  # a node that waits, or that ended before
        ((TraceBegin(0, 9, 7),), (3,), "seq 3 where 0 is due"),
        (
            (TraceBegin(0, 1, 0),),
            (),
            "declared from seq 0, where it traced nothing",
        ),  # its trace is missing
        ((TraceBegin(0, 1, 5), TraceBegin(0, 1, 7)), (7, 8), "is declared 2 times"),
    ],
)
def test_a_slice_begins_where_it_is_declared_and_has_no_gap(
    begins: tuple[TraceBegin, ...], numbers: tuple[int, ...], told: str
) -> None:
    kinds = {number: E.REPLICA_STOPPED for number in numbers if number < 7}
    found = Slices(begins).gaps([event(each, kinds.get(each, E.LOG_APPENDED)) for each in numbers])
    assert [bool(re.search(told, each)) for each in found] == ([True] if told else [])


def sliced(folder: Path, begins: tuple[TraceBegin, ...], numbers: Sequence[int]) -> Path:
    """Have broker 0 of a sound run trace these numbers; the last one is its becoming a leader."""
    run = write_run(folder / "run")
    path = run / "trace" / "broker-0-1.jsonl"
    (line,) = path.read_bytes().splitlines()
    before = E.REPLICA_STOPPED
    others = [encode_event(event(number, before, topic="gone")) for number in numbers[:-1]]
    last = line.replace(b'"seq":0', b'"seq":%d' % numbers[-1])
    write(path, b"".join(each + b"\n" for each in (*others, last)))
    if begins:
        write(run / SLICE.name, SLICE.encode(begins))
    return run


@pytest.mark.parametrize(
    ("begins", "numbers", "outcome"),
    [
        ((TraceBegin(0, 1, 7),), (7, 8), Outcome.PASS),
        ((TraceBegin(0, 1, 7, 1),), (3, 7, 8), Outcome.PASS),
        ((), (7, 8), Outcome.UNKNOWN),
        ((TraceBegin(0, 1, 6),), (7, 8), Outcome.UNKNOWN),
        ((TraceBegin(0, 1, 7),), (7, 9), Outcome.UNKNOWN),
        ((TraceBegin(0, 1, 7, 1),), (7, 8), Outcome.UNKNOWN),
    ],
)
def test_a_run_whose_traces_are_not_as_declared_proves_nothing(
    begins: tuple[TraceBegin, ...], numbers: Sequence[int], outcome: Outcome, tmp_path: Path
) -> None:
    verdict = judge_run(sliced(tmp_path, begins, numbers))
    assert verdict.outcome is outcome, verdict.reasons


def test_starts_before_the_run_are_not_asked_for_and_later_ones_are(tmp_path: Path) -> None:
    run = sliced(tmp_path, (TraceBegin(1, 0, 40, 1), TraceBegin(1, 1, 9)), (0,))
    path = run / "trace" / "broker-1-1.jsonl"
    (line,) = path.read_bytes().splitlines()
    earlier = encode_event(event(3, E.REPLICA_STOPPED, node=1, incarnation=0, topic="gone"))
    own = line.replace(b'"seq":0', b'"seq":9')
    write(path, b"".join(each + b"\n" for each in (earlier, own)))
    assert judge_run(run).reasons == ()
    again = line.replace(b'"incarnation":1', b'"incarnation":2')
    write(path, b"".join(each + b"\n" for each in (earlier, own, again)))
    told = "node 1 was started again 1 times, by the run 0 times"
    assert judge_run(run).reasons == (f"every start of a node was the run's own: {told}",)


# ---------------------------------------------------------------- what later checks need


def leads(seq: int, node: int, epoch: int, offset: int = 0, isr: Any = (0, 1)) -> TraceEvent:
    return event(
        seq, E.BECAME_LEADER, node=node, epoch=epoch, offset=offset, isr=[*isr], high_watermark=0
    )


def risen(seq: int, node: int, epoch: int, offset: int) -> TraceEvent:
    return event(seq, E.HIGH_WATERMARK_ADVANCED, node=node, epoch=epoch, offset=offset, isr=[0, 1])


def elected(seq: int, epoch: int, leader: int) -> TraceEvent:
    return event(seq, E.LEADER_ELECTED, node=1000, epoch=epoch, leader=leader, isr=[leader])


def follows(seq: int, node: int, epoch: int) -> TraceEvent:
    return event(seq, E.BECAME_FOLLOWER, node=node, epoch=epoch, leader=1, high_watermark=0)


def cut(seq: int, node: int, epoch: int, offset: int) -> TraceEvent:
    detail = {"from_offset": 9, "high_watermark": 0, "reason": "divergence"}
    return event(seq, E.LOG_TRUNCATED, node=node, epoch=epoch, offset=offset, **detail)


def appended(seq: int, node: int, epoch: int, offset: int) -> TraceEvent:
    return event(seq, E.LOG_APPENDED, node=node, epoch=epoch, offset=offset, end_offset=offset + 1)


BEGUN = {"epoch_start_offset": 5}
PLANTED: dict[str, tuple[Check, tuple[TraceEvent, ...]]] = {
    "an epoch is given twice": (
        check_leader_uniqueness,
        (elected(0, 3, 0), elected(1, 4, 1), appended(2, 1, 4, 0), elected(3, 3, 1)),
    ),
    "two brokers lead in one epoch": (
        check_leader_uniqueness,
        (leads(0, 0, 3), leads(1, 1, 4), risen(2, 1, 4, 5), leads(3, 2, 3)),
    ),
    "a leader begins below what an older one committed": (
        check_committed_before,
        (
            leads(0, 0, 3),
            risen(1, 0, 3, 5),
            risen(2, 0, 3, 9),
            leads(3, 1, 4, 9),
            leads(4, 2, 5, 7),
        ),
    ),
    "a member cuts off what was committed in its epoch": (
        check_committed_before,
        (leads(0, 1, 3), risen(1, 1, 3, 5), risen(2, 1, 3, 9), follows(3, 0, 3), cut(4, 0, 3, 6)),
    ),
    "a new member cuts off what was committed in its epoch": (
        check_committed_before,
        (
            leads(0, 1, 3, isr=(0, 1)),
            risen(1, 1, 3, 9),
            event(2, E.ISR_CHANGED, node=1, epoch=3, isr=[0, 1, 2]),
            cut(3, 2, 3, 6),
        ),
    ),
    "a member that the controller wrote cuts off what was committed": (
        check_committed_before,
        (
            leads(0, 1, 3, isr=(0, 1)),
            risen(1, 1, 3, 9),
            event(2, E.ISR_WRITTEN, node=1000, epoch=3, leader=1, isr=[0, 1, 2]),
            cut(3, 2, 3, 6),
        ),
    ),
    "a broker keeps its groups without the lead": (
        check_coordinators,
        (
            leads(0, 0, 3),
            event(1, E.GROUP_LOAD_BEGUN, **BEGUN),
            event(2, E.GROUP_LOAD_ENDED, read_up_to=5, since_epoch=3),
            appended(3, 0, 3, 5),
            follows(4, 0, 4),
            event(5, E.FETCHER_STARTED, leader=1),
            event(6, E.REPLICA_STOPPED, deleted=False),
        ),
    ),
    "a load ends below the epoch's start": (
        check_coordinators,
        (
            leads(0, 0, 3),
            event(1, E.GROUP_LOAD_BEGUN, **BEGUN),
            appended(2, 0, 3, 5),
            event(3, E.GROUP_LOAD_ENDED, read_up_to=4, since_epoch=3),
        ),
    ),
    "a log is compacted by what is not committed": (
        check_compactions,
        (
            leads(0, 0, 3),
            risen(1, 0, 3, 5),
            risen(2, 0, 3, 7),
            event(3, E.LOG_COMPACTED, epoch=3, dirty_end=9),
        ),
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_what_is_wrong_is_found_wherever_the_run_begins(case: str) -> None:
    """Twice: what is kept at the end of one run is carried through the next, too."""
    check, events = PLANTED[case]
    whole = set(check(events).findings)
    assert whole
    for first in range(len(events) + 1):
        for second in range(first, len(events) + 1):
            carried = kept_events(events[:first], INTERNAL_TOPICS)
            between = [*carried, *events[first:second]]
            last = [*kept_events(between, INTERNAL_TOPICS), *events[second:]]
            found = {
                finding
                for part in (events[:first], between, last)
                for finding in check(part).findings
            }
            assert found == whole, (first, second)


def test_nothing_is_kept_of_topics_that_are_gone_nor_of_single_appends() -> None:
    events = [
        leads(0, 0, 3),
        event(1, E.BECAME_LEADER, topic="gone", isr=[0], high_watermark=0),
        *(appended(seq, 0, 3, seq) for seq in range(2, 20)),
        *(risen(seq, 0, 3, seq) for seq in range(20, 40)),
    ]
    kept = kept_events(events, INTERNAL_TOPICS)
    assert [each.seq for each in kept] == [0, 39]
    assert kept_events(kept, INTERNAL_TOPICS) == kept
