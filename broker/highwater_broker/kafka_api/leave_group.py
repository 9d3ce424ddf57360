"""LeaveGroup: members leave, or an administrator removes them; the others rebalance at once.

Source: KIP-345 (static members are removed by their instance ids).
"""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import LeaveGroupRequest, LeaveGroupResponse


class LeaveGroupHandler:
    """Answers LeaveGroup."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    async def handle(self, request: LeaveGroupRequest, listener: str) -> LeaveGroupResponse:
        if listener not in CLIENT_LISTENERS:
            return LeaveGroupResponse(ErrorCode.INVALID_REQUEST)
        return self._groups.leave(request)
