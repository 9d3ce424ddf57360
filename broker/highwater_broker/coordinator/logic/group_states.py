"""A group's states as tables: the moves between them, and each state's errors. Pure.

Source: Kafka's ClassicGroupState; the protocol is KIP-62's, as Kafka's GroupCoordinator has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from highwater_core.errors import ErrorCode
from highwater_wire.kafka.record_batch import MAX_INT32


class GroupState(StrEnum):
    """The state of a group; the values are Kafka's words, as in DescribeGroups."""

    EMPTY = "Empty"
    """No members; there may be offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are to join the next generation."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined; the leader's assignment is waited for."""
    STABLE = "Stable"
    """Each member has its assignment."""
    DEAD = "Dead"
    """Deleted, or coordinated by another broker now."""


_S = GroupState

MOVES: Mapping[tuple[GroupState, GroupState], str] = {
    (_S.EMPTY, _S.PREPARING_REBALANCE): "a first member joins",
    (_S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE): "all members joined, or time is over",
    (_S.PREPARING_REBALANCE, _S.EMPTY): "time is over and no member is left",
    (_S.COMPLETING_REBALANCE, _S.STABLE): "the leader's assignment is stored",
    (_S.COMPLETING_REBALANCE, _S.PREPARING_REBALANCE): "a member joins, changes, leaves or fails",
    (_S.STABLE, _S.PREPARING_REBALANCE): "a member joins, changes, leaves or fails",
    (_S.EMPTY, _S.DEAD): "deleted, expired or resigned",
    (_S.PREPARING_REBALANCE, _S.DEAD): "resigned",
    (_S.COMPLETING_REBALANCE, _S.DEAD): "resigned",
    (_S.STABLE, _S.DEAD): "resigned",
}
"""Every move, and what causes it."""

REBALANCES_FROM = tuple(
    state for state, target in MOVES if target is GroupState.PREPARING_REBALANCE
)
"""The states in which a rebalance may begin; in others one is under way, or the group is dead."""

HEARTBEAT_ANSWERS: Mapping[GroupState, ErrorCode] = {
    _S.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _S.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    _S.COMPLETING_REBALANCE: ErrorCode.NONE,
    _S.STABLE: ErrorCode.NONE,
    _S.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What a heartbeat of a member of the current generation is answered."""

SYNC_ANSWERS: Mapping[GroupState, ErrorCode] = {
    _S.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _S.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    _S.COMPLETING_REBALANCE: ErrorCode.NONE,
    _S.STABLE: ErrorCode.NONE,
    _S.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Likewise a SyncGroup; NONE: with the assignment, as soon as there is one."""

DELETE_ANSWERS: Mapping[GroupState, ErrorCode] = {
    _S.EMPTY: ErrorCode.NONE,
    _S.PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    _S.COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    _S.STABLE: ErrorCode.NON_EMPTY_GROUP,
    _S.DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}
"""What a DeleteGroups is answered; NONE: the group is deleted."""


def next_generation(generation: int) -> int:
    """Return the generation after this one; after the highest number of the wire format it is 1.

    No group lives that long; a damaged or restored record of a group may say so.
    """
    return 1 if generation >= MAX_INT32 else generation + 1
