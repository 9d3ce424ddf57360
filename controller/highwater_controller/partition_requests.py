"""CreatePartitions, as brokers forward it: checks it and writes the topics' znodes.

The added partitions are then brought up like any new ones in ZooKeeper. A request may name
thousands of topics: one is expanded at a time.
Source: KIP-195; Kafka's ZkAdminManager.createPartitions and AdminZkClient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from highwater_controller.assignment_updates import update_assignment
from highwater_controller.term import Term
from highwater_controller.topic_changes import on_topic_znode_changed
from highwater_controller.topic_requests import (
    Before,
    TopicOutcome,
    refuse_all,
    refuse_too_large,
    refuse_topic,
    room_of,
)
from highwater_controller.topic_waits import Done
from highwater_core.admin_messages import CreatePartitionsRequest, NewPartitions, TopicResult
from highwater_core.assignments import Assignment
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.partition_plans import plan_partitions, refuse_unexpandable
from highwater_core.ports import TooLarge
from highwater_core.topic_plans import (
    Refused,
    find_too_many_topics,
    refuse_repeated,
)
from highwater_core.topic_znode import TopicContent

Added = dict[TopicPartition, tuple[NodeId, ...]]
"""The added partitions' replicas, preferred first; by partition in ascending order."""


class Expansion:
    """A CreatePartitions request, carried out a step at a time."""

    def __init__(self, request: CreatePartitionsRequest) -> None:
        self.outcomes: list[TopicOutcome] = []
        """Outcomes of the topics so far, in the request's order."""
        self._request = request
        self._counts = Counter(each.topic for each in request.topics)
        self._partition_count = 0

    @property
    def is_over(self) -> bool:
        return len(self.outcomes) == len(self._request.topics)

    @property
    def answer(self) -> list[TopicOutcome]:
        return self.outcomes

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Expand the next topic; its answer waits until the added partitions have leaders."""
        wanted = self._request.topics
        too_many = find_too_many_topics(len(wanted))
        if too_many is not None:
            names = [each.topic for each in wanted]
            self.outcomes = refuse_all(term, self._request, names, too_many)
            return
        if self.is_over:  # the request names no topic
            return
        each = wanted[len(self.outcomes)]
        try:
            self.outcomes.append(await self._expand(term, each, make_done))
        except Refused as fault:
            refused = refuse_topic(term, "CreatePartitionsRequest", each.topic, fault)
            self.outcomes.append(refused)

    async def _expand(
        self, term: Term, wanted: NewPartitions, make_done: Callable[[], Done]
    ) -> TopicOutcome:
        """Return the topic's outcome.

        Raises:
            Refused: the expansion is not allowed, or the topic was changed meanwhile.
        """
        refuse_repeated(self._counts, wanted.topic)
        is_validated = self._request.validate_only
        before = Before(self._partition_count, self._partition_count if is_validated else 0)
        added = plan(term, wanted, before)
        result = TopicResult(wanted.topic, ErrorCode.NONE)
        done = None
        if not is_validated:
            await _write(term, wanted.topic, added)
            done = make_done()
            term.waits.until_led(added, done)
            await on_topic_znode_changed(term, wanted.topic)
        self._partition_count += len(added)
        return TopicOutcome(result, done)


def plan(term: Term, wanted: NewPartitions, before: Before) -> Added:
    """Return the added partitions' replicas.

    Raises:
        Refused: the expansion is not allowed.
    """
    topic = wanted.topic
    assigned = _assignment_of(term, topic)
    more = plan_partitions(
        wanted,
        assigned,
        live=term.context.live_brokers,
        may_host=term.context.electable(),
        room=room_of(term, before),
    )
    refuse_too_large(topic, (*assigned, *more))
    return {TopicPartition(topic, number): each for number, each in enumerate(more, len(assigned))}


def _assignment_of(term: Term, topic: str) -> Assignment:
    """Return the replicas of the topic's partitions.

    Raises:
        Refused: no partition can be added to the topic.
    """
    context = term.context
    if not context.is_known(topic):
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
    if context.is_to_be_deleted(topic) or topic in context.deletions_after_reassignment:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is being deleted")
    partitions = context.partitions_of(topic)
    numbers = [at.partition for at in partitions]
    refuse_unexpandable(numbers, is_moved=context.is_being_reassigned(topic))
    return tuple(context.assignments[at] for at in partitions)


async def _write(term: Term, topic: str, added: Added) -> None:
    """Write the added partitions into the topic's znode.

    Raises:
        Refused: they could not be written.
    """

    def with_added(content: TopicContent) -> TopicContent:
        there = {at: content.assignment[at] for at in added if at in content.assignment}
        if there and there != added:  # equal: our own write, whose reply was lost
            message = "somebody else has added partitions to the topic"
            raise Refused(ErrorCode.INVALID_PARTITIONS, message)
        return content._replace(assignment={**content.assignment, **added})

    try:
        content = await update_assignment(term, topic, with_added)
    except TooLarge as fault:
        raise Refused(ErrorCode.POLICY_VIOLATION, str(fault)) from None
    if content is None:
        message = "the topic is gone, or its znode cannot be read"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    term.trace.emit(
        EventKind.PARTITIONS_CREATED,
        topic=topic,
        controller_epoch=term.epoch.controller_epoch,
        first_partition=min(added).partition,
        assignment=[list(replicas) for replicas in added.values()],
    )
