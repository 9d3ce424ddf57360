"""The requests of a connection that are not begun while an OffsetCommit before them is unanswered.

Kafka begins no request of a connection before the last one is answered. Here those of one
connection overlap, but for these: a client that commits and then leaves, joins or fetches counts on
their order.
"""

from __future__ import annotations

from typing import Any

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

OF_GROUPS = (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)


def is_commit(request: Any) -> bool:
    """Return whether groups' requests behind this one wait for its answer."""
    return isinstance(request, OffsetCommitRequest)


def waits_for_commits(request: Any) -> bool:
    """Return whether the request waits for the answers to all OffsetCommits before it."""
    return isinstance(request, OF_GROUPS)
