"""Requests for reassignments: AlterPartitionReassignments, as brokers forward it, and jobs in
/admin/reassign_partitions. ListPartitionReassignments lists the ones under way.

A request may name thousands of partitions: they are taken a step at a time.
Source: KIP-455; Kafka's KafkaController.processApiPartitionReassignment. Deviation: one request may
name a partition once only, where Kafka takes the last entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from highwater_controller.admin_znodes import (
    end_reassignments,
    forget_reassignments,
    read_reassignments,
)
from highwater_controller.chunks import next_step
from highwater_controller.logic.leadership_change import Brokers
from highwater_controller.reassignment import advance_reassignments, begin_reassignments
from highwater_controller.refusals import refuse
from highwater_controller.term import Term
from highwater_controller.topic_waits import Done
from highwater_core import znodes
from highwater_core.admin_messages import (
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    ListReassignmentsRequest,
    ListReassignmentsResponse,
    OngoingReassignment,
    PartitionResult,
    ReassignmentItem,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_core.ports import TooLarge
from highwater_core.reassignments import (
    find_target_fault,
    original_of,
)
from highwater_core.topic_plans import Refused
from highwater_core.topic_znode import Reassignment


class Reassigning:
    """An AlterPartitionReassignments request, carried out a step at a time."""

    def __init__(self, request: AlterReassignmentsRequest) -> None:
        self._left: Sequence[ReassignmentItem] = request.partitions
        self._counts = Counter(item.topic_partition for item in request.partitions)
        self._results: dict[TopicPartition, PartitionResult] = {}

    @property
    def is_over(self) -> bool:
        return not self._left

    @property
    def answer(self) -> AlterReassignmentsResponse:
        """The partitions' results so far; each reassignment is under way, and may have ended."""
        return AlterReassignmentsResponse(ErrorCode.NONE, tuple(self._results.values()))

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Begin, or cancel, the next partitions' reassignments."""
        some, self._left = next_step(self._left)
        await self._take(term, some)

    async def _take(self, term: Term, items: Sequence[ReassignmentItem]) -> None:
        targets: dict[str, dict[TopicPartition, Brokers]] = {}
        for item in items:
            at = item.topic_partition
            try:
                targets.setdefault(at.topic, {})[at] = self._find_target(term, item)
                self._results[at] = PartitionResult(at, ErrorCode.NONE)
            except Refused as fault:
                self._results[at] = _refused(term, at, fault)
        # First: otherwise a controller that dies in between would leave a job that starts again.
        await forget_reassignments(term, [at for each in targets.values() for at in each])
        begun: list[TopicPartition] = []
        for topic, wanted in targets.items():
            refused = await _begin(term, topic, wanted)
            if refused is None:
                begun += wanted
            else:
                self._results.update((at, _refused(term, at, refused)) for at in wanted)
        await advance_reassignments(term, begun)

    def _find_target(self, term: Term, item: ReassignmentItem) -> Brokers:
        at = item.topic_partition
        if self._counts[at] > 1:
            raise Refused(ErrorCode.INVALID_REQUEST, "the partition is named more than once")
        return find_target(term, at, item.replicas)


_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(term: Term, at: TopicPartition, fault: Refused) -> PartitionResult:
    refuse(term, "AlterReassignmentsRequest", fault, at)
    return PartitionResult(at, fault.error, str(fault))


def find_target(term: Term, at: TopicPartition, replicas: Brokers | None) -> Brokers:
    """Return the partition's target replicas: for None, the original ones.

    Raises:
        Refused: the target is invalid.
    """
    context = term.context
    if at not in context.assignments:
        raise Refused(_UNKNOWN, "there is no such partition")
    is_doomed = context.is_to_be_deleted(at.topic)
    is_doomed |= at.topic in context.deletions_after_reassignment and replicas is not None
    if is_doomed:
        raise Refused(_UNKNOWN, "the topic is being deleted")
    if at in context.unreadable_partitions:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the partition's state cannot be read")
    assigned = context.assignments[at]
    if replicas is None:
        if at not in context.reassignments:
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no replica is being moved")
        return original_of(assigned, context.reassignments[at])
    fault = find_target_fault(replicas, assigned, frozenset(context.live_brokers))
    if fault:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    return replicas


class WrittenReassignments:
    """The jobs in /admin/reassign_partitions, begun a step at a time."""

    answer = None

    def __init__(self) -> None:
        self._left: Sequence[TopicPartition] | None = None

    @property
    def is_over(self) -> bool:
        return self._left is not None and not self._left

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Read the znode, then begin the next partitions; impossible jobs are removed from it.

        Ordering: the znode read once, and watched -> each target checked -> the topics' znodes
        written -> leader epochs raised -> added replicas New -> reassignments whose target is in
        sync completed -> completed and impossible jobs removed from the znode later.
        """
        if self._left is None:
            self._left = await read_reassignments(term)
        some, self._left = next_step(self._left)
        over = await _begin_listed(term, some)
        await end_reassignments(term, over)
        await advance_reassignments(term, some)


async def _begin_listed(term: Term, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Begin the listed jobs of these partitions; return the partitions whose jobs are over."""
    context = term.context
    over: list[TopicPartition] = []
    targets: dict[str, dict[TopicPartition, Brokers]] = {}
    for at in partitions:
        listed = context.listed_reassignments.targets.get(at)
        if listed is None:  # a request took it over since
            continue
        try:
            targets.setdefault(at.topic, {})[at] = find_target(term, at, listed)
        except Refused as fault:
            refuse(term, znodes.REASSIGN_PARTITIONS, fault, at)
            over.append(at)
    for topic, of_topic in targets.items():
        fault_of_topic = await _begin(term, topic, of_topic)
        if fault_of_topic is not None:
            refuse(term, znodes.REASSIGN_PARTITIONS, fault_of_topic)
            over += of_topic
    over += [at for each in targets.values() for at in each if at not in context.reassignments]
    return over


async def _begin(term: Term, topic: str, targets: dict[TopicPartition, Brokers]) -> Refused | None:
    """Begin the reassignments of a topic's partitions; return an error, or None.

    The deletion of another topic, put off until then, may have shown one of this topic meanwhile.
    """
    if not term.context.is_known(topic) or term.context.is_to_be_deleted(topic):
        return Refused(_UNKNOWN, "the topic is being deleted")
    try:
        is_known = await begin_reassignments(term, topic, targets)
    except TooLarge as fault:
        return Refused(ErrorCode.POLICY_VIOLATION, str(fault))
    return None if is_known else Refused(_UNKNOWN, "the topic is gone")


def list_reassignments(term: Term, request: ListReassignmentsRequest) -> ListReassignmentsResponse:
    """Return the partitions whose replicas are being moved, among the request's."""
    context = term.context
    named = None if request.partitions is None else frozenset(request.partitions)
    ongoing = tuple(
        OngoingReassignment(at, context.assignments[at], _coming(each), each.removing)
        for at, each in sorted(context.reassignments.items())
        if named is None or at in named
    )
    return ListReassignmentsResponse(ErrorCode.NONE, ongoing)


def _coming(reassignment: Reassignment) -> Brokers:
    """Return the target's brokers: added and remaining ones."""
    return tuple(broker for broker in reassignment.adding if broker not in reassignment.removing)
