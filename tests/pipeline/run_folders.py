"""Writes small run folders as a run leaves them: one producer, one consumer, two replicas.

Each file of lines is written as its own program writes it; a test then breaks the file it checks.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from highwater_checker.history import HistoryEvent, OperationType, encode
from highwater_checker.probes import Probe, encode_probe
from highwater_checker.run_folder.documents import (
    FINAL_LOOK,
    PROMISES,
    PromisedProducer,
    PromisedTopic,
    Promises,
)
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot
from highwater_core.traces import encode_event
from tests.pipeline.record_histories import batch

START_WALL_NS = 1_795_000_000_000_000_000
LOG = "00000000000000000000.log"
BROKERS = (0, 1)


def operations(process: str, function: str, count: int) -> list[HistoryEvent]:
    """Return a client's history: so many operations, each with its completion."""
    return [
        HistoryEvent(
            time_ns=1_000 * number + (type_ is OperationType.OK),
            type=type_,
            operation_id=number,
            process=process,
            function=function,
            topic="t",
            partition=0,
            value=f"{process}-{number} \u00fc\n\u2028",
            offset=number if type_ is OperationType.OK else -1,
        )
        for number in range(count)
        for type_ in (OperationType.INVOKE, OperationType.OK)
    ]


def events(node: int, incarnation: int) -> list[TraceEvent]:
    """Return a node's trace: three kinds of events, two of them with a detail."""
    told: list[tuple[EventKind, dict[str, Any]]] = [
        (EventKind.NODE_STARTED, {"node_kind": "broker", "preset": "fenced"}),
        (EventKind.BECAME_LEADER, {"isr": [0, 1], "high_watermark": 0}),
        (EventKind.FETCHER_STOPPED, {}),
    ]
    return [
        TraceEvent(
            ts_ns=START_WALL_NS + seq,
            node=node,
            incarnation=incarnation,
            seq=seq,
            kind=kind,
            topic=None if seq == 0 else "t",
            partition=None if seq == 0 else 0,
            leader_epoch=None if seq == 0 else 2,
            offset=None if seq == 0 else 0,
            detail=detail,
        )
        for seq, (kind, detail) in enumerate(told)
    ]


def replica(role: str, high_watermark: int) -> ReplicaSnapshot:
    return ReplicaSnapshot(
        topic_partition=TopicPartition("t", 0),
        role=role,
        leader=NodeId(0),
        leader_epoch=LeaderEpoch(2),
        controller_epoch=ControllerEpoch(1),
        partition_epoch=PartitionEpoch(3),
        high_watermark=Offset(high_watermark),
        log_start_offset=Offset(0),
        log_end_offset=Offset(4),
        isr=(NodeId(0), NodeId(1)) if role == "leader" else (),
        assigned_replicas=(NodeId(0), NodeId(1)),
        topic_id=TopicId("x1" if role == "leader" else ""),
    )


def look(time_ns: int, high_watermark: int) -> dict[str, Any]:
    """Return a line of snapshots.jsonl: broker 0 leads, 1 follows, the controller is silent."""

    def broker(node: int, role: str) -> NodeSnapshot:
        return NodeSnapshot(
            node_id=NodeId(node),
            kind="broker",
            incarnation=node + 1,
            preset="fenced",
            controller_epoch=ControllerEpoch(1),
            broker_epoch=BrokerEpoch(9),
            replicas=(replica(role, high_watermark),),
        )

    return {
        "time_ns": time_ns,
        "nodes": {"0": broker(0, "leader"), "1": broker(1, "follower"), "1000": None},
    }


INTENTS = (
    {"at_ns": 5, "number": 1, "phase": "intended", "fault": {"fault": "kill", "node": "leader"}},
    {"at_ns": 6, "number": 2, "phase": "intended", "fault": {"fault": "heal"}},
    {"at_ns": 7, "number": 1, "phase": "acting", "node": 2, "proof": "exit 137"},
)
PLAN = {
    "title": "a kill",
    "seed": 7,
    "commit": "abc",
    "expected": {"verdict": "fail", "planted": "no_fsync"},
}
TOPOLOGY = {"brokers": 2, "controllers": 1, "preset": "fenced", "session_timeout_ms": 6000}
CLOCK = {"start_monotonic_ns": 12, "start_wall_ns": START_WALL_NS}
SEGMENT = (batch(0, "a", None, leader_epoch=2), batch(2, b"\xff", "d", leader_epoch=2))


@dataclass(frozen=True, slots=True)
class Folder:
    """A run's folder, to be broken by a test."""

    path: Path

    def write(self, name: str, data: bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def change(self, name: str, change: Callable[[bytes], bytes]) -> None:
        self.write(name, change((self.path / name).read_bytes()))

    def replace_line(self, name: str, number: int, line: bytes) -> None:
        lines = (self.path / name).read_bytes().split(b"\n")
        lines[number] = line
        self.write(name, b"\n".join(lines))


def clean_run(path: Path) -> Folder:
    """Write a whole run in which nothing is wrong."""
    folder = Folder(path)
    documents = (PLAN, TOPOLOGY, CLOCK, {"outcome": "pass", "checks": [], "requirements": []})
    names = ("plan.json", "topology.json", "clock.json", "verdict.json")
    for name, document in zip(names, documents, strict=True):
        folder.write(name, json.dumps(document, indent=2).encode())
    folder.write("history/p0.jsonl", lines(map(encode, operations("p0", "send", 3))))
    folder.write("history/p0.2.jsonl", lines(map(encode, operations("p0.2", "send", 2))))
    folder.write("history/c0.jsonl", lines(map(encode, operations("c0", "poll", 4))))
    for node, incarnation in ((0, 1), (0, 2), (1, 1)):
        trace = lines(map(encode_event, events(node, incarnation)))
        folder.write(f"trace/broker-{node}-{incarnation}.jsonl", trace)
    looks = [look(100, 0), look(200, 4)]
    folder.write("snapshots.jsonl", lines(map(msgspec.json.encode, looks)))
    probes = [Probe(1, 2, 0, "t", 0, 4), Probe(3, 4, 1, "t", 0, 4, "NOT_LEADER_OR_FOLLOWER", 4)]
    folder.write("probes.jsonl", lines(map(encode_probe, probes)))
    folder.write("intent.jsonl", lines(map(msgspec.json.encode, INTENTS)))
    for broker in BROKERS:
        folder.write(f"segments/broker-{broker}/meta.properties", b"x")
        segment = b"".join(each.data for each in SEGMENT)
        folder.write(f"segments/broker-{broker}/t-0/{LOG}", segment)
        folder.write(f"segments/broker-{broker}/gone-0.0-delete/{LOG}", b"half a batch")
    folder.write("logs/broker-0.log", b"nothing that is read\n")
    return folder


def lines(encoded: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in encoded)


def asked(folder: Folder, *, isr: tuple[int, ...] = (0, 1), **promised: Any) -> None:
    """Have the leader report this ISR in the last look, and the run have these promises."""
    final = look(200, 4)
    leader = final["nodes"]["0"]
    (replica,) = leader.replicas
    final["nodes"]["0"] = replace(leader, replicas=(replace(replica, isr=isr),))
    folder.replace_line("snapshots.jsonl", 1, msgspec.json.encode(final))
    folder.write(FINAL_LOOK.name, msgspec.json.encode(final))
    folder.write(PROMISES.name, PROMISES.encode(Promises(**promised)))


def in_sync_alone(folder: Folder) -> None:
    asked(folder, isr=(0,), topics=(PromisedTopic("t", 1, 2),), only_in_sync=True)
    shutil.rmtree(folder.path / "segments" / "broker-1")


def all_of_them(folder: Folder) -> None:
    asked(folder, isr=(0,), topics=(PromisedTopic("t", 1, 2),))


def weak_producer(folder: Folder) -> None:
    asked(folder, topics=(PromisedTopic("t", 1, 2),), producers=(PromisedProducer("p0", 1, 5),))


def unseen_end(folder: Folder) -> None:
    asked(folder, topics=(PromisedTopic("t", 1, 2),), only_in_sync=True)
    (folder.path / FINAL_LOOK.name).unlink()


def another_topic(folder: Folder) -> None:
    asked(folder, topics=(PromisedTopic("u", 1, 2),))
