"""Each check passes a sound run and catches the bug planted for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater_checker.client_errors import outcome_of_send
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import (
    COMMIT,
    Acknowledged,
    HistoryEvent,
    OperationType,
    decode,
    encode,
    sends_of,
    unmatched_of,
)
from highwater_checker.invariants.acknowledged_records import check_acknowledged_records
from highwater_checker.invariants.isr import PartitionRecord, check_isr
from highwater_checker.invariants.leader_uniqueness import check_leader_uniqueness
from highwater_checker.invariants.replica_equality import (
    check_high_watermarks_are_held,
    check_replica_equality,
)
from highwater_checker.invariants.transitions import check_transitions
from highwater_checker.invariants.truncations import check_truncations
from highwater_checker.segments import Batch, DamagedLog, ReplicaLog, read_batches
from highwater_checker.verdict import Outcome, Requirement, judge
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicId
from tests.support.evidence_makers import batch_at


def make_batch(base_offset: int, values: list[str], leader_epoch: int = 0) -> Batch:
    return batch_at(base_offset, *values, leader_epoch=leader_epoch)


def make_log(broker_id: int, *batches: Batch, high_watermark: int = 3) -> ReplicaLog:
    return ReplicaLog(broker_id, "t", 0, batches, high_watermark)


def ack(offset: int, value: str) -> Acknowledged:
    return Acknowledged("t", 0, offset, value, invoked_ns=0, acknowledged_ns=1)


FIRST = make_batch(0, ["a", "b"])
SECOND = make_batch(2, ["c"])


def test_acknowledged_records_on_every_replica_pass() -> None:
    result = check_acknowledged_records(
        [ack(0, "a"), ack(2, "c")], [make_log(0, FIRST, SECOND), make_log(1, FIRST, SECOND)]
    )
    assert result.findings == ()
    assert result.examined == 4


@pytest.mark.parametrize(
    ("replica", "why"),
    [
        (make_log(1, FIRST), "the record was truncated away"),
        (make_log(1, FIRST, make_batch(2, ["other"])), "another record took its offset"),
        (make_log(1, make_batch(0, ["b", "a"]), SECOND), "records changed places"),
    ],
)
def test_a_lost_or_replaced_acknowledged_record_is_found(replica: ReplicaLog, why: str) -> None:
    result = check_acknowledged_records([ack(0, "a"), ack(2, "c")], [replica])
    assert {finding.invariant for finding in result.findings} == {"I1"}, why


def test_an_acknowledgement_of_a_partition_that_nobody_read_is_found() -> None:
    result = check_acknowledged_records([ack(0, "a")], [])
    assert [finding.offset for finding in result.findings] == [0]


def test_a_record_below_the_log_start_is_not_looked_for() -> None:
    log = ReplicaLog(0, "t", 0, (SECOND,), high_watermark=3, log_start_offset=2)
    assert check_acknowledged_records([ack(0, "a")], [log]).examined == 0


def test_equal_replicas_pass_and_a_longer_unreplicated_tail_is_no_difference() -> None:
    tail = make_batch(3, ["unreplicated"])
    result = check_replica_equality([make_log(0, FIRST, SECOND, tail), make_log(1, FIRST, SECOND)])
    assert result.findings == ()
    assert result.examined == 2


@pytest.mark.parametrize(
    "other",
    [
        make_log(1, FIRST, make_batch(2, ["x"])),
        make_log(1, FIRST, make_batch(2, ["c"], leader_epoch=1)),
        make_log(1, FIRST),
        make_log(1, SECOND),
    ],
    ids=["other record", "other epoch", "missing tail", "missing head"],
)
def test_replicas_that_differ_below_the_high_watermark_are_found(other: ReplicaLog) -> None:
    result = check_replica_equality([make_log(0, FIRST, SECOND), other])
    assert [(finding.invariant, finding.broker) for finding in result.findings] == [("I3", 1)]


def test_of_batches_of_the_same_offsets_the_bytes_that_differ_are_shown() -> None:
    """Found: both were reported as [2, 3) of epoch 0."""
    other = make_log(1, FIRST, make_batch(2, ["x"]))
    (finding,) = check_replica_equality([make_log(0, FIRST, SECOND), other]).findings
    (line,) = finding.around
    at, shown = line.removeprefix("from byte ").split(" on: ")
    ours, theirs = shown.split(" against ")
    for batch, told in ((SECOND, ours), (make_batch(2, ["x"]), theirs)):
        assert bytes.fromhex(told) == batch.data[int(at) : int(at) + 8]
    before, of_other = (data[: int(at)] for data in (SECOND.data, make_batch(2, ["x"]).data))
    assert (before[:17], before[21:]) == (of_other[:17], of_other[21:])  # between them is the CRC
    assert int(at) > 21


def test_a_high_watermark_beyond_the_log_is_found() -> None:
    result = check_high_watermarks_are_held([make_log(0, FIRST, high_watermark=3)])
    assert [(each.invariant, each.offset) for each in result.findings] == [("I4", 2)]


def test_a_log_that_starts_above_its_high_watermark_is_found() -> None:
    late = replace(make_log(0, SECOND, high_watermark=1), log_start_offset=2)
    result = check_high_watermarks_are_held([late])
    assert [(each.invariant, each.offset) for each in result.findings] == [("I4", 2)]


def became_leader(node: int, leader_epoch: int) -> TraceEvent:
    return TraceEvent(0, node, 0, 0, EventKind.BECAME_LEADER, "t", 0, leader_epoch)


def elected(leader: int, leader_epoch: int) -> TraceEvent:
    detail = {"leader": leader}
    return TraceEvent(
        0, 1000, 0, 0, EventKind.LEADER_ELECTED, "t", 0, leader_epoch, None, None, detail
    )


def test_one_leader_per_epoch_passes_also_when_it_is_reported_twice() -> None:
    events = [elected(1, 0), became_leader(1, 0), became_leader(1, 0), became_leader(2, 1)]
    assert check_leader_uniqueness(events).findings == ()


@pytest.mark.parametrize(
    "deletion",
    [
        TraceEvent(0, 1000, 0, 0, EventKind.TOPIC_DELETED, "t"),
        TraceEvent(0, 1000, 0, 0, EventKind.TOPICS_CHANGED, detail={"deleted": ["t"]}),
    ],
    ids=["by a request", "by another's hand"],
)
def test_the_epochs_of_a_topic_that_was_made_again_begin_anew(deletion: TraceEvent) -> None:
    events = [elected(1, 0), became_leader(1, 0), deletion, elected(2, 0), became_leader(2, 0)]
    assert check_leader_uniqueness(events).findings == ()
    other = [replace(event, topic="u") for event in (became_leader(1, 0), became_leader(2, 0))]
    assert {f.topic for f in check_leader_uniqueness([*events, *other]).findings} == {"u"}


def in_life(topic_id: str, *events: TraceEvent) -> list[TraceEvent]:
    return [replace(event, topic_id=TopicId(topic_id)) for event in events]


DELETED = TraceEvent(0, 1000, 0, 0, EventKind.TOPIC_DELETED, "t", topic_id=TopicId("A"))
SECOND_LIFE = in_life("B", elected(2, 0), became_leader(2, 0), elected(1, 1), became_leader(1, 1))


def test_each_life_of_a_topic_that_was_made_again_has_its_own_epochs() -> None:
    first = in_life("A", elected(1, 0), became_leader(1, 0), elected(2, 1), became_leader(2, 1))
    result = check_leader_uniqueness([*first, DELETED, *SECOND_LIFE])
    assert (result.findings, result.examined) == ((), 8)


@pytest.mark.parametrize(
    "forked",
    [
        in_life("A", became_leader(1, 0), became_leader(2, 0)),
        in_life("A", elected(1, 0), became_leader(2, 0)),
        in_life("A", elected(1, 0), elected(1, 0)),
    ],
    ids=["two led", "another led than was elected", "an epoch was used twice"],
)
def test_a_fork_in_the_life_before_a_deletion_is_found(forked: list[TraceEvent]) -> None:
    result = check_leader_uniqueness([*forked, DELETED, *SECOND_LIFE])
    assert [(f.invariant, f.topic, f.partition) for f in result.findings] == [("I7", "t", 0)]


def test_a_topic_that_gets_its_id_late_has_one_life() -> None:
    events = [became_leader(1, 4), *in_life("A", became_leader(2, 4))]
    assert len(check_leader_uniqueness(events).findings) == 1


@pytest.mark.parametrize(
    "events",
    [
        [became_leader(1, 4), became_leader(2, 4)],
        [elected(1, 4), became_leader(2, 4)],
        [elected(1, 4), elected(1, 4)],
    ],
    ids=["two led", "another led than was elected", "an epoch was used twice"],
)
def test_two_leaders_in_one_epoch_are_found(events: list[TraceEvent]) -> None:
    assert {f.invariant for f in check_leader_uniqueness(events).findings} == {"I7"}


@pytest.mark.parametrize(
    ("leader", "isr", "sound"),
    [
        (1, (1, 2), True),
        (-1, (1,), True),
        (1, (), False),
        (1, (1, 9), False),
        (3, (1, 2), False),
        (1, (1, 1), False),
    ],
)
def test_isr_rules(leader: int, isr: tuple[int, ...], sound: bool) -> None:
    record = PartitionRecord("t", 0, leader, 0, isr, (1, 2, 3))
    assert (check_isr([record]).findings == ()) is sound


def test_segments_are_read_back_and_damage_is_named(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(FIRST.data + SECOND.data)
    assert read_batches(tmp_path) == (FIRST, SECOND)

    segment.write_bytes(FIRST.data + SECOND.data[:-1])
    with pytest.raises(DamagedLog, match="torn batch at byte"):
        read_batches(tmp_path)

    flipped = bytearray(FIRST.data)
    flipped[-1] ^= 1
    segment.write_bytes(flipped)
    with pytest.raises(DamagedLog, match="CRC"):
        read_batches(tmp_path)

    segment.write_bytes(SECOND.data + FIRST.data)
    with pytest.raises(DamagedLog, match="after one that ends"):
        read_batches(tmp_path)

    segment.write_bytes(FIRST.data + SECOND.data[:7] + b"\x40" + SECOND.data[8:])  # no CRC's matter
    with pytest.raises(DamagedLog, match="after one that ends"):
        read_batches(tmp_path)


def event(kind: OperationType, operation_id: int, offset: int = -1) -> HistoryEvent:
    return HistoryEvent(0, kind, operation_id, "p", "send", "t", 0, "v", offset)


def test_a_send_without_completion_is_unknown() -> None:
    events = [
        event(OperationType.INVOKE, 1),
        event(OperationType.INVOKE, 2),
        event(OperationType.INVOKE, 3),
        event(OperationType.OK, 1, offset=7),
        event(OperationType.FAIL, 2),
    ]
    sends = sends_of(events)
    assert [a.offset for a in sends.acknowledged] == [7]
    assert len(sends.failed) == 1
    assert [e.operation_id for e in sends.unknown] == [3]


def test_a_send_acknowledged_without_the_offset_that_it_asked_for_is_unknown() -> None:
    """Found: its record was looked for nowhere, so it could be lost in a run that passed."""
    events = [event(OperationType.INVOKE, 1), event(OperationType.OK, 1)]
    assert [each.operation_id for each in sends_of(events).unknown] == [1]
    assert unmatched_of(events) == events[1:]
    (acknowledged,) = sends_of(events, gets_offsets=False).acknowledged
    assert acknowledged.offset == -1
    assert unmatched_of(events, gets_offsets=False) == []


def test_an_operation_id_that_comes_again_is_damage() -> None:
    """Found: the judge counted both sends, and the tables took them for one."""
    once = [event(OperationType.INVOKE, 1), event(OperationType.OK, 1, offset=3)]
    again = [event(OperationType.INVOKE, 1), event(OperationType.OK, 1, offset=4)]
    commit = replace(event(OperationType.INVOKE, 0), function=COMMIT)
    events = [commit, *once, event(OperationType.INVOKE, 0), *again, event(OperationType.INVOKE, 2)]
    assert unmatched_of(events) == [events[3], *again]
    assert [each.offset for each in sends_of(events).acknowledged] == [3]
    assert [each.operation_id for each in sends_of(events).unknown] == [2]


def test_history_lines_round_trip_and_a_torn_last_line_is_left_out() -> None:
    line = encode(event(OperationType.OK, 1, offset=3))
    assert decode([line, line[:-4]]) == [event(OperationType.OK, 1, offset=3)]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("", OperationType.OK),
        ("_QUEUE_FULL", OperationType.FAIL),
        ("_MSG_TIMED_OUT", OperationType.INFO),
        ("NOT_LEADER_FOR_PARTITION", OperationType.INFO),
        ("SOMETHING_NEW", OperationType.INFO),
    ],
)
def test_a_send_fails_only_where_it_was_never_sent(error: str, outcome: OperationType) -> None:
    assert outcome_of_send(error) is outcome


CLEAN = CheckResult("c", 1, ())
VACUOUS = CheckResult("c", 0, ())
BROKEN = CheckResult("c", 1, (Finding("I1", "lost"),))
MET = Requirement("a leader changed", True, "once")
UNMET = Requirement("a leader changed", False, "never")


@pytest.mark.parametrize(
    ("checks", "requirements", "outcome"),
    [
        ([CLEAN], [MET], Outcome.PASS),
        ([CLEAN, VACUOUS], [MET], Outcome.UNKNOWN),
        ([CLEAN], [UNMET], Outcome.UNKNOWN),
        ([BROKEN, VACUOUS], [UNMET], Outcome.FAIL),
    ],
)
def test_a_run_that_proves_nothing_is_unknown(
    checks: list[CheckResult], requirements: list[Requirement], outcome: Outcome
) -> None:
    verdict = judge(checks, requirements)
    assert verdict.outcome is outcome
    assert bool(verdict.reasons) is (outcome is not Outcome.PASS)


def truncated(offset: int, high_watermark: int) -> TraceEvent:
    detail = {"from_offset": 9, "high_watermark": high_watermark, "reason": "epoch 2 ended"}
    return TraceEvent(
        0, 1, 1, 0, EventKind.LOG_TRUNCATED, topic="t", partition=0, offset=offset, detail=detail
    )


def test_a_log_is_cut_to_its_high_watermark_or_above_and_never_below() -> None:
    followed = TraceEvent(0, 1, 1, 0, EventKind.BECAME_FOLLOWER, topic="t", partition=0)
    sound = check_truncations([followed, truncated(5, 5), truncated(7, 5)])
    assert (sound.examined, sound.findings) == (3, ())
    (finding,) = check_truncations([followed, truncated(4, 5)]).findings
    assert (finding.invariant, finding.partition, finding.offset) == ("I11", 0, 4)
    assert check_truncations([]).examined == 0


@pytest.mark.parametrize(
    ("kind", "before", "after", "is_sound"),
    [
        (EventKind.PARTITION_STATE_CHANGED, "NewPartition", "OnlinePartition", True),
        (EventKind.PARTITION_STATE_CHANGED, "OnlinePartition", "NonExistentPartition", False),
        (EventKind.REPLICA_STATE_CHANGED, "OnlineReplica", "ReplicaDeletionStarted", False),
        (EventKind.TRANSITION_REFUSED, "OnlineReplica", "ReplicaDeletionStarted", False),
        (EventKind.STATE_CHANGE_FAILED, "OfflinePartition", "OnlinePartition", True),
        (EventKind.STATE_CHANGE_FAILED, "NonExistentReplica", "NewReplica", False),
    ],
)
def test_states_change_as_their_tables_have_it_and_nothing_else_is_attempted(
    kind: EventKind, before: str, after: str, is_sound: bool
) -> None:
    detail = {"from_state": before, "to_state": after}
    event = TraceEvent(0, 1_000, 1, 0, kind, topic="t", partition=0, detail=detail)
    found = check_transitions([event])
    assert found.examined == 1
    assert [each.invariant for each in found.findings] == ([] if is_sound else ["I12"])
    assert check_transitions([truncated(5, 5)]).examined == 0
