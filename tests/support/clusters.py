"""Bounded waits of tests on a running cluster, and a hold on its replication."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from highwater.cluster.cluster import Cluster
from highwater.cluster.collecting import copy_out
from highwater.cluster.containers import container_name
from highwater.cluster.disks import DATA_FOLDER
from highwater.cluster.engine import connect_engine
from highwater.cluster.settling import WITHIN_S, await_look
from highwater.waiting import eventually
from highwater_checker.looks import Leadership, Look, leaderships
from highwater_checker.run_folder.lines import read_traces
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition

_RUN_OUT_WITHIN_S = 60.0


@contextmanager
def replication_held(cluster: Cluster, leader: int) -> Iterator[None]:
    """Pause every broker but the leader, so that no record that it appends is fetched.

    Fetches that waited at the leader have timed out when the block begins: followers would take
    later answers when they wake. The block must end before the followers' sessions do, or the
    controller takes them for dead.
    """
    others = [broker for broker in cluster.topology.broker_ids if broker != leader]

    def unpause(broker: int) -> None:
        if cluster.status(broker) == "paused":
            cluster.unpause(broker)

    with ThreadPoolExecutor(len(others), thread_name_prefix="pause") as pool:
        try:
            list(pool.map(cluster.pause, others))
            eventually(
                lambda: dict(cluster.snapshot(leader).counters)["waiting_requests"] == 0,
                within=_RUN_OUT_WITHIN_S,
                what=f"no fetch of a paused follower waits at broker {leader}",
            )
            yield
        finally:
            list(pool.map(unpause, others))


def await_led_by(cluster: Cluster, at: TopicPartition, broker: int) -> Leadership:
    """Return the partition's leadership once that broker says itself that it leads."""
    look = await_look(
        cluster,
        f"broker {broker} leads {at}",
        lambda look: (led := leaderships(look).get(at)) is not None and led.leader == broker,
    )
    return leaderships(look)[at]


def whole_look(cluster: Cluster) -> Look:
    """Return a look at a cluster whose nodes all run, with each one's answer.

    In a single look a node of a busy machine may be late, and is as if it were down.
    """
    return await_look(cluster, "every node answers", lambda look: None not in look.nodes.values())


# ---------------------------------------------------------------- traces of running nodes


def live_traces(cluster: Cluster, node: int) -> tuple[TraceEvent, ...]:
    """Return the node's trace so far, of all incarnations; the node may run."""
    container = container_name(cluster.run_id, cluster.topology.node(node))
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        copy_out(connect_engine(), container, f"{DATA_FOLDER}/trace", Path(folder))
        return read_traces(Path(folder))


def await_trace(
    cluster: Cluster,
    node: int,
    kind: EventKind,
    *,
    topic_partition: TopicPartition | None = None,
    incarnation: int | None = None,
    within: float = WITHIN_S,
    **detail_parts: str,
) -> TraceEvent:
    """Return the node's newest event of the kind, once there is one.

    detail_parts: texts that the event's details of these names must contain.
    """

    def newest() -> TraceEvent | None:
        found = [
            event
            for event in live_traces(cluster, node)
            if event.kind is kind
            and incarnation in (None, event.incarnation)
            and _contains(event.detail, detail_parts)
            and (
                topic_partition is None
                or (event.topic, event.partition)
                == (topic_partition.topic, topic_partition.partition)
            )
        ]
        return found[-1] if found else None

    what = f"{kind} in the trace of node {node}, {topic_partition or ''} {detail_parts or ''}"
    event: TraceEvent = eventually(newest, within=within, what=what)
    return event


def _contains(detail: Mapping[str, object], parts: Mapping[str, str]) -> bool:
    return all(part in str(detail.get(name, "")) for name, part in parts.items())
