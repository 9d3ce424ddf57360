"""DescribeGroups: what groups are in, and their members with what they were assigned.

What the asker may do with a group is not told: there is no authorization.
"""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.kafka_api.turns import Turns
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


class DescribeGroupsHandler:
    """Answers DescribeGroups."""

    def __init__(self, groups: GroupCoordinator, turns: Turns) -> None:
        self._groups = groups
        self._turns = turns

    async def handle(self, request: DescribeGroupsRequest, listener: str) -> DescribeGroupsResponse:
        """Return each group once, however often it is named."""

        def describe(group_id: str) -> DescribedGroup:
            if listener not in CLIENT_LISTENERS:
                return DescribedGroup(ErrorCode.INVALID_REQUEST, group_id)
            return self._groups.describe(group_id)

        named = list(dict.fromkeys(request.group_ids))
        return DescribeGroupsResponse(tuple(await self._turns.each(describe, named)))
