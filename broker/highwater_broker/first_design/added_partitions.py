"""Adds partitions to topics by ZooKeeper's paths, as the broker that a client asks.

The topic's znode and a start-replica for each new replica are written together, or nothing is.
Source: the first design (V2): start-replica is requested by "the admin command for a new replica
assignment"; KIP-195; docs/decisions/0010.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.cluster_view import ClusterView
from highwater_broker.first_design.queues import StateChangeQueues
from highwater_broker.logic.state_change_queue import FollowerStateChangeQueueFull
from highwater_core.admin_messages import NewPartitions, TopicResult
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.first_design_znodes import StateChange, StateChangeRequest
from highwater_core.ids import LeaderEpoch, NodeId, TopicPartition
from highwater_core.partition_plans import plan_partitions, refuse_unexpandable
from highwater_core.ports import (
    CreateOp,
    MultiFailed,
    MultiOp,
    NoNode,
    SetOp,
    TooLarge,
    Trace,
)
from highwater_core.topic_plans import (
    Refused,
    Room,
    find_too_many_topics,
    refuse_repeated,
)
from highwater_core.topic_znode import TopicContent, decode_topic, encode_content
from highwater_core.znodes import MalformedZnode, partition_path, partitions_path, topic_path

MAX_ATTEMPTS = 20
"""To expand a topic whose znode changes meanwhile."""
Added = dict[TopicPartition, tuple[NodeId, ...]]


class AddedPartitions:
    """Several requests may be carried out at a time."""

    def __init__(
        self, session: CurrentSession, trace: Trace, view: ClusterView, queues: StateChangeQueues
    ) -> None:
        self._session = session
        self._trace = trace
        self._view = view
        self._queues = queues

    async def add(
        self, topics: Sequence[NewPartitions], *, validate_only: bool
    ) -> list[TopicResult]:
        """Return each topic's outcome.

        Raises:
            CoordinationError: the outcome of a topic is unknown.
        """
        if too_many := find_too_many_topics(len(topics)):
            return [self._refusal(each.topic, too_many) for each in topics]
        counts, partition_count = Counter(each.topic for each in topics), 0
        results: list[TopicResult] = []
        for wanted in topics:
            try:
                refuse_repeated(counts, wanted.topic)
                partition_count += await self._expand(
                    wanted, partition_count, validate_only=validate_only
                )
            except Refused as refused:
                results.append(self._refusal(wanted.topic, refused))
            else:
                results.append(TopicResult(wanted.topic, ErrorCode.NONE))
        return results

    def _refusal(self, topic: str, refused: Refused) -> TopicResult:
        self._trace.emit(
            EventKind.REQUEST_REFUSED,
            request="CreatePartitions",
            error=refused.error.name,
            message=str(refused)[:300],
            name=topic[:300],
        )
        return TopicResult(topic, refused.error, str(refused))

    async def _expand(self, wanted: NewPartitions, of_request: int, *, validate_only: bool) -> int:
        """Add the partitions, and return their number.

        Raises:
            Refused: it is not allowed, or the topic changes again and again.
        """
        topic = wanted.topic
        for _ in range(MAX_ATTEMPTS):
            content, version = await self._read(topic)
            added = self._plan(wanted, content, of_request)
            if validate_only or await self._write(topic, content, version, added):
                return len(added)
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "its znode changes again and again")

    async def _read(self, topic: str) -> tuple[TopicContent, int]:
        try:
            data, stat = await self._session.get().get(topic_path(topic))
            return decode_topic(data, topic), stat.node_version
        except NoNode:
            message = "there is no such topic"
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message) from None
        except MalformedZnode as fault:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(fault)) from None

    def _plan(self, wanted: NewPartitions, content: TopicContent, of_request: int) -> Added:
        numbers = [at.partition for at in content.assignment]
        refuse_unexpandable(numbers, is_moved=bool(content.reassignments))
        live = self._view.live()
        more = plan_partitions(
            wanted,
            tuple(content.assignment.values()),
            live=live,
            may_host=live,
            room=Room(of_request, len(tuple(self._view.partitions())) + of_request),
        )
        added = enumerate(more, len(numbers))
        return {TopicPartition(wanted.topic, number): each for number, each in added}

    async def _write(
        self, topic: str, content: TopicContent, node_version: int, added: Added
    ) -> bool:
        """Write the topic and the requests; False, with nothing written, where it has changed.

        Raises:
            Refused: a queue, or ZooKeeper, has no room for it.
        """
        whole = content._replace(assignment={**content.assignment, **added})
        operations: list[MultiOp] = [SetOp(topic_path(topic), encode_content(whole), node_version)]
        operations += await self._parents(topic, added)
        requests = [
            (broker, StateChangeRequest(StateChange.START_REPLICA, at, LeaderEpoch(0)))
            for at, replicas in added.items()
            for broker in replicas
        ]
        try:
            operations += await self._queues.operations(requests)
            await self._session.get().multi(operations)
        except MultiFailed:
            return False
        except FollowerStateChangeQueueFull as full:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"{type(full).__name__}: {full}") from None
        except TooLarge as large:
            raise Refused(ErrorCode.POLICY_VIOLATION, str(large)) from None
        self._trace.emit(
            EventKind.PARTITIONS_CREATED,
            topic=topic,
            first_partition=min(added).partition,
            assignment=[list(replicas) for replicas in added.values()],
        )
        return True

    async def _parents(self, topic: str, added: Collection[TopicPartition]) -> list[CreateOp]:
        """Return what creates the znodes above the partitions' states."""
        path = partitions_path(topic)
        try:
            there = await self._session.get().children(path)
        except NoNode:  # somebody wrote the topic by hand
            return [CreateOp(path, b""), *(CreateOp(partition_path(at), b"") for at in added)]
        missing = [at for at in added if str(at.partition) not in there]
        return [CreateOp(partition_path(at), b"") for at in missing]
