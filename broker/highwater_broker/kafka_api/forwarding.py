"""Forwards clients' admin requests to the active controller, and orders its answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from highwater_broker.kafka_api.refusals import Outcome
from highwater_broker.kafka_api.rest_of_broker import Controller, Response
from highwater_broker.kafka_api.topic_waits import Deadline
from highwater_core.admin_messages import CreatePartitionsResponse, PartitionResult
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_core.messages import ControllerCommand, CreateTopicsResponse, DeleteTopicsResponse
from highwater_core.ports import CallFailed
from highwater_wire.kafka.text import shortened

TopicsResponse = CreateTopicsResponse | DeleteTopicsResponse | CreatePartitionsResponse
SILENT = Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller said nothing about it")


class ControllerForwarding:
    """Forwards each caller's request; the controller client retries within the call's timeout.

    Deviation: a request whose answer was lost is sent again. So a topic that it created may be
    answered with TOPIC_ALREADY_EXISTS, one that it expanded with INVALID_PARTITIONS, and one that
    it deleted as unknown.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def ask(
        self, request: ControllerCommand, response_type: type[Response], deadline: Deadline
    ) -> Response | Outcome:
        """Return the controller's answer, or the error of the request as a whole.

        That is REQUEST_TIMED_OUT for an unknown outcome, NOT_CONTROLLER when it was not sent.
        """
        try:
            timeout_ms = deadline.controller_timeout_ms()
            response = await self._controller.call(request, response_type, timeout_ms)
        except CallFailed as failure:
            error = ErrorCode.REQUEST_TIMED_OUT if failure.sent else ErrorCode.NOT_CONTROLLER
            return Outcome(error, shortened(f"the controller did not answer: {failure}"))
        if response.error is not ErrorCode.NONE:
            return Outcome(response.error, "the controller refused the request")
        return response

    async def ask_about_topics(
        self,
        names: Sequence[str],
        request: ControllerCommand,
        response_type: type[TopicsResponse],
        deadline: Deadline,
    ) -> dict[str, Outcome]:
        """Return the outcome of each topic of the request."""
        response = await self.ask(request, response_type, deadline)
        if isinstance(response, Outcome):
            return dict.fromkeys(names, response)
        told = {
            result.name: Outcome(result.error, shortened(result.message))
            for result in response.results
        }
        return {name: told.get(name, SILENT) for name in names}


def outcomes_of(results: Iterable[PartitionResult]) -> dict[TopicPartition, Outcome]:
    """Return the controller's outcomes of partitions, in its order."""
    return {
        result.topic_partition: Outcome(result.error, shortened(result.message))
        for result in results
    }
