"""What a run's folder proves: damaged segments and unread replicas are never a pass."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from highwater.evidence import check_everything, read_evidence
from highwater.observation import Look
from highwater_checker.finding import CheckResult
from highwater_checker.history import HistoryEvent, OperationType, encode
from highwater_checker.verdict import Outcome, judge
from highwater_core.ids import (
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot
from highwater_wire.kafka.record_batch import build_batch

BOTH = (NodeId(0), NodeId(1))


def broker(node_id: int, role: str) -> NodeSnapshot:
    replica = ReplicaSnapshot(
        topic_partition=TopicPartition("t", 0),
        role=role,
        leader=NodeId(0),
        leader_epoch=LeaderEpoch(0),
        controller_epoch=ControllerEpoch(1),
        partition_epoch=PartitionEpoch(0),
        high_watermark=Offset(0),
        log_start_offset=Offset(0),
        log_end_offset=Offset(0),
        isr=BOTH,
        assigned_replicas=BOTH,
    )
    return NodeSnapshot(
        NodeId(node_id), "broker", 1, "fenced", ControllerEpoch(1), replicas=(replica,)
    )


def segment(folder: Path, broker_id: int, data: bytes) -> None:
    place = folder / "segments" / f"broker-{broker_id}" / "t-0"
    place.mkdir(parents=True)
    (place / "00000000000000000000.log").write_bytes(data)


def test_a_segment_that_does_not_decode_is_found(tmp_path: Path) -> None:
    segment(tmp_path, 0, b"")
    segment(tmp_path, 1, b"no batch at all")
    look = Look(0, {0: broker(0, "leader"), 1: broker(1, "follower")})
    evidence = read_evidence(tmp_path, look, ["t"])
    assert evidence.unread_replicas() == ["t-0@1"]
    findings = [finding for check in check_everything(evidence) for finding in check.findings]
    assert [finding.invariant for finding in findings] == ["I3"]
    assert "broker 1" in findings[0].message


def test_a_replica_whose_broker_did_not_answer_counts_as_unread(tmp_path: Path) -> None:
    segment(tmp_path, 0, b"")
    evidence = read_evidence(tmp_path, Look(0, {0: broker(0, "leader"), 1: None}), ["t"])
    assert evidence.unread_replicas() == ["t-0@1"]


# ---------------------------------------------------------------- damaged evidence is told


def history(folder: Path, *lines: bytes) -> None:
    (folder / "history").mkdir()
    (folder / "history" / "p0.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def event(kind: OperationType, operation_id: int) -> bytes:
    return encode(
        HistoryEvent(
            time_ns=operation_id,
            process="p0",
            operation_id=operation_id,
            type=kind,
            function="send",
            topic="t",
            partition=0,
            value=f"v{operation_id}",
            offset=operation_id,
        )
    )


SENT = [event(OperationType.INVOKE, 0), event(OperationType.OK, 0)]


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([SENT[0], SENT[1][:-9], *SENT], "line 2: "),
        ([SENT[0], b'{"process": "\xff"}', SENT[1]], "line 2: "),
        ([*SENT, event(OperationType.OK, 1)], "1 outcomes without a send of their own"),
        ([*SENT, SENT[1]], "1 outcomes without a send of their own"),
    ],
    ids=["half a line", "no text", "an outcome without its send", "an outcome twice"],
)
def test_a_damaged_history_is_told_and_its_run_is_no_pass(
    tmp_path: Path, lines: list[bytes], what: str
) -> None:
    history(tmp_path, *lines)
    evidence = read_evidence(tmp_path, Look(0, {}), ["t"])
    assert [ack.offset for ack in evidence.sends.acknowledged] == [0]
    (told,) = evidence.unread
    assert told.startswith("p0.jsonl: ")
    assert what in told
    verdict = judge([CheckResult("any", 1, (), unread=evidence.unread)], [])
    assert (verdict.outcome, verdict.reasons) == (Outcome.UNKNOWN, (f"any: {told}",))


@pytest.mark.parametrize("attributes", [0, 3, 4], ids=["garbage", "lz4", "zstd"])
def test_a_batch_of_which_brokers_cannot_know_that_it_is_unreadable_is_told(
    tmp_path: Path, attributes: int
) -> None:
    batch = bytearray(build_batch([(None, b"v" * 30, 1)], 0, 0))
    struct.pack_into(">h", batch, 21, attributes)
    batch[61:] = b"\xff" * len(batch[61:])
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    segment(tmp_path, 0, bytes(batch))
    evidence = read_evidence(tmp_path, Look(0, {0: broker(0, "leader")}), ["t"])
    (told,) = evidence.unread
    assert told.startswith("t-0 of broker 0: batch at 0: ")
    assert judge(check_everything(evidence), []).outcome is Outcome.UNKNOWN
