"""CreatePartitions: makes the checks without cluster state, forwards the rest to the controller.

Source: KIP-195.
"""

from __future__ import annotations

from highwater_broker.kafka_api.forwarding import ControllerForwarding
from highwater_broker.kafka_api.refusals import (
    Outcome,
    listener_refusal,
    replicas_refusal,
    sort_out,
    topic_refusal,
)
from highwater_broker.kafka_api.topic_waits import Deadline, Deadlines, TopicWaits
from highwater_broker.kafka_api.turns import Turns
from highwater_core import admin_messages as control
from highwater_core.errors import ErrorCode
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_wire.kafka.admin_messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    PartitionsToCreate,
)


def refusal(topic: PartitionsToCreate) -> Outcome | None:
    """Return why the expansion is invalid in any state of the cluster, or None."""
    if topic.topic == OFFSETS_TOPIC:
        # Deviation: Kafka allows it, and then looks for its groups in other partitions.
        message = "groups are placed by its number of partitions"
        return Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    refused = topic_refusal(topic.topic)
    if refused is not None:
        return refused
    if topic.total_count < 1:
        message = f"{topic.total_count} partitions: the number must be positive"
        return Outcome(ErrorCode.INVALID_PARTITIONS, message)
    if topic.assignments is None:
        return None
    if not topic.assignments:
        return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an assignment of no partition")
    refusals = (
        replicas_refusal(f"added partition {number}", replicas)
        for number, replicas in enumerate(topic.assignments)
    )
    return next((refused for refused in refusals if refused is not None), None)


class CreatePartitionsHandler:
    """Answers CreatePartitions."""

    def __init__(
        self,
        forwarding: ControllerForwarding,
        waits: TopicWaits,
        deadlines: Deadlines,
        turns: Turns,
    ) -> None:
        self._forwarding = forwarding
        self._waits = waits
        self._deadlines = deadlines
        self._turns = turns

    async def handle(
        self, request: CreatePartitionsRequest, listener: str
    ) -> CreatePartitionsResponse:
        """Return each topic's outcome once this broker's metadata has all added partitions.

        After REQUEST_TIMED_OUT it is unknown whether a topic was or will be expanded.
        """
        deadline = self._deadlines(request.timeout_ms)
        outcomes, wanted = await sort_out(
            request.topics,
            lambda topic: topic.topic,
            lambda topic: listener_refusal(listener) or refusal(topic),
            self._turns,
        )
        first_added = {topic.topic: self._waits.partition_count(topic.topic) for topic in wanted}
        if wanted:
            forwarded = control.CreatePartitionsRequest(
                tuple(
                    control.NewPartitions(topic.topic, topic.total_count, topic.assignments or ())
                    for topic in wanted
                ),
                request.validate_only,
                deadline.remaining_ms(),
            )
            outcomes |= await self._forwarding.ask_about_topics(
                tuple(first_added), forwarded, control.CreatePartitionsResponse, deadline
            )
        if not request.validate_only:
            added = {
                topic.topic: range(first_added[topic.topic], topic.total_count)
                for topic in wanted
                if outcomes[topic.topic].error is ErrorCode.NONE
            }
            outcomes |= await self._wait_until_led(added, deadline)
        names = dict.fromkeys(topic.topic for topic in request.topics)
        return CreatePartitionsResponse(
            tuple(control.TopicResult(name, *outcomes[name]) for name in names)
        )

    async def _wait_until_led(
        self, added: dict[str, range], deadline: Deadline
    ) -> dict[str, Outcome]:
        """Return the outcomes of topics whose added partitions have no leader in time."""
        if not added:
            return {}
        await self._waits.wait(
            tuple(added),
            lambda topic: self._waits.are_led(topic, added[topic]),
            deadline.remaining_ms(),
        )
        late = Outcome(ErrorCode.REQUEST_TIMED_OUT, "created, but not yet led everywhere")
        return {
            topic: late
            for topic, numbers in added.items()
            if not self._waits.are_led(topic, numbers)
        }
