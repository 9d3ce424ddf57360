"""The states of a partition, the valid moves between them, and what each move needs. Pure.

Source: docs/explanation/replication.md, "Partition states"; Kafka's PartitionStateMachine.
"""

from __future__ import annotations

from enum import StrEnum


class PartitionState(StrEnum):
    """How far a partition has come, as the active controller sees it."""

    NON_EXISTENT = "NonExistentPartition"
    """Of no topic that the controller knows, or being deleted."""
    NEW = "NewPartition"
    """Assigned, without a leader so far: it has no state znode."""
    ONLINE = "OnlinePartition"
    """A leader is set."""
    OFFLINE = "OfflinePartition"
    """It had a leader, which is dead."""


class PartitionEffect(StrEnum):
    """What a move needs besides the new state in memory."""

    REMEMBER = "remember"
    """Nothing is written."""
    CREATE_STATE = "create_state"
    """The first live replica leads, all live ones are the ISR; the state znode is created."""
    ELECT = "elect"
    """A selector chooses; the state znode is written conditionally, leader epoch plus one."""


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
    """Return whether the move is one of the table's."""
    return current in VALID_PREVIOUS[target]


def initial_state(*, has_leadership: bool, leader_is_live: bool) -> PartitionState:
    """Return what a new controller takes a partition for when it loads it from ZooKeeper."""
    if not has_leadership:
        return PartitionState.NEW
    return PartitionState.ONLINE if leader_is_live else PartitionState.OFFLINE
