"""What a run's folder proves: damaged segments and unread replicas are never a pass."""

from __future__ import annotations

from pathlib import Path

from highwater.evidence import check_everything, read_evidence
from highwater.observation import Look
from highwater_core.ids import (
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot

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
