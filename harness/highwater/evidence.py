"""Reads a finished run's folder back and judges it; needs no cluster and can be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.observation import Look, leaderships, replicas_of
from highwater_checker.finding import CheckResult
from highwater_checker.history import Sends, decode, sends_of
from highwater_checker.invariants.acknowledged_records import check_acknowledged_records
from highwater_checker.invariants.isr import PartitionRecord, check_isr
from highwater_checker.invariants.leader_uniqueness import check_leader_uniqueness
from highwater_checker.invariants.replica_equality import (
    check_high_watermarks_are_held,
    check_replica_equality,
)
from highwater_checker.segments import ReplicaLog, read_batches
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.traces import decode_events


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a run left behind for its verdict.

    final_look was taken with the cluster healed and idle, just before its nodes were stopped and
    their segments copied; replicas are by partition, then broker.
    """

    sends: Sends
    traces: tuple[TraceEvent, ...]
    final_look: Look
    replicas: dict[TopicPartition, tuple[ReplicaLog, ...]]


def read_sends(history_folder: Path) -> Sends:
    """Return the sends of every history file in the folder."""
    parts = [
        sends_of(decode(path.read_bytes().splitlines()))
        for path in sorted(history_folder.glob("*.jsonl"))
    ]
    return Sends(
        acknowledged=tuple(ack for part in parts for ack in part.acknowledged),
        failed=tuple(event for part in parts for event in part.failed),
        unknown=tuple(event for part in parts for event in part.unknown),
    )


def read_traces(trace_folder: Path) -> tuple[TraceEvent, ...]:
    """Return every node's events, each node's in its own order."""
    return tuple(
        event
        for path in sorted(trace_folder.glob("*.jsonl"))
        for event in decode_events(path.read_bytes().splitlines())
    )


def read_replicas(
    segments_folder: Path, final_look: Look, topics: Sequence[str]
) -> dict[TopicPartition, tuple[ReplicaLog, ...]]:
    """Return the copied logs of the topics with the offsets that their brokers last told.

    segments_folder holds one folder a broker, broker-<id>, and in it one a partition.

    Raises:
        DamagedLog: a segment does not decode.
    """
    found: dict[TopicPartition, tuple[ReplicaLog, ...]] = {}
    for topic_partition in leaderships(final_look):
        if topic_partition.topic not in topics:
            continue
        found[topic_partition] = tuple(
            ReplicaLog(
                broker_id=broker_id,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                batches=read_batches(
                    segments_folder / f"broker-{broker_id}" / str(topic_partition)
                ),
                high_watermark=replica.high_watermark,
                log_start_offset=replica.log_start_offset,
            )
            for broker_id, replica in replicas_of(final_look, topic_partition).items()
        )
    return found


def check_everything(evidence: Evidence) -> list[CheckResult]:
    """Return every check's result; the per-partition ones are merged into one each."""
    replicas = [replica for group in evidence.replicas.values() for replica in group]
    return [
        check_acknowledged_records(evidence.sends.acknowledged, replicas),
        _merged([check_replica_equality(group) for group in evidence.replicas.values()]),
        check_high_watermarks_are_held(replicas),
        check_leader_uniqueness(evidence.traces),
        check_isr(_final_records(evidence)),
    ]


def _merged(results: Sequence[CheckResult]) -> CheckResult:
    return CheckResult(
        check=results[0].check if results else "replicas are byte-equal (I3)",
        examined=sum(result.examined for result in results),
        findings=tuple(finding for result in results for finding in result.findings),
    )


def _final_records(evidence: Evidence) -> list[PartitionRecord]:
    return [
        PartitionRecord(
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            assigned_replicas=replicas_of(evidence.final_look, topic_partition)[
                leadership.leader
            ].assigned_replicas,
        )
        for topic_partition, leadership in leaderships(evidence.final_look).items()
    ]
