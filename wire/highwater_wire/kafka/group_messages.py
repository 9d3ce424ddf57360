"""What members and administrators ask of a group coordinator, as values for every version.

Protocols' metadata and assignments are the members' own: opaque here.
Source: KIP-62, KIP-345 (static members), KIP-394 (member ids), KIP-518, KIP-559, KIP-814.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_core.errors import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""
"""Of a member that has no id yet, and of an administrator who names a static member."""
NO_OPERATIONS = -(2**31)
"""DescribeGroups' authorized operations where they are not told."""

# ---------------------------------------------------------------- JoinGroup

LATEST_JOIN_VERSION = 9


@dataclass(frozen=True, slots=True)
class GroupProtocol:
    """A way to assign partitions that a member knows, and what it says for it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroupRequest:
    """protocols: those that the member knows best come first.

    client_id, client_host: of who asks; they are not part of the request on the wire.
    request_version decides whether a member without id is sent back with one (from 4 on), and
    whether a leader can be told not to assign (from 9 on).
    """

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    group_instance_id: str | None = None
    reason: str | None = None
    request_version: int = LATEST_JOIN_VERSION
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroupResponse:
    """members: all of the group's, told to its leader only."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


# ---------------------------------------------------------------- SyncGroup


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    member_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class SyncGroupRequest:
    """assignments: of all members, from the leader; none from others."""

    group_id: str
    generation: int
    member_id: str
    assignments: tuple[MemberAssignment, ...] = ()
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class SyncGroupResponse:
    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


# ---------------------------------------------------------------- Heartbeat, LeaveGroup


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member that leaves, or is removed: then by its instance id, without a member id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest:
    """members: exactly one before version 3."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeftMember:
    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveGroupResponse:
    """error is about the request as a whole; before version 3 it tells that of the one member."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()


# ---------------------------------------------------------------- for administrators


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest:
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """state: Kafka's word for it; Dead where there is no such group."""

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeGroupsResponse:
    groups: tuple[DescribedGroup, ...]


@dataclass(frozen=True, slots=True)
class ListGroupsRequest:
    """states, types: only groups that are in one of the states, and of one of the types; none
    named: any."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str = ""
    group_type: str = ""


@dataclass(frozen=True, slots=True)
class ListGroupsResponse:
    error: ErrorCode
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupsRequest:
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    group_id: str
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class DeleteGroupsResponse:
    groups: tuple[DeletedGroup, ...]


GroupRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
)
GroupResponse = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | DescribeGroupsResponse
    | ListGroupsResponse
    | DeleteGroupsResponse
)
