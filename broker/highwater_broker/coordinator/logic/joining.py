"""What becomes of a member that asks to join. Pure.

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
    """What is done about a JoinGroup."""

    REFUSE = "refuse"
    SEND_BACK = "send_back"
    """Give the member an id, with which it is to ask again."""
    ADD = "add"
    """A new member: rebalance."""
    REPLACE = "replace"
    """A static member that was restarted takes the place that it had."""
    UPDATE = "update"
    """A member joins the next generation: rebalance."""
    REPEAT = "repeat"
    """Tell the member the current generation again, of which it is: its answer was lost."""


class JoinDecision(NamedTuple):
    step: JoinStep
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class JoinFacts:
    """What counts of a JoinGroup and of its group."""

    state: GroupState
    fits: bool
    """The group has no other type, and a protocol that all know is among the member's."""
    is_full: bool = False
    """There is no place for the member."""
    has_id: bool = False
    """It names a member id."""
    is_static: bool = False
    """It names an instance id."""
    is_instance_known: bool = False
    """A member of the group has that instance id."""
    must_know_id: bool = True
    """A dynamic member without an id is sent back with one."""
    is_pending: bool = False
    """Its id was given out, and nobody has joined with it yet."""
    identity_error: ErrorCode = ErrorCode.NONE
    """What is wrong with the ids that it names."""
    is_leader: bool = False
    has_same_protocols: bool = False
    """It tells no other protocols and metadata than before."""


def decide_join(facts: JoinFacts) -> JoinDecision:
    """Return what is done about it."""
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
        # It may have seen what changes the assignment and no member's metadata: other partitions.
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
    """Return whether there is no place for one who asks to join.

    While a rebalance is prepared those count who wait for it: of the members before it, those who
    come last find no place if the largest size was lowered.
    """
    match state:
        case GroupState.EMPTY | GroupState.DEAD:
            return False
        case GroupState.PREPARING_REBALANCE:
            return not is_joining and joining_count >= max_size
        case _:
            return not is_member and size >= max_size
