"""Creates and deletes topics by ZooKeeper's paths, as the broker that a client asks.

A topic's znodes and the requests to its replicas are written together, or nothing is.
Source: the first design (V2): state changes are requested by the leader or the admin command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.cluster_view import ClusterView
from highwater_broker.first_design.queues import StateChangeQueues
from highwater_broker.logic.state_change_queue import FollowerStateChangeQueueFull
from highwater_core.admin_messages import TopicResult
from highwater_core.assignments import Assignment
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.first_design_znodes import (
    StateChange,
    StateChangeRequest,
    reassigned_topic_path,
)
from highwater_core.ids import NO_TOPIC_ID, LeaderEpoch, NodeId, TopicPartition
from highwater_core.messages import NewTopic
from highwater_core.ports import (
    ANY_VERSION,
    CreateOp,
    DeleteOp,
    MultiFailed,
    MultiOp,
    NodeExists,
    NoNode,
    Ports,
    TooLarge,
)
from highwater_core.topic_names import find_name_fault
from highwater_core.topic_plans import (
    Refused,
    Room,
    TopicDefaults,
    find_too_many_topics,
    plan_topic,
    refuse_repeated,
)
from highwater_core.topic_znode import decode_topic, encode_topic
from highwater_core.znodes import (
    MalformedZnode,
    TopicConfigZnode,
    decode_partition_state,
    encode,
    partition_path,
    partition_state_path,
    partitions_path,
    topic_config_path,
    topic_path,
)

MAX_ATTEMPTS = 20
"""To delete a topic whose znodes change meanwhile."""
Requests = list[tuple[NodeId, StateChangeRequest]]
ANY_EPOCH = LeaderEpoch(2**31 - 1)
"""The epoch of a close-replica where the partition's own cannot be read."""


class TopicWork:
    """Both procedures; several may run at a time."""

    def __init__(
        self,
        session: CurrentSession,
        ports: Ports,
        view: ClusterView,
        queues: StateChangeQueues,
        defaults: TopicDefaults,
    ) -> None:
        self._session = session
        self._defaults = defaults
        self._trace = ports.trace
        self._rng = ports.rng.stream("assignment")
        self._view = view
        self._queues = queues

    async def create(self, topics: Sequence[NewTopic], *, validate_only: bool) -> list[TopicResult]:
        """Return each topic's outcome.

        Raises:
            CoordinationError: the outcome of a topic is unknown.
        """
        results: list[TopicResult] = []
        counts, partition_count = Counter(topic.name for topic in topics), 0
        if too_many := find_too_many_topics(len(topics)):
            return [self._refusal("CreateTopics", topic.name, too_many) for topic in topics]
        for topic in topics:
            try:
                refuse_repeated(counts, topic.name)
                assignment = self._plan(topic, partition_count)
                if not validate_only:
                    await self._write(topic, assignment)
                partition_count += len(assignment)
            except Refused as refused:
                results.append(self._refusal("CreateTopics", topic.name, refused))
            else:
                results.append(TopicResult(topic.name, ErrorCode.NONE))
        return results

    async def delete(self, names: Sequence[str]) -> list[TopicResult]:
        """Return each topic's outcome.

        Raises:
            CoordinationError: the outcome of a topic is unknown.
        """
        results: list[TopicResult] = []
        if too_many := find_too_many_topics(len(names)):
            return [self._refusal("DeleteTopics", name, too_many) for name in names]
        for name in names:
            try:
                await self._remove(name)
            except Refused as refused:
                results.append(self._refusal("DeleteTopics", name, refused))
            else:
                results.append(TopicResult(name, ErrorCode.NONE))
        return results

    def _refusal(self, request: str, name: str, refused: Refused) -> TopicResult:
        self._trace.emit(
            EventKind.REQUEST_REFUSED,
            request=request,
            error=refused.error.name,
            message=str(refused)[:300],
            name=name[:300],
        )
        return TopicResult(name, refused.error, str(refused))

    # ------------------------------------------------------------ creation

    def _plan(self, topic: NewTopic, of_request: int) -> Assignment:
        """Return the topic's assignment; raises as plan_topic does."""
        live = sorted(self._view.live())
        return plan_topic(
            topic,
            live=live,
            may_host=live,
            defaults=self._defaults,
            room=Room(of_request, len(tuple(self._view.partitions())) + of_request),
            rng=self._rng,
        )

    async def _write(self, topic: NewTopic, assignment: Assignment) -> None:
        session, path = self._session.get(), topic_path(topic.name)
        exists = Refused(ErrorCode.TOPIC_ALREADY_EXISTS, "the topic exists")
        if await session.exists(path) is not None:
            raise exists
        config = encode(TopicConfigZnode(config=dict(topic.config)))
        try:
            await session.create(topic_config_path(topic.name), config)
        except NodeExists:
            await session.set(topic_config_path(topic.name), config)
        partitions = [TopicPartition(topic.name, number) for number in range(len(assignment))]
        operations: list[MultiOp] = [
            CreateOp(path, encode_topic(dict(enumerate(assignment)), NO_TOPIC_ID)),
            CreateOp(partitions_path(topic.name), b""),
            *(CreateOp(partition_path(at), b"") for at in partitions),
        ]
        requests = [
            (broker, StateChangeRequest(StateChange.START_REPLICA, at, LeaderEpoch(0)))
            for at, replicas in zip(partitions, assignment, strict=True)
            for broker in replicas
        ]
        operations += await self._sent(requests)
        try:
            await session.multi(operations)
        except MultiFailed as failed:
            raise (exists if isinstance(failed.error, NodeExists) else _unwritten(failed)) from None
        except TooLarge as large:
            raise Refused(ErrorCode.POLICY_VIOLATION, str(large)) from None
        self._trace.emit(
            EventKind.TOPIC_CREATED,
            topic=topic.name,
            assignment=[list(replicas) for replicas in assignment],
        )

    async def _sent(self, requests: Requests) -> list[CreateOp]:
        """Make room for the requests; return the operations that send them.

        Raises:
            Refused: a broker's queue is full.
        """
        try:
            return await self._queues.operations(requests)
        except FollowerStateChangeQueueFull as full:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"{type(full).__name__}: {full}") from None

    # ------------------------------------------------------------ deletion

    async def _remove(self, name: str) -> None:
        """Remove the topic's znodes, and send close-replica to all its replicas, together.

        Raises:
            Refused: there is no such topic, or it changes again and again.
        """
        if find_name_fault(name):
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        for _ in range(MAX_ATTEMPTS):
            doomed = await self._paths_below(topic_path(name))
            requests, versions = await self._closing(name)
            for beside in (topic_config_path(name), reassigned_topic_path(name)):
                if await self._session.get().exists(beside) is not None:
                    doomed += await self._paths_below(beside)
            operations: list[MultiOp] = [
                DeleteOp(path, versions.get(path, ANY_VERSION)) for path in doomed
            ]
            operations += await self._sent(requests)
            try:
                await self._session.get().multi(operations)
            except MultiFailed:
                continue  # a leader was elected, or gone, meanwhile
            except TooLarge as large:
                raise Refused(ErrorCode.POLICY_VIOLATION, str(large)) from None
            self._trace.emit(EventKind.TOPIC_DELETED, topic=name)
            return
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "its znodes change again and again")

    async def _paths_below(self, path: str) -> list[str]:
        """Return the znode and all below it, children before their parents."""
        found, level = [path], [path]
        while level:
            below: list[str] = []
            for parent in level:
                try:
                    names = await self._session.get().children(parent)
                except NoNode:
                    continue
                below += [f"{parent}/{name}" for name in names]
            found += below
            level = below
        return found[::-1]

    async def _closing(self, name: str) -> tuple[Requests, dict[str, int]]:
        """Return the requests that close the topic's replicas, and the versions of the znodes read.

        The replicas are all there are, and each request has its partition's epoch, while the
        znodes have these versions.

        Raises:
            Refused: there is no such topic, or its assignment cannot be read.
        """
        try:
            data, stat = await self._session.get().get(topic_path(name))
            assignment = decode_topic(data, name).assignment
        except NoNode:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic") from None
        except MalformedZnode as fault:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(fault)) from None
        requests: Requests = []
        versions = {topic_path(name): stat.node_version}
        for at, replicas in assignment.items():
            epoch = LeaderEpoch(0)
            path = partition_state_path(at)
            with suppress(NoNode):
                data, stat = await self._session.get().get(path)
                epoch, versions[path] = _epoch_in(data, path), stat.node_version
            request = StateChangeRequest(StateChange.CLOSE_REPLICA, at, epoch)
            requests += [(broker, request) for broker in replicas]
        return requests, versions


def _epoch_in(data: bytes, path: str) -> LeaderEpoch:
    try:
        return decode_partition_state(data, path).leader_epoch
    except MalformedZnode:
        return ANY_EPOCH


def _unwritten(failed: MultiFailed) -> Refused:
    return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"it was not written: {failed}")
