"""FindCoordinator: no groups and no transactions are coordinated yet, so that clients fail at once.

UNSUPPORTED_VERSION is what stock clients take for final, for groups and for transactions alike:
after COORDINATOR_NOT_AVAILABLE they ask again for a minute or for ever.
"""

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
            ErrorCode.UNSUPPORTED_VERSION,
            "this cluster coordinates no groups and no transactions",
            NO_NODE,
            "",
            -1,
        )
