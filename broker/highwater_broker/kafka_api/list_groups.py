"""ListGroups: the groups that this broker coordinates, all or those in some states.

Source: KIP-518.
"""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import ListGroupsRequest, ListGroupsResponse


class ListGroupsHandler:
    """Answers ListGroups."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    async def handle(self, request: ListGroupsRequest, listener: str) -> ListGroupsResponse:
        if listener not in CLIENT_LISTENERS:
            return ListGroupsResponse(ErrorCode.INVALID_REQUEST)
        return self._groups.listed(request.states, request.types)
