"""Waits until a running cluster has reached a state; each wait is bounded, and shows its last
look."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping

from highwater.cluster.cluster import AT_ONCE_S, Cluster
from highwater.errors import NodeUnreachable
from highwater.report.observation import active_controller, describe_look
from highwater.waiting import eventually
from highwater_checker.looks import Leadership, Look, leaderships, replicas_of
from highwater_checker.run_folder.documents import Znode
from highwater_core.ids import TopicPartition
from highwater_core.znodes import partition_state_path

WITHIN_S = 60.0


def look_at(cluster: Cluster, *, timeout_s: float = AT_ONCE_S) -> Look:
    """Ask every node for its state, one after another; timeout_s: each one's."""
    nodes = {
        int(node): cluster.try_snapshot(node, timeout_s=timeout_s) for node in cluster.node_ids
    }
    return Look(time.monotonic_ns(), nodes)


def leaders_of(look: Look, topic: str) -> dict[TopicPartition, Leadership]:
    """Return the topic's leaders by partition."""
    return {key: value for key, value in leaderships(look).items() if key.topic == topic}


def await_look(
    cluster: Cluster, what: str, predicate: Callable[[Look], bool], *, within: float = WITHIN_S
) -> Look:
    """Return the first look for which the predicate is true.

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
    """Return once each partition has a leader whose ISR is all of its assigned replicas.

    The topic has at least so many partitions: more where it was expanded.
    """

    def is_full(look: Look) -> bool:
        leaders = leaders_of(look, topic)
        return len(leaders) >= partition_count and all(
            set(leadership.isr) == _assigned(look, leadership) for leadership in leaders.values()
        )

    return await_look(cluster, f"a full ISR of {topic}", is_full, within=within)


def await_replicated(
    cluster: Cluster,
    topic: str,
    partition_count: int = 1,
    *,
    within: float = WITHIN_S,
    everyone: bool = False,
) -> Look:
    """Return once all assigned replicas of each partition have HW = LEO, all the same.

    everyone: whether every node must answer in that look, also one without an assigned replica.
    """
    return await_look(
        cluster,
        f"HW = LEO on every replica of {topic}",
        lambda look: is_replicated(look, topic, partition_count, everyone=everyone),
        within=within,
    )


def is_replicated(look: Look, topic: str, partition_count: int, *, everyone: bool) -> bool:
    """Return whether the replicas of at least so many partitions are the assigned ones, and equal.

    everyone: whether a node that did not answer means no: it may have a replica that nobody
    assigned.
    """
    leaders = leaders_of(look, topic)
    is_whole = not everyone or None not in look.nodes.values()
    return (
        is_whole
        and len(leaders) >= partition_count
        and all(_is_replicated(look, leadership) for leadership in leaders.values())
    )


def await_written_isr(cluster: Cluster, topics: Collection[str], *, within: float) -> None:
    """Return once ZooKeeper has the leaders and ISRs that the topics' leaders have.

    A leader that missed the answer to its write goes on with another ISR than all others know
    (KAFKA-1382).

    Raises:
        NeverHappened: it has others.
    """
    unlike = [""]

    def is_written() -> bool:
        try:
            znodes = cluster.zookeeper_dump()
        except NodeUnreachable as error:
            unlike[0] = str(error)
            return False
        unlike[0] = "; ".join(unlike_zookeeper(look_at(cluster), znodes, topics))
        return not unlike[0]

    what = "ZooKeeper has each leader's ISR"
    eventually(is_written, within=within, what=what, state=lambda: unlike[0])


def unlike_zookeeper(
    look: Look, znodes: Mapping[str, Znode], topics: Collection[str]
) -> Iterator[str]:
    """Yield each partition of the topics whose state in ZooKeeper is another than its leader's."""
    for at, leadership in leaderships(look).items():
        if at.topic not in topics:
            continue
        znode = znodes.get(partition_state_path(at))
        written = znode.data if znode is not None and isinstance(znode.data, dict) else {}
        isr = written.get("isr")
        members = sorted(isr) if isinstance(isr, list) else isr
        if (written.get("leader"), members) != (leadership.leader, [*leadership.isr]):
            yield (
                f"{at}: broker {leadership.leader} leads with ISR {list(leadership.isr)}, "
                f"ZooKeeper has leader {written.get('leader')} and ISR {isr}"
            )


def await_active_controller(cluster: Cluster, *, within: float = WITHIN_S) -> Look:
    """Return once a controller acts; no controller container runs under preset v2."""

    def is_led(look: Look) -> bool:
        return active_controller(look) is not None

    return await_look(cluster, "an active controller", is_led, within=within)


def await_leader(
    cluster: Cluster,
    topic_partition: TopicPartition,
    *,
    above_epoch: int = -1,
    within: float = WITHIN_S,
) -> Leadership:
    """Return the partition's leader once there is one with a leader epoch above the given one."""

    def is_led(look: Look) -> bool:
        found = leaderships(look).get(topic_partition)
        return found is not None and found.leader_epoch > above_epoch

    what = f"a leader of {topic_partition} above leader_epoch {above_epoch}"
    return leaderships(await_look(cluster, what, is_led, within=within))[topic_partition]


def _assigned(look: Look, leadership: Leadership) -> set[int]:
    replicas = replicas_of(look, leadership.topic_partition)
    return {int(broker) for broker in replicas[leadership.leader].assigned_replicas}


def _is_replicated(look: Look, leadership: Leadership) -> bool:
    replicas = replicas_of(look, leadership.topic_partition)
    ends = {(replica.high_watermark, replica.log_end_offset) for replica in replicas.values()}
    return set(replicas) == _assigned(look, leadership) and ends == {
        (leadership.log_end_offset, leadership.log_end_offset)
    }
