"""What a broker that commands itself has to do next, each thing once."""

from __future__ import annotations

from dataclasses import dataclass

from highwater_broker.partition import Partition
from highwater_core.first_design_znodes import LEADER_NAME
from highwater_core.ids import TopicPartition
from highwater_core.ports import CoordinationEvent, CoordinationEventKind
from highwater_core.runtime import Runtime
from highwater_core.znodes import BROKER_IDS, TOPICS, is_id

_OF_PARTITION = (LEADER_NAME, "state")


@dataclass(frozen=True, slots=True)
class AllAgain:
    """Read everything: a session has begun, or its connection was lost."""


@dataclass(frozen=True, slots=True)
class RequestsAgain:
    """Read this broker's queue."""


@dataclass(frozen=True, slots=True)
class BrokersAgain:
    """Read the registrations."""


@dataclass(frozen=True, slots=True)
class TopicsAgain:
    """Read the names of the topics."""


@dataclass(frozen=True, slots=True)
class TopicAgain:
    """Read a topic's assignment."""

    topic: str


@dataclass(frozen=True, slots=True)
class PartitionAgain:
    """Read a partition's leader path and state."""

    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class TakenOver:
    """This broker has taken over the partition."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class FolderFailed:
    """A log folder has failed."""

    name: str


@dataclass(frozen=True, slots=True)
class FoldersChanged:
    """Replicas are out of service."""


Work = (
    AllAgain
    | RequestsAgain
    | BrokersAgain
    | TopicsAgain
    | TopicAgain
    | PartitionAgain
    | TakenOver
    | FolderFailed
    | FoldersChanged
)


class WorkList:
    """Work in the order in which it was noted; what is on the list already is not noted twice.

    It reads state when it is done, so one time is enough.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._waiting: dict[Work, None] = {}
        self._is_there = runtime.event()

    def add(self, work: Work) -> None:
        self._waiting[work] = None
        self._is_there.set()

    async def next(self) -> Work:
        """Remove and return the oldest work."""
        while not self._waiting:
            self._is_there.clear()
            await self._is_there.wait()
        work = next(iter(self._waiting))
        del self._waiting[work]
        return work


def work_of(event: CoordinationEvent, own_queue: str) -> Work | None:
    """Return the work that a session's event gives, None for one that concerns others."""
    if event.kind is CoordinationEventKind.SESSION_ESTABLISHED:
        return AllAgain()
    if event.kind is CoordinationEventKind.CHILDREN_CHANGED:
        of_children: dict[str, Work] = {
            own_queue: RequestsAgain(),
            BROKER_IDS: BrokersAgain(),
            TOPICS: TopicsAgain(),
        }
        return of_children.get(event.path)
    if event.kind is not CoordinationEventKind.NODE_CHANGED:
        return None
    match event.path.split("/"):
        case [_, "brokers", "topics", topic]:
            return TopicAgain(topic)
        case [_, "brokers", "topics", topic, "partitions", number, name] if name in _OF_PARTITION:
            return _partition_again(topic, number)
        case [_, "brokers", "partitions_reassigned", topic, number]:
            return _partition_again(topic, number)
    return None


def _partition_again(topic: str, number: str) -> Work | None:
    return PartitionAgain(TopicPartition(topic, int(number))) if is_id(number) else None
