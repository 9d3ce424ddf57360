"""Waits until brokers have heard of a topic."""

from __future__ import annotations

from highwater.cluster.asking import NoBrokerAnswers, ask_any
from highwater.cluster.cluster import Cluster
from highwater.waiting import eventually
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_wire.kafka.messages import MetadataRequest, MetadataTopic

WITHIN_S = 60.0
ANSWER_WITHIN_S = 10.0


def await_known(cluster: Cluster, topic: str, partition_count: int = 1) -> None:
    """Wait until each broker that runs has the topic with so many led partitions, 0: has it not.

    The controller tells all brokers at once: one may hear of a topic after its leader serves it,
    and a stock client may ask that one.
    """
    brokers = [each for each in cluster.topology.broker_ids if cluster.status(each) == "running"]
    seen: dict[NodeId, int] = {}

    def all_know() -> bool:
        seen.update((each, _knows(cluster, each, topic)) for each in brokers)
        return set(seen.values()) == {partition_count}

    eventually(
        all_know,
        within=WITHIN_S,
        what=f"brokers {brokers} have {partition_count} partitions of {topic}",
        state=lambda: seen,
        retry_on=NoBrokerAnswers,  # it starts, or is slow
    )


def await_assigned(cluster: Cluster, at: TopicPartition, replicas: tuple[int, ...]) -> None:
    """Wait until every broker has the partition with these replicas alone, preferred first.

    A move is over for the controller before brokers, which a stock client may ask, have heard.
    """
    seen: dict[NodeId, tuple[int, ...]] = {}

    def all_know() -> bool:
        for broker in cluster.topology.broker_ids:
            partitions = _described(cluster, broker, at.topic).partitions
            seen.update((broker, p.replicas) for p in partitions if p.partition == at.partition)
        return seen == dict.fromkeys(cluster.topology.broker_ids, replicas)

    eventually(
        all_know,
        within=WITHIN_S,
        what=f"all brokers have {at} on {replicas}",
        state=lambda: seen,
        retry_on=NoBrokerAnswers,
    )


def _knows(cluster: Cluster, broker: NodeId, topic: str) -> int:
    """Return how many partitions of the topic have a leader in the broker's metadata."""
    found = _described(cluster, broker, topic)
    return sum(each.error is ErrorCode.NONE for each in found.partitions)


def _described(cluster: Cluster, broker: NodeId, topic: str) -> MetadataTopic:
    found: MetadataTopic
    (found,) = ask_any(cluster, MetadataRequest((topic,)), ANSWER_WITHIN_S, [broker]).topics
    return found
