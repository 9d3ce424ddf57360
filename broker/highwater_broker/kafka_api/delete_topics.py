"""DeleteTopics: forwards to the controller, and waits until this broker's metadata lacks them."""

from __future__ import annotations

from highwater_broker.kafka_api.forwarding import ControllerForwarding
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.kafka_api.lookup import is_legal_topic_name
from highwater_broker.kafka_api.topic_waits import Deadlines, TopicWaits
from highwater_core import messages as control
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.messages import DeletedTopic, DeleteTopicsRequest, DeleteTopicsResponse


class DeleteTopicsHandler:
    """Answers DeleteTopics."""

    def __init__(
        self, forwarding: ControllerForwarding, waits: TopicWaits, deadlines: Deadlines
    ) -> None:
        self._forwarding = forwarding
        self._waits = waits
        self._deadlines = deadlines

    async def handle(self, request: DeleteTopicsRequest, listener: str) -> DeleteTopicsResponse:
        """Return each topic's outcome; a name that is repeated counts once.

        After REQUEST_TIMED_OUT it is unknown whether a topic was or will be deleted.
        """
        deadline = self._deadlines(request.timeout_ms)
        names = tuple(dict.fromkeys(request.names))
        if listener not in CLIENT_LISTENERS:
            return DeleteTopicsResponse(
                tuple(DeletedTopic(name, ErrorCode.INVALID_REQUEST) for name in names)
            )
        errors: dict[str, ErrorCode] = {
            # No topic can have such a name.
            name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for name in names
            if not is_legal_topic_name(name)
        }
        wanted = tuple(name for name in names if name not in errors)
        if wanted:
            forwarded = control.DeleteTopicsRequest(wanted, deadline.remaining_ms())
            outcomes = await self._forwarding.ask_about_topics(
                wanted, forwarded, control.DeleteTopicsResponse, deadline
            )
            errors |= {name: outcome.error for name, outcome in outcomes.items()}
        deleted = [name for name in wanted if errors[name] is ErrorCode.NONE]
        if deleted:
            await self._waits.wait(deleted, self._waits.is_gone, deadline.remaining_ms())
        for name in deleted:
            if not self._waits.is_gone(name):
                errors[name] = ErrorCode.REQUEST_TIMED_OUT
        return DeleteTopicsResponse(tuple(DeletedTopic(name, errors[name]) for name in names))
