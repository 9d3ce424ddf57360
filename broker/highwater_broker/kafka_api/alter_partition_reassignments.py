"""AlterPartitionReassignments: makes the checks without cluster state, forwards to the controller.

It is answered when the reassignments have begun; ListPartitionReassignments shows their end.
Source: KIP-455.
"""

from __future__ import annotations

from highwater_broker.kafka_api.forwarding import SILENT, ControllerForwarding, outcomes_of
from highwater_broker.kafka_api.refusals import (
    Outcome,
    listener_refusal,
    partition_refusal,
    replicas_refusal,
    sort_out,
)
from highwater_broker.kafka_api.topic_waits import Deadlines
from highwater_broker.kafka_api.turns import Turns
from highwater_core import admin_messages as control
from highwater_core.admin_messages import PartitionResult, ReassignmentItem
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


def refusal(item: ReassignmentItem) -> Outcome | None:
    """Return why the reassignment is invalid in any state of the cluster, or None."""
    refused = partition_refusal(item.topic_partition)
    if refused is not None or item.replicas is None:
        return refused
    return replicas_refusal(str(item.topic_partition), item.replicas)


class AlterPartitionReassignmentsHandler:
    """Answers AlterPartitionReassignments."""

    def __init__(
        self, forwarding: ControllerForwarding, deadlines: Deadlines, turns: Turns
    ) -> None:
        self._forwarding = forwarding
        self._deadlines = deadlines
        self._turns = turns

    async def handle(
        self, request: AlterPartitionReassignmentsRequest, listener: str
    ) -> AlterPartitionReassignmentsResponse:
        """Return each partition's outcome.

        After REQUEST_TIMED_OUT it is unknown whether a partition is or will be moved.
        """
        deadline = self._deadlines(request.timeout_ms)
        outcomes, wanted = await sort_out(
            request.partitions,
            lambda item: item.topic_partition,
            lambda item: listener_refusal(listener) or refusal(item),
            self._turns,
        )
        whole = Outcome(ErrorCode.NONE, "")
        if wanted:
            forwarded = control.AlterReassignmentsRequest(tuple(wanted), deadline.remaining_ms())
            answer = await self._forwarding.ask(
                forwarded, control.AlterReassignmentsResponse, deadline
            )
            if isinstance(answer, Outcome):
                whole = answer
                outcomes |= dict.fromkeys((item.topic_partition for item in wanted), answer)
            else:
                outcomes |= outcomes_of(answer.results)
        named = dict.fromkeys(item.topic_partition for item in request.partitions)
        return AlterPartitionReassignmentsResponse(
            whole.error,
            whole.message or None,
            tuple(PartitionResult(each, *outcomes.get(each, SILENT)) for each in named),
        )
