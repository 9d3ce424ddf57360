"""SyncGroup: a member gets its assignment, the leader gives all members theirs.

The leader's assignment is in the log before anybody is told of it.
"""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import SyncGroupRequest, SyncGroupResponse


class SyncGroupHandler:
    """Answers SyncGroup."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    async def handle(self, request: SyncGroupRequest, listener: str) -> SyncGroupResponse:
        if listener not in CLIENT_LISTENERS:
            return SyncGroupResponse(ErrorCode.INVALID_REQUEST)
        return await self._groups.sync(request)
