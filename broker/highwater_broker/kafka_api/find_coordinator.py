"""FindCoordinator: no groups, no transactions are coordinated yet; who needs them fails at once.

A group's coordinator is whichever broker is asked: it offers no JoinGroup, which stock clients
tell their users at once, and a consumer of a group that assigns its partitions itself never joins.
An error here would be told to such a consumer too. After COORDINATOR_NOT_AVAILABLE clients ask
again for ever. Of transactions UNSUPPORTED_VERSION is what they take for final.
"""

from __future__ import annotations

from highwater_broker.kafka_api.metadata import endpoint_for
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_wire.kafka.messages import FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
NO_NODE = NodeId(-1)


class FindCoordinatorHandler:
    """Answers FindCoordinator."""

    def __init__(self, metadata: MetadataCache, node_id: NodeId) -> None:
        self._metadata = metadata
        self._node_id = node_id

    async def handle(
        self, request: FindCoordinatorRequest, listener: str
    ) -> FindCoordinatorResponse:
        if request.key_type != GROUP:
            return _refused(
                ErrorCode.UNSUPPORTED_VERSION, "this cluster coordinates no transactions"
            )
        own = self._metadata.endpoints(self._node_id)
        if own is None:
            return _refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker is not yet known to live"
            )
        endpoint = endpoint_for(own, listener)
        return FindCoordinatorResponse(
            ErrorCode.NONE, None, self._node_id, endpoint.host, endpoint.port
        )


def _refused(error: ErrorCode, message: str) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error, message, NO_NODE, "", -1)
