"""Heartbeat: a member lives, and is told whether it is to join again."""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import HeartbeatRequest, HeartbeatResponse


class HeartbeatHandler:
    """Answers Heartbeat."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    async def handle(self, request: HeartbeatRequest, listener: str) -> HeartbeatResponse:
        if listener not in CLIENT_LISTENERS:
            return HeartbeatResponse(ErrorCode.INVALID_REQUEST)
        return HeartbeatResponse(self._groups.heartbeat(request))
