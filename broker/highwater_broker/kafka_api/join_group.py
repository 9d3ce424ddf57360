"""JoinGroup: a member asks for the next generation, and is answered when it begins.

Source: KIP-62, KIP-345, KIP-394.
"""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import JoinGroupRequest, JoinGroupResponse

MAX_PROTOCOLS = 100
"""Of a member; clients have a handful. All members' protocols are compared at each join."""


class JoinGroupHandler:
    """Answers JoinGroup."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    async def handle(self, request: JoinGroupRequest, listener: str) -> JoinGroupResponse:
        if listener not in CLIENT_LISTENERS or len(request.protocols) > MAX_PROTOCOLS:
            return JoinGroupResponse(ErrorCode.INVALID_REQUEST, request.member_id)
        return await self._groups.join(request)
