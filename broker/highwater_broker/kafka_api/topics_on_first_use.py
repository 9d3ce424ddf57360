"""Requests a topic from the controller when a client's Metadata request names it first.

Off by default, and only where the client allows it too (auto.create.topics.enable,
allow.auto.create.topics). The request does not wait: its answer is LEADER_NOT_AVAILABLE, and the
client asks again. Source: Kafka's AutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_broker.kafka_api.api_settings import KafkaApiSettings
from highwater_broker.kafka_api.forwarding import ControllerForwarding
from highwater_broker.kafka_api.topic_waits import Deadlines
from highwater_core import messages as control
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.internal_topics import INTERNAL_TOPICS
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime

CREATION_TIMEOUT_MS = 10_000
TOPICS_MAX = 1_000
"""Topics that are created at a time, and refusals that are kept until clients ask again."""
_DONE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class TopicsOnFirstUse:
    """The topics that this broker has asked the controller for."""

    def __init__(
        self,
        forwarding: ControllerForwarding,
        deadlines: Deadlines,
        runtime: Runtime,
        trace: Trace,
        settings: KafkaApiSettings,
    ) -> None:
        self._forwarding = forwarding
        self._deadlines = deadlines
        self._trace = trace
        self._settings = settings
        self._scope = runtime.scope("topics on first use")
        self._created: dict[str, None] = {}
        self._refused: dict[str, ErrorCode] = {}

    def create(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        """Have topics created; return each one's error for the client, none where it is off.

        LEADER_NOT_AVAILABLE: it is being created. Another error: the controller refused it; the
        next request tries again.
        """
        if not self._settings.auto_create_topics:
            return {}
        errors: dict[str, ErrorCode] = {}
        wanted: list[str] = []
        for name in names:
            refused = self._refused.pop(name, None)
            if refused is not None:
                errors[name] = refused
            elif name not in INTERNAL_TOPICS:
                errors[name] = ErrorCode.LEADER_NOT_AVAILABLE
                if name not in self._created and len(self._created) < TOPICS_MAX:
                    self._created[name] = None
                    wanted.append(name)
        if wanted:
            self._scope.spawn("TopicsOnFirstUse", self._ask_controller(wanted))
        return errors

    async def _ask_controller(self, names: Sequence[str]) -> None:
        try:
            await self._create(names)
        finally:
            for name in names:
                del self._created[name]

    async def _create(self, names: Sequence[str]) -> None:
        deadline = self._deadlines(CREATION_TIMEOUT_MS)
        topics = tuple(
            control.NewTopic(
                name=name,
                partition_count=self._settings.default_partition_count,
                replication_factor=self._settings.default_replication_factor,
            )
            for name in names
        )
        request = control.CreateTopicsRequest(topics, False, deadline.remaining_ms())
        outcomes = await self._forwarding.ask_about_topics(
            names, request, control.CreateTopicsResponse, deadline
        )
        for name in names:
            error, message = outcomes[name]
            if error in _DONE:
                continue
            if len(self._refused) >= TOPICS_MAX:  # the oldest ones' clients did not ask again
                del self._refused[next(iter(self._refused))]
            self._refused[name] = error
            self._trace.emit(
                EventKind.REQUEST_REFUSED,
                topic=name,
                request="CreateTopics",
                error=error.name,
                what=message,
            )
