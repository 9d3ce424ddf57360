"""Waits until a running cluster has reached a state; each wait is bounded and says what it saw."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from highwater.cluster.broker_files import BrokerFiles
from highwater.cluster.cluster import Cluster
from highwater.cluster.collecting import copy_out
from highwater.cluster.containers import container_name
from highwater.cluster.disks import DATA_FOLDER
from highwater.cluster.engine import connect_engine
from highwater.report.observation import describe_look
from highwater.waiting import eventually
from highwater_checker.looks import Leadership, Look, leaderships, replicas_of
from highwater_checker.run_folder.lines import read_traces
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition

WITHIN_S = 60.0


def look_at(cluster: Cluster) -> Look:
    """Ask every node for its state, one after another."""
    nodes = {int(node): cluster.try_snapshot(node) for node in cluster.node_ids}
    return Look(time.monotonic_ns(), nodes)


def leaders_of(look: Look, topic: str) -> dict[TopicPartition, Leadership]:
    """Return the topic's leaders by partition."""
    return {key: value for key, value in leaderships(look).items() if key.topic == topic}


def await_look(
    cluster: Cluster, what: str, predicate: Callable[[Look], bool], *, within: float = WITHIN_S
) -> Look:
    """Return the first look of which the predicate is true.

    Raises:
        NeverHappened: there was none in time.
    """
    seen = [look_at(cluster)]

    def holds() -> bool:
        seen[0] = look_at(cluster)
        return predicate(seen[0])

    eventually(holds, within=within, what=what, state=lambda: describe_look(seen[0]))
    return seen[0]


def await_full_isr(
    cluster: Cluster, topic: str, partition_count: int = 1, *, within: float = WITHIN_S
) -> Look:
    """Return once each partition has a leader whose ISR is all of its assigned replicas."""

    def is_full(look: Look) -> bool:
        leaders = leaders_of(look, topic)
        return len(leaders) == partition_count and all(
            set(leadership.isr) == _assigned(look, leadership) for leadership in leaders.values()
        )

    return await_look(cluster, f"a full ISR of {topic}", is_full, within=within)


def await_replicated(
    cluster: Cluster, topic: str, partition_count: int = 1, *, within: float = WITHIN_S
) -> Look:
    """Return once all assigned replicas of each partition have HW = LEO, all the same."""

    def is_replicated(look: Look) -> bool:
        leaders = leaders_of(look, topic)
        return len(leaders) == partition_count and all(
            _is_replicated(look, leadership) for leadership in leaders.values()
        )

    return await_look(
        cluster, f"HW = LEO on every replica of {topic}", is_replicated, within=within
    )


def await_checkpointed(cluster: Cluster, topic: str, *, within_s: float = 20.0) -> None:
    """Return once every broker's high watermark checkpoint on disk has reached its log ends.

    For an idle topic. Under `v3` a broker that restarts truncates to its checkpoint, so that no
    loss can be promised over a kill of all brokers before this.

    Raises:
        NeverHappened: not within the time.
    """
    expected = {
        broker: {
            f"{key.topic} {key.partition} {replica.log_end_offset}"
            for key in leaders_of(look, topic)
            if (replica := replicas_of(look, key).get(broker)) is not None
        }
        for look in [look_at(cluster)]
        for broker in cluster.topology.broker_ids
    }

    def missing() -> dict[int, list[str]]:
        return {
            broker: sorted(lines - _checkpoint_lines(cluster, broker))
            for broker, lines in expected.items()
        }

    eventually(
        lambda: not any(missing().values()),
        within=within_s,
        what="high watermark checkpoints at the log ends",
        state=missing,
    )


def _checkpoint_lines(cluster: Cluster, broker: int) -> set[str]:
    try:
        content = BrokerFiles(cluster, broker).read("replication-offset-checkpoint")
    except FileNotFoundError:
        return set()
    return set(content.decode().splitlines())


def await_leader(
    cluster: Cluster,
    topic_partition: TopicPartition,
    *,
    above_epoch: int = -1,
    within: float = WITHIN_S,
) -> Leadership:
    """Return the partition's leader once one leads at a leader epoch above the given one."""

    def is_led(look: Look) -> bool:
        found = leaderships(look).get(topic_partition)
        return found is not None and found.leader_epoch > above_epoch

    what = f"a leader of {topic_partition} above leader_epoch {above_epoch}"
    return leaderships(await_look(cluster, what, is_led, within=within))[topic_partition]


# ---------------------------------------------------------------- traces of running nodes


def live_traces(cluster: Cluster, node: int) -> tuple[TraceEvent, ...]:
    """Return what the node traced so far, all incarnations; it may run."""
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


def _assigned(look: Look, leadership: Leadership) -> set[int]:
    replicas = replicas_of(look, leadership.topic_partition)
    return {int(broker) for broker in replicas[leadership.leader].assigned_replicas}


def _is_replicated(look: Look, leadership: Leadership) -> bool:
    replicas = replicas_of(look, leadership.topic_partition)
    ends = {(replica.high_watermark, replica.log_end_offset) for replica in replicas.values()}
    return set(replicas) == _assigned(look, leadership) and ends == {
        (leadership.log_end_offset, leadership.log_end_offset)
    }
