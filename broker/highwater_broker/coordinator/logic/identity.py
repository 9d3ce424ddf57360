"""Checks a request's member id, instance id and generation against its group. Pure.

Source: KIP-345 for instance ids; KIP-211 and KIP-848 on OffsetCommit for its errors.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from highwater_broker.coordinator.logic.group_states import GroupState
from highwater_core.errors import ErrorCode

FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND = 9


def identity_error(
    members: Container[str],
    static_members: Mapping[str, str],
    member_id: str,
    group_instance_id: str | None,
) -> ErrorCode:
    """Return NONE, or why no member has these ids.

    static_members: member ids by instance id. A request with a known instance id and another
    member id than the last one that joined with it is fenced: two clients use one instance id.
    """
    if group_instance_id is not None:
        known = static_members.get(group_instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in members else ErrorCode.UNKNOWN_MEMBER_ID


def is_inconsistent(told: str | None, of_group: str | None) -> bool:
    """Return whether a member names another protocol or protocol type than its group has."""
    return told is not None and of_group is not None and told != of_group


def absent_group_error(generation: int, request_version: int) -> ErrorCode:
    """Return the error for a commit to a group that does not exist; NONE: the group is made.

    A consumer that assigns its own partitions may commit before there is a group.
    """
    if generation < 0:
        return ErrorCode.NONE
    if request_version >= FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def commit_error(
    state: GroupState,
    group_generation: int,
    generation: int,
    *,
    is_anonymous: bool,
    identity: ErrorCode,
) -> ErrorCode:
    """Return NONE, or why a commit is refused.

    is_anonymous: the request names neither a generation nor a member.
    identity: the error for its ids.
    In PreparingRebalance members of the current generation may commit, so that they can commit
    their offsets before they give up partitions. In CompletingRebalance they may not: they have
    joined the next generation and have no assignment yet.
    """
    if state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and state is GroupState.EMPTY:
        return ErrorCode.NONE
    if is_anonymous:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if identity is not ErrorCode.NONE:
        return identity
    if generation != group_generation:
        return ErrorCode.ILLEGAL_GENERATION
    if state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
