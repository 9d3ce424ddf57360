"""The handlers of groups' requests, each with what it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.delete_groups import DeleteGroupsHandler
from highwater_broker.kafka_api.describe_groups import DescribeGroupsHandler
from highwater_broker.kafka_api.heartbeat import HeartbeatHandler
from highwater_broker.kafka_api.join_group import JoinGroupHandler
from highwater_broker.kafka_api.leave_group import LeaveGroupHandler
from highwater_broker.kafka_api.list_groups import ListGroupsHandler
from highwater_broker.kafka_api.offset_commit import OffsetCommitHandler
from highwater_broker.kafka_api.offset_delete import OffsetDeleteHandler
from highwater_broker.kafka_api.offset_fetch import OffsetFetchHandler
from highwater_broker.kafka_api.sync_group import SyncGroupHandler
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.metadata_cache import MetadataCache
from highwater_wire.kafka.committed_messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from highwater_wire.kafka.group_messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from highwater_wire.kafka.messages import KafkaAnswer

Handler = Callable[[Any, str], Awaitable[KafkaAnswer]]


def group_handlers(
    groups: GroupCoordinator, metadata: MetadataCache, turns: Turns
) -> dict[type, Handler]:
    """Return the handler of each kind of request."""
    return {
        JoinGroupRequest: JoinGroupHandler(groups).handle,
        SyncGroupRequest: SyncGroupHandler(groups).handle,
        HeartbeatRequest: HeartbeatHandler(groups).handle,
        LeaveGroupRequest: LeaveGroupHandler(groups).handle,
        OffsetCommitRequest: OffsetCommitHandler(groups, metadata, turns).handle,
        OffsetFetchRequest: OffsetFetchHandler(groups, turns).handle,
        OffsetDeleteRequest: OffsetDeleteHandler(groups, metadata, turns).handle,
        ListGroupsRequest: ListGroupsHandler(groups).handle,
        DescribeGroupsRequest: DescribeGroupsHandler(groups, turns).handle,
        DeleteGroupsRequest: DeleteGroupsHandler(groups).handle,
    }
