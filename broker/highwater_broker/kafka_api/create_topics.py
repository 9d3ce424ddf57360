"""CreateTopics: checks what needs no cluster state, and forwards the rest to the controller.

Source: KIP-4, KIP-464 (-1 asks for the defaults).
"""

from __future__ import annotations

from collections import Counter

from highwater_broker.kafka_api.forwarding import ControllerForwarding
from highwater_broker.kafka_api.lookup import is_legal_topic_name
from highwater_broker.kafka_api.seams import CLIENT_LISTENERS, KafkaApiSettings
from highwater_broker.kafka_api.topic_waits import Deadline, TopicWaits
from highwater_broker.kafka_api.turns import Turns
from highwater_core import messages as control
from highwater_core.errors import ErrorCode
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import (
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    TopicToCreate,
)

USE_DEFAULT = -1

Refusal = tuple[ErrorCode, str]


def refusal(topic: TopicToCreate) -> Refusal | None:
    """Return why the topic cannot be created whatever the cluster's state, or None."""
    if not is_legal_topic_name(topic.name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, "1 to 249 of [a-zA-Z0-9._-], not '.' or '..'"
    if any(value is None for _, value in topic.configs):
        return ErrorCode.INVALID_CONFIG, "a configuration has no value"
    if len({name for name, _ in topic.configs}) != len(topic.configs):
        return ErrorCode.INVALID_REQUEST, "a configuration is named twice"
    if topic.assignments:
        return _assignment_refusal(topic)
    if topic.partition_count < 1 and topic.partition_count != USE_DEFAULT:
        return ErrorCode.INVALID_PARTITIONS, "the number of partitions must be positive"
    if topic.replication_factor < 1 and topic.replication_factor != USE_DEFAULT:
        return ErrorCode.INVALID_REPLICATION_FACTOR, "the replication factor must be positive"
    return None


def _assignment_refusal(topic: TopicToCreate) -> Refusal | None:
    if (topic.partition_count, topic.replication_factor) != (USE_DEFAULT, USE_DEFAULT):
        return ErrorCode.INVALID_REQUEST, "an assignment excludes counts: set them to -1"
    numbers = sorted(number for number, _ in topic.assignments)
    if numbers != list(range(len(numbers))):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must count from 0 without gaps"
    if any(not replicas for _, replicas in topic.assignments):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition has no replica"
    if any(len(set(replicas)) != len(replicas) for _, replicas in topic.assignments):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition names a broker twice"
    return None


class CreateTopicsHandler:
    """Answers CreateTopics."""

    def __init__(
        self,
        forwarding: ControllerForwarding,
        waits: TopicWaits,
        runtime: Runtime,
        settings: KafkaApiSettings,
        turns: Turns,
    ) -> None:
        self._turns = turns
        self._forwarding = forwarding
        self._waits = waits
        self._runtime = runtime
        self._settings = settings

    async def handle(self, request: CreateTopicsRequest, listener: str) -> CreateTopicsResponse:
        """Return each topic's outcome once this broker shows all that were created.

        REQUEST_TIMED_OUT leaves it open whether a topic was or will be created.
        """
        deadline = Deadline(self._runtime, request.timeout_ms, self._settings.request_wait_max_ms)
        named = Counter(topic.name for topic in request.topics)
        outcomes: dict[str, Refusal] = {}
        wanted: list[control.NewTopic] = []

        def sort_out(topic: TopicToCreate) -> None:
            refused = refusal(topic)
            if listener not in CLIENT_LISTENERS:
                refused = ErrorCode.INVALID_REQUEST, "not served on this listener"
            elif named[topic.name] > 1:
                refused = ErrorCode.INVALID_REQUEST, "the request names the topic twice"
            if refused is not None:
                outcomes[topic.name] = refused
            else:
                wanted.append(self._to_control(topic))

        await self._turns.each(sort_out, request.topics)
        if wanted:
            forwarded = control.CreateTopicsRequest(
                tuple(wanted), request.validate_only, deadline.remaining_ms()
            )
            outcomes |= await self._forwarding.create(forwarded, deadline)
        if not request.validate_only:
            await self._wait_until_ready(outcomes, deadline)
        return CreateTopicsResponse(
            tuple(
                CreatedTopic(name, outcomes[name][0], outcomes[name][1] or None) for name in named
            )
        )

    async def _wait_until_ready(self, outcomes: dict[str, Refusal], deadline: Deadline) -> None:
        created = [name for name, (error, _) in outcomes.items() if error is ErrorCode.NONE]
        if not created:
            return
        await self._waits.wait(created, self._waits.is_ready, deadline.remaining_ms())
        for name in created:
            if not self._waits.is_ready(name):
                outcomes[name] = ErrorCode.REQUEST_TIMED_OUT, "created, but not yet led everywhere"

    def _to_control(self, topic: TopicToCreate) -> control.NewTopic:
        counts = (topic.partition_count, topic.replication_factor)
        defaults = (
            self._settings.default_partition_count,
            self._settings.default_replication_factor,
        )
        partition_count, replication_factor = (
            default if count == USE_DEFAULT else count
            for count, default in zip(counts, defaults, strict=True)
        )
        assignment = tuple(replicas for _, replicas in sorted(topic.assignments))
        if assignment:
            partition_count, replication_factor = len(assignment), len(assignment[0])
        return control.NewTopic(
            name=topic.name,
            partition_count=partition_count,
            replication_factor=replication_factor,
            assignment=assignment,
            config=tuple((name, value) for name, value in topic.configs if value is not None),
        )
