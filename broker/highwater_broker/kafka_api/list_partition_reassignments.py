"""ListPartitionReassignments: forwards to the controller, which knows the moves under way.

A partition that is not being moved, or does not exist, is left out.
Source: KIP-455.
"""

from __future__ import annotations

from highwater_broker.kafka_api.forwarding import ControllerForwarding
from highwater_broker.kafka_api.refusals import (
    Outcome,
    listener_refusal,
    partition_refusal,
    sort_out,
)
from highwater_broker.kafka_api.topic_waits import Deadlines
from highwater_broker.kafka_api.turns import Turns
from highwater_core import admin_messages as control
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.admin_messages import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


class ListPartitionReassignmentsHandler:
    """Answers ListPartitionReassignments; a repeated partition counts once."""

    def __init__(
        self, forwarding: ControllerForwarding, deadlines: Deadlines, turns: Turns
    ) -> None:
        self._forwarding = forwarding
        self._deadlines = deadlines
        self._turns = turns

    async def handle(
        self, request: ListPartitionReassignmentsRequest, listener: str
    ) -> ListPartitionReassignmentsResponse:
        deadline = self._deadlines(request.timeout_ms)
        refused = listener_refusal(listener)
        if refused is not None:
            return ListPartitionReassignmentsResponse(*refused, ())
        wanted = None
        if request.partitions is not None:
            named = tuple(dict.fromkeys(request.partitions))
            _, possible = await sort_out(named, lambda each: each, partition_refusal, self._turns)
            if not possible:
                return ListPartitionReassignmentsResponse(ErrorCode.NONE, None, ())
            wanted = tuple(possible)
        forwarded = control.ListReassignmentsRequest(wanted, deadline.remaining_ms())
        answer = await self._forwarding.ask(forwarded, control.ListReassignmentsResponse, deadline)
        if isinstance(answer, Outcome):
            return ListPartitionReassignmentsResponse(*answer, ())
        return ListPartitionReassignmentsResponse(ErrorCode.NONE, None, answer.reassignments)
