"""Hands clients' admin requests to the active controller and sorts its answer by topic."""

from __future__ import annotations

from collections.abc import Sequence

from highwater_broker.kafka_api.seams import Controller
from highwater_broker.kafka_api.topic_waits import Deadline
from highwater_core import messages as control
from highwater_core.errors import ErrorCode
from highwater_core.ports import CallFailed
from highwater_wire.kafka.text import shortened

TopicOutcomes = dict[str, tuple[ErrorCode, str]]


class ControllerForwarding:
    """Forwards each caller's request; the controller client retries within its timeout.

    Deviation: a request whose answer was lost is sent again, so that a topic that it did create
    may be answered with TOPIC_ALREADY_EXISTS, and one that it did delete as unknown.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def create(
        self, request: control.CreateTopicsRequest, deadline: Deadline
    ) -> TopicOutcomes:
        """Return each topic's error and message; see _unanswered for what no answer means."""
        names = [topic.name for topic in request.topics]
        try:
            response = await self._controller.call(request, deadline.remaining_ms())
        except CallFailed as failure:
            return _unanswered(names, failure)
        return _by_topic(names, response)

    async def delete(
        self, request: control.DeleteTopicsRequest, deadline: Deadline
    ) -> TopicOutcomes:
        """Return each topic's error and message; see _unanswered for what no answer means."""
        try:
            response = await self._controller.call(request, deadline.remaining_ms())
        except CallFailed as failure:
            return _unanswered(request.names, failure)
        return _by_topic(request.names, response)


def _unanswered(names: Sequence[str], failure: CallFailed) -> TopicOutcomes:
    """Return REQUEST_TIMED_OUT for an unknown outcome, NOT_CONTROLLER when nothing was sent."""
    error = ErrorCode.REQUEST_TIMED_OUT if failure.sent else ErrorCode.NOT_CONTROLLER
    return dict.fromkeys(names, (error, shortened(f"the controller did not answer: {failure}")))


def _by_topic(
    names: Sequence[str], response: control.CreateTopicsResponse | control.DeleteTopicsResponse
) -> TopicOutcomes:
    if response.error is not ErrorCode.NONE:
        return dict.fromkeys(names, (response.error, "the controller refused the request"))
    told = {result.name: (result.error, shortened(result.message)) for result in response.results}
    silent = (ErrorCode.UNKNOWN_SERVER_ERROR, "the controller said nothing about the topic")
    return {name: told.get(name, silent) for name in names}
