"""DeleteGroups: groups without members are forgotten, with their offsets.

Source: KIP-229.
"""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


class DeleteGroupsHandler:
    """Answers DeleteGroups."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    async def handle(self, request: DeleteGroupsRequest, listener: str) -> DeleteGroupsResponse:
        """Return what became of each group, once however often it is named."""
        named = dict.fromkeys(request.group_ids)
        if listener not in CLIENT_LISTENERS:
            refused = ErrorCode.INVALID_REQUEST
            return DeleteGroupsResponse(tuple(DeletedGroup(each, refused) for each in named))
        errors = await self._groups.delete_all(tuple(named))
        return DeleteGroupsResponse(tuple(map(DeletedGroup, named, errors)))
