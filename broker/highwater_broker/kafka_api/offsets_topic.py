"""Requests `__consumer_offsets` from the controller when the first group needs a coordinator.

Source: Kafka's internal topics; KIP-115 (never with fewer replicas than configured).
"""

from __future__ import annotations

from highwater_broker.kafka_api.api_settings import OffsetsTopicSettings
from highwater_broker.kafka_api.forwarding import ControllerForwarding
from highwater_broker.kafka_api.rest_of_broker import TopicSize
from highwater_broker.kafka_api.topic_waits import Deadline, Deadlines, TopicWaits
from highwater_core import messages as control
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime

MAKING_TIMEOUT_MS = 10_000
"""The bound of one attempt; the next request begins another."""
WAIT_MS = 1_500
"""How long a request waits for the topic. Then the answer is COORDINATOR_NOT_AVAILABLE, and the
client retries."""


class OffsetsTopic:
    """The topic as this broker knows it."""

    def __init__(
        self,
        forwarding: ControllerForwarding,
        waits: TopicWaits,
        size: TopicSize,
        deadlines: Deadlines,
        runtime: Runtime,
        trace: Trace,
        settings: OffsetsTopicSettings,
    ) -> None:
        self._forwarding = forwarding
        self._waits = waits
        self._size = size
        self._deadlines = deadlines
        self._trace = trace
        self._settings = settings
        self._scope = runtime.scope("offsets topic")
        self._is_being_made = False
        self.failure = ""
        """Why the last attempt to create it failed; empty while one is under way."""

    async def partition_count(self) -> int:
        """Return its number of partitions, once each has a leader; 0 while it is being created."""
        if self._waits.is_gone(OFFSETS_TOPIC):
            if not self._is_being_made:
                self._is_being_made, self.failure = True, ""
                self._scope.spawn("OffsetsTopic", self._make())
            await self._waits.wait([OFFSETS_TOPIC], self._is_decided, WAIT_MS)
            if self._waits.is_gone(OFFSETS_TOPIC):
                return 0
        return await self._size.learn()

    def _is_decided(self, topic: str) -> bool:
        return self._waits.is_ready(topic) or bool(self.failure)

    async def _make(self) -> None:
        try:
            await self._ask_controller(self._deadlines(MAKING_TIMEOUT_MS))
        finally:
            self._is_being_made = False
            self._waits.look_again(OFFSETS_TOPIC)

    async def _ask_controller(self, deadline: Deadline) -> None:
        """Return once this broker's metadata has the topic, or the controller refused it."""
        settings = self._settings
        wanted = control.NewTopic(
            name=OFFSETS_TOPIC,
            partition_count=settings.partition_count,
            replication_factor=settings.replication_factor,
            config=settings.config(),
        )
        request = control.CreateTopicsRequest((wanted,), False, deadline.remaining_ms())
        outcomes = await self._forwarding.ask_about_topics(
            [OFFSETS_TOPIC], request, control.CreateTopicsResponse, deadline
        )
        error, message = outcomes[OFFSETS_TOPIC]
        if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            await self._waits.wait([OFFSETS_TOPIC], self._waits.is_ready, deadline.remaining_ms())
            return
        self.failure = f"{OFFSETS_TOPIC} cannot be made: {error.name}: {message}"
        self._trace.emit(
            EventKind.REQUEST_REFUSED,
            topic=OFFSETS_TOPIC,
            request="CreateTopics",
            error=error.name,
            what=message,
        )
