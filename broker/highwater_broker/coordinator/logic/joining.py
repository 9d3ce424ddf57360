"""Decides what is done about a JoinGroup. Pure.

Source: KIP-345 (static members), KIP-394 (a dynamic member must know its id first), KIP-389 (the
largest size of a group); Kafka's GroupCoordinator, doJoinGroup.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from highwater_broker.coordinator.logic.group_states import GroupState
from highwater_core.errors import ErrorCode


class JoinStep(StrEnum):
    """The next step for a JoinGroup."""

    REFUSE = "refuse"
    SEND_BACK = "send_back"
    """Answer with a new member id; the member sends the request again with it."""
    ADD = "add"
    """A new member: rebalance."""
    REPLACE = "replace"
    """A static member was restarted: it replaces the member with its instance id."""
    UPDATE = "update"
    """A member joins the next generation: rebalance."""
    REPEAT = "repeat"
    """Answer with the member's generation again: it sends once more, so its answer was lost."""


class JoinDecision(NamedTuple):
    step: JoinStep
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class JoinFacts:
    """The facts of a JoinGroup and of its group that the decision needs."""

    state: GroupState
    fits: bool
    """The group has the same protocol type, and all members know one of this member's protocols."""
    is_full: bool = False
    """The group has its largest size."""
    has_id: bool = False
    """The request names a member id."""
    is_static: bool = False
    """The request names an instance id."""
    is_instance_known: bool = False
    """A member of the group has that instance id."""
    must_know_id: bool = True
    """A dynamic member without an id must ask again with an id (KIP-394)."""
    is_pending: bool = False
    """The member id was given out, and no member has joined with it yet."""
    identity_error: ErrorCode = ErrorCode.NONE
    """The error for the ids that the request names."""
    is_leader: bool = False
    has_same_protocols: bool = False
    """Its protocols and their metadata are the same as before."""


def decide_join(facts: JoinFacts) -> JoinDecision:
    """Return the next step, or the error for the request."""
    refused = _refusal(facts)
    if refused is not ErrorCode.NONE:
        return JoinDecision(JoinStep.REFUSE, refused)
    if not facts.has_id:
        if facts.is_static:
            return JoinDecision(JoinStep.REPLACE if facts.is_instance_known else JoinStep.ADD)
        return JoinDecision(JoinStep.SEND_BACK if facts.must_know_id else JoinStep.ADD)
    if facts.is_pending:
        return JoinDecision(JoinStep.ADD)
    if facts.state is GroupState.PREPARING_REBALANCE or not facts.has_same_protocols:
        return JoinDecision(JoinStep.UPDATE)
    if facts.state is GroupState.STABLE and facts.is_leader:
        # It may have seen new partitions: they change the assignment, and no member's metadata.
        return JoinDecision(JoinStep.UPDATE)
    return JoinDecision(JoinStep.REPEAT)


def _refusal(facts: JoinFacts) -> ErrorCode:
    if facts.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if facts.is_full:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not facts.fits:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not facts.has_id:
        return ErrorCode.NONE
    if facts.is_pending:
        # Ids are given out to dynamic members only.
        return ErrorCode.UNKNOWN_MEMBER_ID if facts.is_static else ErrorCode.NONE
    if facts.identity_error is not ErrorCode.NONE:
        return facts.identity_error
    return ErrorCode.UNKNOWN_MEMBER_ID if facts.state is GroupState.EMPTY else ErrorCode.NONE


def is_full(
    state: GroupState, max_size: int, size: int, joining_count: int, *, is_member: bool,
    is_joining: bool,
) -> bool:  # fmt: skip
    """Return whether the group has no place for this member.

    In PreparingRebalance only members that have joined again count. So if the largest size was
    lowered, the members that join last find no place.
    """
    match state:
        case GroupState.EMPTY | GroupState.DEAD:
            return False
        case GroupState.PREPARING_REBALANCE:
            return not is_joining and joining_count >= max_size
        case _:
            return not is_member and size >= max_size
