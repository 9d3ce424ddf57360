"""The end of a test's cluster: the requirements and promises of its run. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from highwater_checker.looks import Look, assigned_replicas, leaderships, replicas_of
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    PromisedConsumer,
    PromisedProducer,
    PromisedTopic,
    Promises,
)
from highwater_checker.verdict import Requirement
from highwater_core.ids import TopicPartition
from highwater_core.topic_configs import CLEANUP_POLICY
from highwater_wire.kafka.config_messages import DescribedConfig
from highwater_wire.kafka.messages import MetadataTopic


@dataclass(frozen=True, slots=True)
class NodeAtEnd:
    """A node at a test's end.

    runs: its container runs. answers: it reported its state; ZooKeeper never does.
    has_fault: the test did a fault to it, and has not undone it by the cluster's functions.
    """

    name: str
    runs: bool
    answers: bool
    has_fault: bool


@dataclass(frozen=True, slots=True)
class NodesDown:
    """The names of nodes that are down at the end.

    by_test: the test left them killed, stopped, frozen or cut off.
    otherwise: they ended by themselves, or were stopped or removed by other means.
    """

    by_test: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()

    @property
    def are_some(self) -> bool:
        return bool(self.by_test or self.otherwise)


@dataclass(frozen=True, slots=True)
class Ending:
    """The state of a test's cluster once its clients have ended.

    topics: the topics that exist at the end; None when no broker answered.
    unsettled: the first condition of a cluster at rest that did not hold in time, else "".
    unread: the consumers that did not read to the end, with the reason.
    """

    topics: tuple[PromisedTopic, ...] | None
    down: NodesDown = NodesDown()
    unsettled: str = ""
    unread: Mapping[str, str] | None = None


def nodes_down(nodes: Iterable[NodeAtEnd]) -> NodesDown:
    """Return the nodes that are down, in their order.

    A node with a fault that answers was healed by other means. One without a fault that runs and is
    silent may be slow: it is no node that is down.
    """
    by_test: list[str] = []
    otherwise: list[str] = []
    for node in nodes:
        if node.has_fault and not node.answers:
            by_test.append(node.name)
        elif not node.runs:
            otherwise.append(node.name)
    return NodesDown(tuple(by_test), tuple(otherwise))


def unsettled(look: Look, partitions: Collection[TopicPartition], *, in_sync_alone: bool) -> str:
    """Return the first thing that the look lacks to be one of a cluster at rest; "" for nothing.

    Each partition must have a leader, and every replica in the ISR its leader's log end as its own
    and as its high watermark. The ISR must be all assigned replicas unless in_sync_alone.
    """
    led = leaderships(look)
    for at in sorted(partitions):
        leadership = led.get(at)
        if leadership is None:
            return f"{at} has no leader"
        assigned = sorted(map(int, assigned_replicas(look, at)))
        isr = sorted(map(int, leadership.isr))
        if not in_sync_alone and isr != assigned:
            return f"{at}: the ISR is {isr}, of {assigned}"
        replicas = replicas_of(look, at)
        due = leadership.log_end_offset
        for broker in isr:
            replica = replicas.get(broker)
            if replica is None:
                return f"{at}: broker {broker} is in the ISR and does not answer"
            if (replica.high_watermark, replica.log_end_offset) != (due, due):
                found = f"HW {replica.high_watermark}, LEO {replica.log_end_offset}"
                return f"{at}: broker {broker} has {found} where the leader's log ends at {due}"
    return ""


def topics_of(
    told: Sequence[MetadataTopic], configs: Sequence[DescribedConfig]
) -> tuple[PromisedTopic, ...]:
    """Return the topics of a Metadata and a DescribeConfigs answer, by name."""
    compacted = {
        each.resource_name
        for each in configs
        for entry in each.entries
        if entry.name == CLEANUP_POLICY and "compact" in (entry.value or "")
    }
    return tuple(
        PromisedTopic(
            topic.name,
            len(topic.partitions),
            max((len(partition.replicas) for partition in topic.partitions), default=0),
            topic.name in compacted,
        )
        for topic in sorted(told, key=lambda each: each.name)
    )


def partitions_of(topics: Sequence[PromisedTopic]) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition)
        for topic in topics
        for partition in range(topic.partitions)
    ]


def promises_of(
    ending: Ending,
    producers: Sequence[PromisedProducer],
    consumers: Sequence[PromisedConsumer],
) -> Promises:
    """Return the promises of a test's cluster.

    Replicas out of the ISR are checked only where the test left no node down and all settled.
    """
    return Promises(
        topics=ending.topics or (),
        producers=tuple(producers),
        consumers=tuple(consumers),
        to_the_end=not ending.unread,
        only_in_sync=bool(ending.down.are_some or ending.unsettled or ending.topics is None),
        kept=(names.LOOKS, names.INTENTS),
    )


def requirements_of(ending: Ending) -> tuple[Requirement, ...]:
    """Return what must hold at a test's end for its clean checks to prove anything."""
    told = ending.topics is not None
    settled = "the cluster came to rest after the test"
    if ending.down.by_test:
        settled += f", but for {', '.join(ending.down.by_test)}, which the test left down"
    otherwise = ending.down.otherwise
    unread = ending.unread or {}
    return (
        Requirement("a broker told the cluster's topics", told, "none answered"),
        Requirement(settled, not ending.unsettled, ending.unsettled),
        Requirement("no node is down but by the test", not otherwise, ", ".join(otherwise)),
        *(
            Requirement(f"{client} read to the end", False, why)
            for client, why in sorted(unread.items())
        ),
    )
