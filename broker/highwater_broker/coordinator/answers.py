"""Answers to a group's members, made from the group as it is now."""

from __future__ import annotations

from highwater_broker.coordinator.group import Group, Member
from highwater_broker.coordinator.logic.group_states import SYNC_ANSWERS, GroupState
from highwater_broker.coordinator.logic.identity import is_inconsistent
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import (
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


def generation_answer(group: Group, member: Member) -> JoinGroupResponse:
    """Return the member's JoinGroup answer for this generation; the leader's lists all members."""
    return JoinGroupResponse(
        error=ErrorCode.NONE,
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=group.joined_members() if group.leader == member.member_id else (),
    )


def assignment_answer(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol)


def sync_error(group: Group, request: SyncGroupRequest) -> ErrorCode:
    if group.state in (GroupState.DEAD, GroupState.EMPTY):
        return SYNC_ANSWERS[group.state]
    error = group.identity_error(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if is_inconsistent(request.protocol_type, group.protocol_type) or is_inconsistent(
        request.protocol, group.protocol
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_ANSWERS[group.state]


def store_error(error: ErrorCode) -> ErrorCode:
    """Return the members' error when the append of their group failed with this one."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if error is ErrorCode.MESSAGE_TOO_LARGE else error
