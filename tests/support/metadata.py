"""Waits until brokers have heard of a topic."""

from __future__ import annotations

from highwater.cluster.asking import ask_any
from highwater.cluster.cluster import Cluster
from highwater.waiting import eventually
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_wire.kafka.messages import MetadataRequest

WITHIN_S = 60.0
ANSWER_WITHIN_S = 10.0


def await_known(cluster: Cluster, topic: str, partition_count: int = 1) -> None:
    """Wait until each broker that is up has the topic with so many led partitions, 0: has it not.

    The controller tells all brokers at once: one may hear of a topic after its leader serves it,
    and a stock client may ask that one.
    """
    brokers = [each for each in cluster.topology.broker_ids if cluster.try_snapshot(each)]
    eventually(
        lambda: all(_knows(cluster, each, topic) == partition_count for each in brokers),
        within=WITHIN_S,
        what=f"brokers {brokers} have {partition_count} partitions of {topic}",
        state=lambda: {each: _knows(cluster, each, topic) for each in brokers},
    )


def _knows(cluster: Cluster, broker: NodeId, topic: str) -> int:
    """Return how many partitions of the topic have a leader in the broker's metadata."""
    request = MetadataRequest((topic,))
    (found,) = ask_any(cluster, request, ANSWER_WITHIN_S, [broker]).topics
    return sum(each.error is ErrorCode.NONE for each in found.partitions)
