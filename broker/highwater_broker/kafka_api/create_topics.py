"""CreateTopics: makes the checks without cluster state, and forwards the rest to the controller.

Source: KIP-4, KIP-464 (-1: the defaults).
"""

from __future__ import annotations

from highwater_broker.kafka_api.api_settings import KafkaApiSettings
from highwater_broker.kafka_api.forwarding import ControllerForwarding
from highwater_broker.kafka_api.lookup import is_legal_topic_name
from highwater_broker.kafka_api.refusals import (
    Outcome,
    listener_refusal,
    replicas_refusal,
    sort_out,
)
from highwater_broker.kafka_api.topic_waits import Deadline, Deadlines, TopicWaits
from highwater_broker.kafka_api.turns import Turns
from highwater_core import messages as control
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.messages import (
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    TopicToCreate,
)

USE_DEFAULT = -1


def refusal(topic: TopicToCreate) -> Outcome | None:
    """Return why the topic is invalid in any state of the cluster, or None."""
    if not is_legal_topic_name(topic.name):
        message = "1 to 249 of [a-zA-Z0-9._-], not '.' or '..'"
        return Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    if any(value is None for _, value in topic.configs):
        return Outcome(ErrorCode.INVALID_CONFIG, "a configuration has no value")
    if len({name for name, _ in topic.configs}) != len(topic.configs):
        return Outcome(ErrorCode.INVALID_REQUEST, "a configuration is named twice")
    if topic.assignments:
        return _assignment_refusal(topic)
    if topic.partition_count < 1 and topic.partition_count != USE_DEFAULT:
        message = f"{topic.partition_count} partitions: the number must be positive"
        return Outcome(ErrorCode.INVALID_PARTITIONS, message)
    if topic.replication_factor < 1 and topic.replication_factor != USE_DEFAULT:
        message = f"{topic.replication_factor} replicas: the number must be positive"
        return Outcome(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    return None


def _assignment_refusal(topic: TopicToCreate) -> Outcome | None:
    if (topic.partition_count, topic.replication_factor) != (USE_DEFAULT, USE_DEFAULT):
        message = "an assignment excludes counts: set them to -1"
        return Outcome(ErrorCode.INVALID_REQUEST, message)
    numbers = sorted(number for number, _ in topic.assignments)
    if numbers != list(range(len(numbers))):
        message = "partitions must count from 0 without gaps"
        return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    refusals = (replicas_refusal(f"partition {n}", replicas) for n, replicas in topic.assignments)
    return next((refused for refused in refusals if refused is not None), None)


class CreateTopicsHandler:
    """Answers CreateTopics."""

    def __init__(
        self,
        forwarding: ControllerForwarding,
        waits: TopicWaits,
        deadlines: Deadlines,
        settings: KafkaApiSettings,
        turns: Turns,
    ) -> None:
        self._turns = turns
        self._forwarding = forwarding
        self._waits = waits
        self._deadlines = deadlines
        self._settings = settings

    async def handle(self, request: CreateTopicsRequest, listener: str) -> CreateTopicsResponse:
        """Return each topic's outcome once this broker's metadata has all created ones.

        After REQUEST_TIMED_OUT it is unknown whether a topic was or will be created.
        """
        deadline = self._deadlines(request.timeout_ms)
        outcomes, wanted = await sort_out(
            request.topics,
            lambda topic: topic.name,
            lambda topic: listener_refusal(listener) or refusal(topic),
            self._turns,
        )
        if wanted:
            forwarded = control.CreateTopicsRequest(
                tuple(self._to_control(topic) for topic in wanted),
                request.validate_only,
                deadline.remaining_ms(),
            )
            outcomes |= await self._forwarding.ask_about_topics(
                [topic.name for topic in wanted], forwarded, control.CreateTopicsResponse, deadline
            )
        if not request.validate_only:
            await self._wait_until_ready(outcomes, deadline)
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreateTopicsResponse(
            tuple(
                CreatedTopic(name, outcomes[name].error, outcomes[name].message or None)
                for name in names
            )
        )

    async def _wait_until_ready(self, outcomes: dict[str, Outcome], deadline: Deadline) -> None:
        created = [name for name, (error, _) in outcomes.items() if error is ErrorCode.NONE]
        if not created:
            return
        await self._waits.wait(created, self._waits.is_ready, deadline.remaining_ms())
        for name in created:
            if not self._waits.is_ready(name):
                outcomes[name] = Outcome(
                    ErrorCode.REQUEST_TIMED_OUT, "created, but not yet led everywhere"
                )

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
