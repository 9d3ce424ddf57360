"""CreateTopics and DeleteTopics, as brokers forward them: checks them and writes the znodes.

The topic's partitions are then brought up as for any topic that appears in ZooKeeper.
Source: Kafka's ZkAdminManager and AdminZkClient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from highwater_controller.logic.assignments import (
    Assignment,
    assign_replicas,
    find_assignment_fault,
)
from highwater_controller.term import Term
from highwater_controller.topic_changes import on_topics_changed
from highwater_controller.topic_deletion import on_deletions_requested
from highwater_controller.topic_waits import Done
from highwater_core import znodes
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, TopicId, TopicPartition
from highwater_core.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewTopic,
    TopicResult,
)
from highwater_core.ports import CheckOp, CreateOp, NoNode, TooLarge
from highwater_core.request_sizes import MAX_REQUEST_BYTES, size_of_multi
from highwater_core.topic_configs import BadTopicConfig, parse_topic_config
from highwater_core.topic_names import find_name_fault

MAX_PARTITION_COUNT = 10_000
"""Of one topic, and of all that one request creates, as Kafka's KRaft controller has it."""
MAX_TOPIC_COUNT = 10_000
"""Of one request."""


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What a client is told about one topic, at once or, with `done`, when that is set."""

    result: TopicResult
    done: Done | None = None


class Refused(Exception):
    """A topic may not be created or deleted as asked."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


async def on_create_topics(
    term: Term, request: CreateTopicsRequest, make_done: Callable[[], Done]
) -> list[TopicOutcome]:
    """Create the topics that may be created; each answer waits until its leaders lead."""
    refused = _refuse_too_many(term, request, [topic.name for topic in request.topics])
    if refused:
        return refused
    counts = Counter(topic.name for topic in request.topics)
    outcomes: list[TopicOutcome] = []
    partition_count = 0
    for topic in request.topics:
        try:
            _refuse_repeated(counts, topic.name)
            assignment = _plan(term, topic, partition_count)
            _refuse_too_large(topic, assignment)
            if not request.validate_only:
                await _write_topic(term, topic, assignment)
        except Refused as fault:
            outcomes.append(_refuse(term, "CreateTopicsRequest", topic.name, fault))
            continue
        partition_count += len(assignment)
        done = None if request.validate_only else make_done()
        if done is not None:
            partitions = [TopicPartition(topic.name, number) for number in range(len(assignment))]
            term.waits.until_led(partitions, done)
        outcomes.append(TopicOutcome(TopicResult(topic.name, ErrorCode.NONE), done))
    await on_topics_changed(term)
    return outcomes


async def on_delete_topics(
    term: Term, request: DeleteTopicsRequest, make_done: Callable[[], Done]
) -> list[TopicOutcome]:
    """Mark the topics for deletion; each answer waits until it has ended, halts or fails."""
    refused = _refuse_too_many(term, request, list(request.names))
    if refused:
        return refused
    outcomes: list[TopicOutcome] = []
    for name in request.names:
        if not term.context.is_known(name):
            unknown = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
            outcomes.append(_refuse(term, "DeleteTopicsRequest", name, unknown))
            continue
        if not term.context.is_to_be_deleted(name):
            await term.store.create(znodes.delete_topic_path(name), b"")
        term.context.failed_deletions.pop(name, None)  # one that failed is tried once more
        done = make_done()
        term.waits.until_deleted(name, done)
        outcomes.append(TopicOutcome(TopicResult(name, ErrorCode.NONE), done))
    await on_deletions_requested(term)
    for outcome in outcomes:
        if outcome.result.name in term.context.topics_ineligible_for_deletion:
            term.waits.deletion_ended(outcome.result.name)
    return outcomes


def _refuse_repeated(counts: Counter[str], name: str) -> None:
    if counts[name] > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "the request names the topic twice")


def _refuse_too_many(
    term: Term, request: CreateTopicsRequest | DeleteTopicsRequest, names: list[str]
) -> list[TopicOutcome]:
    """Refuse all of a request that names too many topics, traced once; nothing otherwise."""
    if len(names) <= MAX_TOPIC_COUNT:
        return []
    fault = Refused(
        ErrorCode.POLICY_VIOLATION, f"{len(names)} topics in one request: at most {MAX_TOPIC_COUNT}"
    )
    _refuse(term, type(request).__name__, "", fault)
    return [TopicOutcome(TopicResult(name, fault.error, str(fault))) for name in names]


def _plan(term: Term, topic: NewTopic, before: int) -> Assignment:
    """Return the assignment that the topic gets.

    before: how many partitions the same request creates already.

    Raises:
        Refused: something about it is not allowed.
    """
    fault = find_name_fault(topic.name)
    if fault:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if term.context.is_known(topic.name):
        is_doomed = term.context.is_to_be_deleted(topic.name)
        message = "the topic is being deleted" if is_doomed else "the topic exists"
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, message)
    try:
        parse_topic_config(dict(topic.config))
    except BadTopicConfig as fault_in_config:
        raise Refused(ErrorCode.INVALID_CONFIG, str(fault_in_config)) from None
    if topic.assignment:
        _refuse_partition_count(term, len(topic.assignment), before)
        fault = find_assignment_fault(topic.assignment, frozenset(term.context.live_brokers))
        if fault:
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
        return topic.assignment
    return _assign(term, topic, before)


def _assign(term: Term, topic: NewTopic, before: int) -> Assignment:
    settings = term.settings
    partition_count = topic.partition_count
    if partition_count == -1:
        partition_count = settings.default_partition_count
    factor = topic.replication_factor
    if factor == -1:
        factor = settings.default_replication_factor
    _refuse_partition_count(term, partition_count, before)
    brokers = sorted(term.context.electable())
    if not 0 < factor <= len(brokers):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{factor} replicas on {len(brokers)} live brokers",
        )
    start_index = term.rng.randrange(0, len(brokers))
    start_shift = term.rng.randrange(0, len(brokers))
    return assign_replicas(brokers, partition_count, factor, start_index, start_shift)


def _refuse_partition_count(term: Term, partition_count: int, before: int) -> None:
    """Refuse what the topic, the request or the cluster has no room for.

    Ordering: before anything is computed or looked at for each of the partitions.
    """
    if not 0 < partition_count <= MAX_PARTITION_COUNT:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{partition_count} partitions: there must be 1 to {MAX_PARTITION_COUNT}",
        )
    total = before + partition_count
    if total > MAX_PARTITION_COUNT:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"more than {MAX_PARTITION_COUNT} partitions in one request",
        )
    if len(term.context.assignments) + total > term.settings.max_partitions:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"the cluster would have more than {term.settings.max_partitions} partitions",
        )


def _refuse_too_large(topic: NewTopic, assignment: Assignment) -> None:
    """Refuse what ZooKeeper's largest request has no room for."""
    path = znodes.topic_path(topic.name)
    longest_id = TopicId("0" * 32)
    data = znodes.encode_topic(dict(enumerate(assignment)), longest_id)
    size_bytes = size_of_multi((CheckOp(znodes.CONTROLLER_EPOCH, 0), CreateOp(path, data)))
    if size_bytes > MAX_REQUEST_BYTES:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"the assignment takes {size_bytes} bytes in ZooKeeper, at most {MAX_REQUEST_BYTES}",
        )


async def _write_topic(term: Term, topic: NewTopic, assignment: Assignment) -> None:
    """Write the topic's configuration, then the topic.

    Raises:
        Refused: somebody else has created it meanwhile.
    """
    topic_id = TopicId(term.rng.hex_id()) if term.toggles.topic_id else NO_TOPIC_ID
    data = znodes.encode_topic(dict(enumerate(assignment)), topic_id)
    path = znodes.topic_path(topic.name)
    if await term.store.exists(path) is not None:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, "the topic exists")
    config = znodes.encode(znodes.TopicConfigZnode(config=dict(topic.config)))
    try:
        await term.store.put(znodes.topic_config_path(topic.name), config)
        is_created = await term.store.create(path, data)
    except NoNode:
        raise Refused(
            ErrorCode.UNKNOWN_SERVER_ERROR, "ZooKeeper lacks the parents of topics"
        ) from None
    except TooLarge as fault:
        raise Refused(ErrorCode.POLICY_VIOLATION, str(fault)) from None
    if not is_created:
        found = await term.store.get(path)
        if found is None or found[0] != data:  # equal data: our own, its reply was lost
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, "the topic exists")
    term.trace.emit(
        EventKind.TOPIC_CREATED,
        topic=topic.name,
        controller_epoch=term.epoch.controller_epoch,
        assignment=[list(replicas) for replicas in assignment],
        topic_id=topic_id,
    )


def _refuse(term: Term, request: str, name: str, refused: Refused) -> TopicOutcome:
    term.emit(
        EventKind.REQUEST_REFUSED,
        request=request,
        error=refused.error.name,
        message=str(refused),
        name=name[:300],
    )
    return TopicOutcome(TopicResult(name, refused.error, str(refused)))
