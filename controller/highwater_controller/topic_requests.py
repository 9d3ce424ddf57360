"""CreateTopics and DeleteTopics, as brokers forward them: checks them and writes the znodes.

The topic's partitions are then brought up like any new topic's in ZooKeeper. A request may have
thousands of topics: they are created, or marked for deletion, some at a time.
Source: Kafka's ZkAdminManager and AdminZkClient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from highwater_controller.chunks import PARTITIONS_PER_STEP, TOPICS_PER_STEP
from highwater_controller.term import Term
from highwater_controller.topic_changes import on_topics_changed
from highwater_controller.topic_deletion import on_deletions_requested
from highwater_controller.topic_waits import Done
from highwater_core import znodes
from highwater_core.admin_messages import CreatePartitionsRequest, TopicResult
from highwater_core.assignments import Assignment
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, TopicId, TopicPartition
from highwater_core.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewTopic,
)
from highwater_core.ports import CheckOp, CreateOp, NoNode, TooLarge
from highwater_core.request_sizes import MAX_REQUEST_BYTES, size_of_multi
from highwater_core.topic_plans import (
    Refused,
    Room,
    TopicDefaults,
    find_too_many_topics,
    plan_topic,
    refuse_repeated,
)
from highwater_core.topic_znode import encode_topic


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The answer about one topic, at once or, with `done`, when that is set."""

    result: TopicResult
    done: Done | None = None


class Creation:
    """A CreateTopics request, carried out a step at a time."""

    def __init__(self, request: CreateTopicsRequest) -> None:
        self.outcomes: list[TopicOutcome] = []
        """Outcomes of the topics so far, in the request's order."""
        self._request = request
        self._counts = Counter(topic.name for topic in request.topics)
        self._partition_count = 0

    @property
    def is_over(self) -> bool:
        return len(self.outcomes) == len(self._request.topics)

    @property
    def answer(self) -> list[TopicOutcome]:
        return self.outcomes

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Create the next topics; each answer waits until the topic has its leaders."""
        topics = self._request.topics
        too_many = find_too_many_topics(len(topics))
        if too_many is not None:
            names = [topic.name for topic in topics]
            self.outcomes = refuse_all(term, self._request, names, too_many)
            return
        planned = self._plan(term)
        if self._request.validate_only or not planned:
            return
        written = await term.store.each(
            planned.items(), lambda each: _write_topic(term, topics[each[0]], each[1])
        )
        for (number, assignment), refused in zip(planned.items(), written, strict=True):
            self._note(term, number, assignment, refused, make_done)
        await on_topics_changed(term)

    def _plan(self, term: Term) -> dict[int, Assignment]:
        """Return the assignments of the next valid topics, by their index."""
        planned: dict[int, Assignment] = {}
        of_step = 0
        start = len(self.outcomes)
        for topic in self._request.topics[start : start + TOPICS_PER_STEP]:
            if of_step >= PARTITIONS_PER_STEP:
                break
            try:
                refuse_repeated(self._counts, topic.name)
                before = Before(self._partition_count, of_step)
                assignment = _plan(term, topic, before)
                refuse_too_large(topic.name, assignment)
            except Refused as fault:
                self.outcomes.append(refuse_topic(term, "CreateTopicsRequest", topic.name, fault))
                continue
            planned[len(self.outcomes)] = assignment
            self.outcomes.append(TopicOutcome(TopicResult(topic.name, ErrorCode.NONE)))
            of_step += len(assignment)
            self._partition_count += len(assignment)
        return planned

    def _note(
        self,
        term: Term,
        number: int,
        assignment: Assignment,
        refused: Refused | None,
        make_done: Callable[[], Done],
    ) -> None:
        name = self._request.topics[number].name
        if refused is not None:
            self._partition_count -= len(assignment)
            self.outcomes[number] = refuse_topic(term, "CreateTopicsRequest", name, refused)
            return
        done = make_done()
        partitions = [TopicPartition(name, partition) for partition in range(len(assignment))]
        term.waits.until_led(partitions, done)
        self.outcomes[number] = TopicOutcome(TopicResult(name, ErrorCode.NONE), done)


class Deletion:
    """A DeleteTopics request, carried out a step at a time."""

    def __init__(self, request: DeleteTopicsRequest) -> None:
        self.outcomes: list[TopicOutcome] = []
        """Outcomes of the topics so far, in the request's order."""
        self._request = request

    @property
    def is_over(self) -> bool:
        return len(self.outcomes) == len(self._request.names)

    @property
    def answer(self) -> list[TopicOutcome]:
        return self.outcomes

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Mark the next topics for deletion; each answer waits until it ended, halts or failed."""
        names = self._request.names
        too_many = find_too_many_topics(len(names))
        if too_many is not None:
            self.outcomes = refuse_all(term, self._request, list(names), too_many)
            return
        start = len(self.outcomes)
        some = names[start : start + TOPICS_PER_STEP]
        context = term.context
        to_mark = [n for n in some if context.is_known(n) and not context.is_to_be_deleted(n)]
        await term.store.each(
            to_mark, lambda name: term.store.create(znodes.delete_topic_path(name), b"")
        )
        self.outcomes += [self._outcome(term, name, make_done) for name in some]
        await on_deletions_requested(term)
        for name in some:
            if name in (
                *context.topics_ineligible_for_deletion,
                *context.deletions_after_reassignment,
            ):
                term.waits.deletion_ended(name)

    def _outcome(self, term: Term, name: str, make_done: Callable[[], Done]) -> TopicOutcome:
        if not term.context.is_known(name):
            unknown = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
            return refuse_topic(term, "DeleteTopicsRequest", name, unknown)
        term.context.failed_deletions.pop(name, None)  # a failed one is tried once more
        done = make_done()
        term.waits.until_deleted(name, done)
        return TopicOutcome(TopicResult(name, ErrorCode.NONE), done)


def refuse_all(
    term: Term,
    request: CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest,
    names: list[str],
    fault: Refused,
) -> list[TopicOutcome]:
    """Refuse all of a request that names too many topics, traced once."""
    refuse_topic(term, type(request).__name__, "", fault)
    return [TopicOutcome(TopicResult(name, fault.error, str(fault))) for name in names]


@dataclass(frozen=True, slots=True)
class Before:
    """The numbers of partitions that exist already."""

    of_request: int
    of_step: int
    """Partitions of earlier steps count for the cluster."""


def _plan(term: Term, topic: NewTopic, before: Before) -> Assignment:
    """Return the topic's assignment.

    Raises:
        Refused: the topic is not allowed.
    """
    if term.context.is_known(topic.name):
        is_doomed = term.context.is_to_be_deleted(topic.name)
        message = "the topic is being deleted" if is_doomed else "the topic exists"
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, message)
    settings = term.settings
    return plan_topic(
        topic,
        live=term.context.live_brokers,
        may_host=sorted(term.context.electable()),
        defaults=TopicDefaults(
            settings.default_partition_count, settings.default_replication_factor
        ),
        room=room_of(term, before),
        rng=term.rng,
    )


def room_of(term: Term, before: Before) -> Room:
    of_cluster = len(term.context.assignments) + before.of_step
    return Room(before.of_request, of_cluster, term.settings.max_partitions)


def refuse_too_large(name: str, assignment: Assignment) -> None:
    """Refuse a topic whose assignment is larger than ZooKeeper's largest request."""
    path = znodes.topic_path(name)
    longest_id = TopicId("0" * 32)
    data = encode_topic(dict(enumerate(assignment)), longest_id)
    size_bytes = size_of_multi((CheckOp(znodes.CONTROLLER_EPOCH, 0), CreateOp(path, data)))
    if size_bytes > MAX_REQUEST_BYTES:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"the assignment takes {size_bytes} bytes in ZooKeeper, at most {MAX_REQUEST_BYTES}",
        )


async def _write_topic(term: Term, topic: NewTopic, assignment: Assignment) -> Refused | None:
    """Write the topic's configuration, then the topic; return why it could not be written.

    It is refused where it was created meanwhile.
    """
    topic_id = TopicId(term.rng.hex_id()) if term.toggles.topic_id else NO_TOPIC_ID
    data = encode_topic(dict(enumerate(assignment)), topic_id)
    path = znodes.topic_path(topic.name)
    exists = Refused(ErrorCode.TOPIC_ALREADY_EXISTS, "the topic exists")
    if await term.store.exists(path) is not None:
        return exists
    config = znodes.encode(znodes.TopicConfigZnode(config=dict(topic.config)))
    try:
        await term.store.put(znodes.topic_config_path(topic.name), config)
        is_created = await term.store.create(path, data)
    except NoNode:
        message = "ZooKeeper lacks the parents of topics"
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, message)
    except TooLarge as fault:
        return Refused(ErrorCode.POLICY_VIOLATION, str(fault))
    if not is_created:
        found = await term.store.get(path)
        if found is None or found[0] != data:  # equal data: our own write, whose reply was lost
            return exists
    term.trace.emit(
        EventKind.TOPIC_CREATED,
        topic=topic.name,
        controller_epoch=term.epoch.controller_epoch,
        assignment=[list(replicas) for replicas in assignment],
        topic_id=topic_id,
    )
    return None


def refuse_topic(term: Term, request: str, name: str, refused: Refused) -> TopicOutcome:
    """Return the answer about a refused topic, and trace it."""
    term.emit(
        EventKind.REQUEST_REFUSED,
        request=request,
        error=refused.error.name,
        message=str(refused),
        name=name[:300],
    )
    return TopicOutcome(TopicResult(name, refused.error, str(refused)))
