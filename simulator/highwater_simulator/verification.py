"""What a simulation's end must show: replicas that agree, and nothing acknowledged lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from highwater_checker.history import HistoryEvent, sends_of
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_simulator.oracle.shadow import LOG_SUFFIX
from highwater_simulator.world import World
from highwater_wire.kafka.record_batch import decode_records, split_batches


@dataclass(frozen=True, slots=True)
class ReplicaBatch:
    """One batch as it lies on a replica's disk; offsets in [base_offset, next_offset)."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    data: bytes

    def values(self) -> list[tuple[int, bytes]]:
        """Return (offset, value) of each record."""
        return [(record.offset, record.value or b"") for record in decode_records(self.data)]


def read_replica(
    world: World, broker_id: int, topic_partition: TopicPartition
) -> list[ReplicaBatch]:
    """Return the batches in the replica's segments, as its disk has them, in order."""
    folder = f"{topic_partition}/"
    segments = [
        content
        for path, content in world.brokers[broker_id].disk.files().items()
        if path.startswith(folder) and path.endswith(LOG_SUFFIX)
    ]
    return [
        ReplicaBatch(
            batch.header.base_offset,
            batch.header.last_offset + 1,
            batch.header.leader_epoch,
            bytes(batch.data),
        )
        for segment in segments
        for batch in split_batches(segment)
    ]


def find_differences(replicas: Mapping[int, Sequence[ReplicaBatch]]) -> list[str]:
    """Return where replicas that should be equal differ from the first of them."""
    problems: list[str] = []
    (first_id, first), *others = replicas.items()
    for broker_id, batches in others:
        for mine, theirs in zip(first, batches, strict=False):
            if mine.data != theirs.data:
                problems.append(
                    f"I3: brokers {first_id} and {broker_id} differ at offset {mine.base_offset}"
                )
                break
        if len(first) != len(batches):
            problems.append(
                f"I3: broker {first_id} has {len(first)} batches, {broker_id} {len(batches)}"
            )
    return problems


def find_losses(
    history: Iterable[HistoryEvent],
    topic_partition: TopicPartition,
    replicas: Mapping[int, Sequence[ReplicaBatch]],
) -> list[str]:
    """Return each acknowledged record that some replica does not have at its offset."""
    problems: list[str] = []
    for broker_id, batches in replicas.items():
        found = {offset: value for batch in batches for offset, value in batch.values()}
        for send in sends_of(history).acknowledged:
            if TopicPartition(send.topic, send.partition) != topic_partition:
                continue
            if found.get(send.offset) != send.value.encode():
                problems.append(
                    f"I1: {send.value!r}, acknowledged at {send.offset}, is not there on broker "
                    f"{broker_id}: {found.get(send.offset)!r}"
                )
    return problems


def find_bad_epochs(world: World, topic_partition: TopicPartition) -> list[str]:
    """Return each leader epoch of the partition that more than one broker led in.

    Epochs begin anew with each incarnation of the topic.
    """
    topic, partition = topic_partition.topic, topic_partition.partition
    leaders: dict[int, int] = {}
    problems: list[str] = []
    for event in world.trace.events(EventKind.TOPIC_CREATED, EventKind.BECAME_LEADER):
        if event.topic != topic:
            continue
        if event.kind is EventKind.TOPIC_CREATED:
            leaders.clear()
        elif event.partition == partition and event.leader_epoch is not None:
            other = leaders.setdefault(event.leader_epoch, event.node)
            if other != event.node:
                problems.append(
                    f"I7: brokers {other} and {event.node} both led epoch {event.leader_epoch}"
                )
    return problems


def verify(
    world: World,
    history: Sequence[HistoryEvent],
    topic_partition: TopicPartition,
    broker_ids: Iterable[int],
) -> list[str]:
    """Return every problem of a partition whose replicas should be equal by now."""
    replicas = {i: read_replica(world, i, topic_partition) for i in broker_ids}
    return [
        *find_differences(replicas),
        *find_losses(history, topic_partition, replicas),
        *find_bad_epochs(world, topic_partition),
    ]
