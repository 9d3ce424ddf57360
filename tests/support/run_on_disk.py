"""The folder of a small sound run: two brokers, one partition, one acknowledged record."""

from __future__ import annotations

from pathlib import Path

from highwater_checker.history import HistoryEvent, OperationType, encode
from highwater_checker.looks import Look
from highwater_checker.run_folder.documents import (
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    PromisedConsumer,
    PromisedProducer,
    PromisedTopic,
    Promises,
)
from highwater_checker.verdict import Requirement
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
from highwater_core.traces import encode_event
from highwater_wire.kafka.record_batch import build_batch

BOTH = (NodeId(0), NodeId(1))
BATCH = build_batch([(None, b"v0", 1_000)], 0, 0)
SEGMENT = "00000000000000000000.log"


def history_line(
    kind: OperationType, operation_id: int = 0, *, function: str = "send", process: str = "p0"
) -> bytes:
    event = HistoryEvent(
        time_ns=10 + operation_id,
        type=kind,
        operation_id=operation_id,
        process=process,
        function=function,
        topic="t",
        partition=0,
        value=f"v{operation_id}",
        offset=-1 if kind is OperationType.INVOKE else operation_id,
    )
    return encode(event) + b"\n"


def group_line(
    at_ns: int, kind: OperationType, number: int, function: str, offset: int = -1
) -> bytes:
    """Return a line of g1, which commits and fetches offsets of t-0 for the group g."""
    event = HistoryEvent(at_ns, kind, number, "g1", function, "t", 0, "g", offset)
    return encode(event) + b"\n"


SENT = history_line(OperationType.INVOKE) + history_line(OperationType.OK)
READ = history_line(OperationType.OK, function="poll", process="c0")


def broker(node: int) -> NodeSnapshot:
    replica = ReplicaSnapshot(
        topic_partition=TopicPartition("t", 0),
        role="follower" if node else "leader",
        leader=NodeId(0),
        leader_epoch=LeaderEpoch(0),
        controller_epoch=ControllerEpoch(1),
        partition_epoch=PartitionEpoch(0),
        high_watermark=Offset(1),
        log_start_offset=Offset(0),
        log_end_offset=Offset(1),
        isr=BOTH,
        assigned_replicas=BOTH,
    )
    return NodeSnapshot(
        NodeId(node), "broker", 1, "fenced", ControllerEpoch(1), replicas=(replica,)
    )


def write_run(folder: Path) -> Path:
    """Write the files of the run, and return its folder."""
    promises = Promises(
        (PromisedTopic("t", 1, 2),), (PromisedProducer("p0"),), (PromisedConsumer("c0", "t"),)
    )
    write(folder / PROMISES.name, PROMISES.encode(promises))
    required = (Requirement("the plan was run to its end", True, ""),)
    write(folder / REQUIREMENTS.name, REQUIREMENTS.encode(required))
    look = Look(99, {0: broker(0), 1: broker(1)})
    write(folder / FINAL_LOOK.name, FINAL_LOOK.encode(look))
    write(folder / "history" / "p0.jsonl", SENT)
    write(folder / "history" / "c0.jsonl", READ)
    for node, kind, leader in (
        (0, EventKind.BECAME_LEADER, {"isr": [0, 1]}),
        (1, EventKind.BECAME_FOLLOWER, {"leader": 0}),
    ):
        event = TraceEvent(
            5, node, 1, 0, kind, "t", 0, 0, offset=0, detail={**leader, "high_watermark": 0}
        )
        write(folder / "trace" / f"broker-{node}-1.jsonl", encode_event(event) + b"\n")
        write(segment(folder, node), BATCH)
    return folder


def segment(folder: Path, node: int) -> Path:
    return folder / "segments" / f"broker-{node}" / "t-0" / SEGMENT


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
