"""The states of a partition, the valid transitions, and the effect of each. Pure.

Source: docs/explanation/replication.md, "Partition states"; Kafka's PartitionStateMachine.
"""

from __future__ import annotations

from enum import StrEnum


class PartitionState(StrEnum):
    """A partition's state in the active controller."""

    NON_EXISTENT = "NonExistentPartition"
    """Its topic is unknown to the controller, or being deleted."""
    NEW = "NewPartition"
    """Assigned, without a leader so far: it has no state znode."""
    ONLINE = "OnlinePartition"
    """A leader is set."""
    OFFLINE = "OfflinePartition"
    """Its last leader is dead."""


class PartitionEffect(StrEnum):
    """The effect of a transition besides the new state in memory."""

    REMEMBER = "remember"
    """No write."""
    CREATE_STATE = "create_state"
    """Create the state znode: the first live replica leads, all live ones are the ISR."""
    ELECT = "elect"
    """A selector chooses; write the state znode conditionally, leader epoch plus one."""


_S = PartitionState

VALID_PREVIOUS: dict[PartitionState, tuple[PartitionState, ...]] = {
    _S.NEW: (_S.NON_EXISTENT,),
    _S.ONLINE: (_S.NEW, _S.ONLINE, _S.OFFLINE),
    _S.OFFLINE: (_S.NEW, _S.ONLINE, _S.OFFLINE),
    _S.NON_EXISTENT: (_S.OFFLINE,),
}

EFFECTS: dict[tuple[PartitionState, PartitionState], PartitionEffect] = {
    (previous, target): PartitionEffect.REMEMBER
    for target, allowed in VALID_PREVIOUS.items()
    for previous in allowed
} | {
    (_S.NEW, _S.ONLINE): PartitionEffect.CREATE_STATE,
    (_S.ONLINE, _S.ONLINE): PartitionEffect.ELECT,
    (_S.OFFLINE, _S.ONLINE): PartitionEffect.ELECT,
}


def may_become(current: PartitionState, target: PartitionState) -> bool:
    """Return whether the table has the transition."""
    return current in VALID_PREVIOUS[target]


def initial_state(*, has_leadership: bool, leader_is_live: bool) -> PartitionState:
    """Return a partition's state when a new controller loads it from ZooKeeper."""
    if not has_leadership:
        return PartitionState.NEW
    return PartitionState.ONLINE if leader_is_live else PartitionState.OFFLINE
