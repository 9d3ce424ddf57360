"""Requests for moved replicas, as the broker that a client asks: it writes, and reads, RAR.

The partition's leader, which watches RAR, does the rest (moves.py).
Source: the first design (V2), /brokers/partitions_reassigned; KIP-455; docs/decisions/0010.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.asked_replicas import AskedReplicas
from highwater_broker.first_design.cluster_view import ClusterView
from highwater_core.admin_messages import OngoingReassignment, PartitionResult, ReassignmentItem
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.first_design_znodes import (
    REASSIGNED_PARTITIONS,
    encode_reassigned,
    reassigned_path,
    reassigned_topic_path,
)
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.ports import (
    CheckOp,
    CreateOp,
    DeleteOp,
    MultiFailed,
    MultiOp,
    NoNode,
    SetOp,
    Trace,
)
from highwater_core.reassignments import (
    NOT_REASSIGNED,
    find_target_fault,
    original_of,
    reassign,
)
from highwater_core.topic_plans import Refused
from highwater_core.topic_znode import Reassignment, TopicContent, decode_topic
from highwater_core.znodes import MalformedZnode, topic_path

MAX_ATTEMPTS = 20
"""To write a partition's RAR while its topic changes."""
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class MoveRequests:
    """Several requests may be carried out at a time."""

    def __init__(
        self, session: CurrentSession, trace: Trace, view: ClusterView, asked: AskedReplicas
    ) -> None:
        self._session = session
        self._trace = trace
        self._view = view
        self._asked = asked

    # ------------------------------------------------------------ AlterPartitionReassignments

    async def alter(self, items: Sequence[ReassignmentItem]) -> list[PartitionResult]:
        """Ask for each partition's replicas, or no longer; return the outcomes.

        Raises:
            CoordinationError: the outcome of a partition is unknown.
        """
        counts = Counter(item.topic_partition for item in items)
        results: dict[TopicPartition, PartitionResult] = {}
        for item in items:
            at = item.topic_partition
            error, message = ErrorCode.NONE, ""
            try:
                _refuse_repeated(counts, at)
                await self._ask(at, item.replicas)
            except Refused as refused:
                error, message = refused.error, str(refused)
                self._trace.emit(
                    EventKind.REQUEST_REFUSED,
                    topic=at.topic,
                    partition=at.partition,
                    request="AlterReassignmentsRequest",
                    error=error.name,
                    message=message[:300],
                )
            results[at] = PartitionResult(at, error, message)
        return list(results.values())

    async def _ask(self, at: TopicPartition, replicas: tuple[NodeId, ...] | None) -> None:
        """Write RAR, or remove it; while the partition exists.

        Raises:
            Refused: the partition cannot have these replicas.
        """
        path = reassigned_path(at)
        await self._session.get().ensure_path(REASSIGNED_PARTITIONS)
        for _ in range(MAX_ATTEMPTS):
            content, version = await self._read_topic(at.topic)
            if at not in content.assignment:
                raise Refused(_UNKNOWN, "there is no such partition")
            there = await self._session.get().exists(path)
            operations: list[MultiOp] = [CheckOp(topic_path(at.topic), version)]
            if replicas is None:
                if there is None and at not in content.reassignments:
                    error = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                    raise Refused(error, "no replica is being moved")
                if there is None:
                    return  # it is being given up
                operations.append(DeleteOp(path, there.node_version))
            else:
                live = frozenset(self._view.live())
                fault = find_target_fault(replicas, content.assignment[at], live)
                if fault:
                    raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
                data = encode_reassigned(replicas)
                if there is None:
                    operations += await self._parent(at.topic)
                    operations.append(CreateOp(path, data))
                else:
                    operations.append(SetOp(path, data, there.node_version))
            with suppress(MultiFailed):  # the topic, or RAR, has changed meanwhile
                await self._session.get().multi(operations)
                return
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "its znodes change again and again")

    async def _parent(self, topic: str) -> list[MultiOp]:
        path = reassigned_topic_path(topic)
        there = await self._session.get().exists(path)
        return [] if there is not None else [CreateOp(path, b"")]

    async def _read_topic(self, topic: str) -> tuple[TopicContent, int]:
        """Return the topic's content and version.

        Raises:
            Refused: there is no such topic, or it cannot be read.
        """
        try:
            data, stat = await self._session.get().get(topic_path(topic))
            return decode_topic(data, topic), stat.node_version
        except NoNode:
            raise Refused(_UNKNOWN, "there is no such topic") from None
        except MalformedZnode as fault:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(fault)) from None

    # ------------------------------------------------------------ ListPartitionReassignments

    async def ongoing(
        self, wanted: Sequence[TopicPartition] | None
    ) -> tuple[OngoingReassignment, ...]:
        """Return the partitions that are moved, among the wanted ones; None: all.

        They are those of the topics' znodes, and those that the leader has yet to begin.
        """
        asked = await self._asked.listed()
        contents: dict[str, TopicContent] = {}
        for topic in sorted({at.topic for at in asked} | self._moved_topics()):
            with suppress(Refused):
                contents[topic] = (await self._read_topic(topic))[0]
        found: list[OngoingReassignment] = []
        for content in contents.values():
            for at, replicas in content.assignment.items():
                known = content.reassignments.get(at, NOT_REASSIGNED)
                if (wanted is None or at in wanted) and (at in asked or known != NOT_REASSIGNED):
                    found.append(_ongoing(at, replicas, known, asked.get(at)))
        return tuple(found)

    def _moved_topics(self) -> set[str]:
        return {
            at.topic
            for at in self._view.partitions()
            if self._view.reassignment_of(at) != NOT_REASSIGNED
        }


def _refuse_repeated(counts: Counter[TopicPartition], at: TopicPartition) -> None:
    if counts[at] > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "the partition is named more than once")


def _ongoing(
    at: TopicPartition,
    replicas: tuple[NodeId, ...],
    known: Reassignment,
    asked: tuple[NodeId, ...] | None,
) -> OngoingReassignment:
    """Return the move as its leader has begun it, or will."""
    target = original_of(replicas, known) if asked is None else asked
    replicas, known = reassign(replicas, known, target)
    coming = tuple(broker for broker in known.adding if broker not in known.removing)
    return OngoingReassignment(at, replicas, coming, known.removing)
