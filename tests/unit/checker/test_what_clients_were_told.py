"""Duplicates, order and inconsistent offsets: sound runs pass, planted violations are found."""

from __future__ import annotations

import pytest

from highwater_checker.contents import with_neighbours
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import Acknowledged, HistoryEvent, OperationType, Sends, sends_of
from highwater_checker.invariants.duplicates import check_duplicates
from highwater_checker.invariants.inconsistent_offsets import check_inconsistent_offsets
from highwater_checker.invariants.order import check_order
from highwater_checker.invariants.reads import check_reads
from highwater_checker.segments import ReplicaLog
from tests.support.evidence_makers import batch_at, ended, log_of, read, sent


def found(result: CheckResult) -> list[tuple[str, int]]:
    return [(finding.invariant, finding.offset) for finding in result.findings]


# ---------------------------------------------------------------- duplicates


@pytest.mark.parametrize(
    ("sends", "findings", "noted"),
    [
        (Sends((sent(0, "a"),), (), ()), [("duplicate", 1)], (0, 0)),
        (Sends((sent(0, "a", tries=2),), (), ()), [], (1, 0)),
        (Sends((sent(0, "a", tries=0),), (), ()), [], (1, 0)),
        (Sends((), (), (ended(OperationType.INFO, "a"),)), [("duplicate", 1)], (0, 0)),
        (Sends((), (), (ended(OperationType.INFO, "a", tries=3),)), [], (1, 0)),
        (Sends((), (ended(OperationType.FAIL, "a"),), ()), [("aborted-read", 0)], (0, 0)),
        (sends_of([ended(OperationType.INVOKE, "a", tries=1)]), [("duplicate", 1)], (0, 0)),
        (sends_of([ended(OperationType.INVOKE, "a", tries=0)]), [], (1, 0)),
        (Sends((), (), ()), [], (0, 1)),
    ],
    ids=[
        "acknowledged, sent once",
        "acknowledged, sent again",
        "acknowledged, tries not told",
        "unknown, sent once",
        "unknown, sent again",
        "failed for certain",
        "killed, and never sends again",
        "killed, and may have sent again",
        "nobody's",
    ],
)
def test_a_record_that_is_there_twice(
    sends: Sends, findings: list[tuple[str, int]], noted: tuple[int, int]
) -> None:
    result = check_duplicates(sends, [log_of("a", "a"), log_of("a", "a", broker=1)])
    assert found(result) == findings
    assert tuple(count for _, count in result.noted) == noted
    assert result.examined == 1


@pytest.mark.parametrize("tries", [0, 1, 2])
def test_an_idempotent_producers_record_is_never_there_twice(tries: int) -> None:
    sends = Sends((sent(0, "a", tries=tries),), (), (ended(OperationType.INFO, "b", tries=tries),))
    for log in (log_of("a", "a"), log_of("b", "b")):
        (finding,) = check_duplicates(sends, [log], lambda process: process == "p0").findings
        assert (finding.invariant, finding.offset) == ("I20", 1)
        assert "of an idempotent producer" in finding.message


def test_records_that_are_there_once_pass() -> None:
    sends = Sends((sent(0, "a"), sent(1, "b")), (ended(OperationType.FAIL, "x"),), ())
    result = check_duplicates(sends, [log_of("a", "b")])
    assert (result.findings, result.examined) == ((), 2)


# ---------------------------------------------------------------- order


@pytest.mark.parametrize(
    ("sends", "findings"),
    [
        ([sent(0, "a", number=0), sent(1, "b", number=1)], []),
        ([sent(1, "a", number=0), sent(0, "b", number=1)], [("nonmonotonic-send", 0)]),
        ([sent(1, "a", number=0, tries=2), sent(0, "b", number=1)], []),
        ([sent(1, "a", process="p1"), sent(0, "b")], []),
        ([sent(1, "a", process="p1"), sent(0, "b", invoked_ns=5)], [("realtime-send", 0)]),
        ([sent(1, "a", process="p1"), sent(1, "b", invoked_ns=5)], [("realtime-send", 1)]),
        ([sent(1, "a", process="p1", acknowledged_ns=9), sent(0, "b", invoked_ns=5)], []),
    ],
    ids=[
        "in order",
        "one client's out of order",
        "overtaken by a later one after a retry",
        "two clients at once",
        "sent after the acknowledgement, and below it",
        "two acknowledged at one offset",
        "sent before the acknowledgement",
    ],
)
def test_order(sends: list[Acknowledged], findings: list[tuple[str, int]]) -> None:
    assert found(check_order(sends, lambda process: process == "p0")) == findings


def test_an_idempotent_producers_records_are_in_order_however_often_they_were_sent() -> None:
    sends = [sent(1, "a", number=0, tries=2), sent(0, "b", number=1, tries=3)]
    result = check_order(sends, lambda _: False, lambda process: process == "p0")
    assert found(result) == [("I20", 0)]


def test_order_of_a_client_with_several_requests_in_flight_is_not_asked_for() -> None:
    sends = [sent(1, "a", number=0), sent(0, "b", number=1)]
    assert check_order(sends, lambda process: False).findings == ()


def test_the_highest_acknowledged_offset_counts_not_the_last() -> None:
    sends = [
        sent(9, "a", acknowledged_ns=1),
        sent(3, "b", acknowledged_ns=2, process="p1"),
        sent(5, "c", invoked_ns=4, acknowledged_ns=6),
    ]
    result = check_order(sends, lambda process: False)
    assert [(each.offset, each.operation) for each in result.findings] == [(5, "p0's send 0")]
    assert "acknowledged at 9" in result.findings[0].message


# ---------------------------------------------------------------- inconsistent offsets


@pytest.mark.parametrize(
    ("sends", "reads", "offsets"),
    [
        ([sent(0, "a")], [read(0, "a"), read(0, "a", process="c1")], []),
        ([], [read(0, "a"), read(0, "b", process="c1")], [0]),
        ([sent(0, "a")], [read(0, "b")], [0]),
        ([sent(0, "a"), sent(0, "b", process="p1")], [], [0]),
    ],
    ids=["all agree", "two consumers", "a producer and a consumer", "two acknowledgements"],
)
def test_one_offset_is_one_record(
    sends: list[Acknowledged], reads: list[HistoryEvent], offsets: list[int]
) -> None:
    result = check_inconsistent_offsets(sends, reads)
    assert [finding.offset for finding in result.findings] == offsets
    assert {finding.invariant for finding in result.findings} <= {"inconsistent-offsets"}
    assert result.examined == 1


# ---------------------------------------------------------------- reads above the high watermark


@pytest.mark.parametrize(
    ("high_watermark", "is_sound"), [(-1, True), (2, True), (1, False), (0, False)]
)
def test_a_record_is_read_below_the_high_watermark_of_its_answer(
    high_watermark: int, is_sound: bool
) -> None:
    reads = [read(0, "a"), read(1, "b", high_watermark=high_watermark)]
    assert (check_reads(reads, [log_of("a", "b")]).findings == ()) is is_sound


# ---------------------------------------------------------------- findings


def test_a_finding_shows_three_records_on_either_side_on_every_replica() -> None:
    whole = ReplicaLog(0, "t", 0, (batch_at(0, *"abcdefgh"), batch_at(8, "i", leader_epoch=2)), 9)
    short = ReplicaLog(1, "t", 0, (batch_at(0, "a", "b"),), 2)
    other = ReplicaLog(1, "u", 0, (batch_at(0, "z"),), 1)
    lost = Finding("I1", "lost", "t", 0, 5, 1, "p0's send 3")
    (result,) = with_neighbours([CheckResult("c", 1, (lost,))], [whole, short, other])
    (finding,) = result.findings
    assert len(finding.around) == 2
    assert finding.around[0].startswith("broker 0: 2 'c' of epoch 0, ")
    assert "8 'i' of epoch 2; the log ends at 9" in finding.around[0]
    assert "'b'" not in finding.around[0]
    assert finding.around[1] == "broker 1: no record near it; the log ends at 2"
    assert str(finding) == "I1: t-0, offset 5, broker 1, p0's send 3: lost"
