"""Makes small pieces of evidence of topic t, partition 0: logs, sends, looks, events."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from highwater_checker.history import Acknowledged, HistoryEvent, OperationType
from highwater_checker.looks import Look
from highwater_checker.segments import Batch, ReplicaLog
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import (
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot

AT = TopicPartition("t", 0)
EVERYONE = (0, 1, 2)


def batch_at(base_offset: int, *values: str, leader_epoch: int = 0) -> Batch:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1_000_000)
    for index, value in enumerate(values):
        builder.append(index, timestamp=1, key=None, value=value.encode(), headers=[])
    data = bytearray(builder.build())
    data[0:8] = base_offset.to_bytes(8, "big")
    data[12:16] = leader_epoch.to_bytes(4, "big")
    header = DefaultRecordBatch(bytes(data))
    return Batch(base_offset, header.next_offset, leader_epoch, bytes(data))


def log_of(*values: str, broker: int = 0, leader_epoch: int = 0) -> ReplicaLog:
    """Return a log with one batch that holds the values from offset 0 on."""
    batch = batch_at(0, *values, leader_epoch=leader_epoch)
    return ReplicaLog(broker, "t", 0, (batch,), len(values))


def sent(
    offset: int,
    value: str,
    *,
    number: int = 0,
    process: str = "p0",
    invoked_ns: int = 0,
    acknowledged_ns: int | None = None,
    tries: int = 1,
) -> Acknowledged:
    ended_ns = invoked_ns + 1 if acknowledged_ns is None else acknowledged_ns
    return Acknowledged("t", 0, offset, value, invoked_ns, ended_ns, process, number, tries)


def ended(kind: OperationType, value: str, *, tries: int = 1) -> HistoryEvent:
    """Return the completion of a send that was not acknowledged."""
    return HistoryEvent(0, kind, 7, "p0", "send", "t", 0, value, tries=tries)


def read(offset: int, value: str, *, process: str = "c0", high_watermark: int = -1) -> HistoryEvent:
    return HistoryEvent(
        0, OperationType.OK, 3, process, "poll", "t", 0, value, offset,
        high_watermark=high_watermark,
    )  # fmt: skip


def replica(
    role: str,
    high_watermark: int,
    log_end_offset: int,
    *,
    leader_epoch: int = 1,
    isr: tuple[int, ...] = EVERYONE,
) -> ReplicaSnapshot:
    return ReplicaSnapshot(
        topic_partition=AT,
        role=role,
        leader=NodeId(0),
        leader_epoch=LeaderEpoch(leader_epoch),
        controller_epoch=ControllerEpoch(1),
        partition_epoch=PartitionEpoch(0),
        high_watermark=Offset(high_watermark),
        log_start_offset=Offset(0),
        log_end_offset=Offset(log_end_offset),
        isr=tuple(NodeId(broker) for broker in isr),
        assigned_replicas=tuple(NodeId(broker) for broker in EVERYONE),
    )


def look(time_ns: int, *replicas: ReplicaSnapshot | None, incarnation: int = 1) -> Look:
    """Return a look at brokers 0, 1, ... with these replicas; None: the broker did not answer."""
    return Look(
        time_ns,
        {
            node: None
            if held is None
            else NodeSnapshot(
                NodeId(node), "broker", incarnation, "fenced", ControllerEpoch(1), replicas=(held,)
            )
            for node, held in enumerate(replicas)
        },
    )


def event(
    kind: EventKind,
    node: int,
    leader_epoch: int,
    offset: int | None = None,
    *,
    incarnation: int = 1,
    **detail: object,
) -> TraceEvent:
    return TraceEvent(
        0, node, incarnation, 0, kind, "t", 0, leader_epoch, None, offset, dict(detail)
    )
