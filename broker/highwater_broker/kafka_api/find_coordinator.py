"""FindCoordinator: no groups are coordinated yet, so that clients are told to ask again."""

from __future__ import annotations

from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_wire.kafka.messages import FindCoordinatorRequest, FindCoordinatorResponse

NO_NODE = NodeId(-1)


class FindCoordinatorHandler:
    """Answers FindCoordinator."""

    async def handle(
        self, request: FindCoordinatorRequest, listener: str
    ) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "this cluster coordinates no groups and no transactions",
            NO_NODE,
            "",
            -1,
        )
