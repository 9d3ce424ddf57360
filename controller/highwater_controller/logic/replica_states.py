"""The states of a replica, the valid moves between them, and what each move sends. Pure.

Source: docs/explanation/replication.md, "Replica states"; Kafka's ReplicaStateMachine.
"""

from __future__ import annotations

from enum import StrEnum

from highwater_controller.logic.leadership_change import LeadershipChange
from highwater_core.ids import NO_LEADER, NodeId


class ReplicaState(StrEnum):
    """How far one replica of a partition has come, as the active controller sees it."""

    NON_EXISTENT = "NonExistentReplica"
    """Of no partition that the controller knows, or deleted."""
    NEW = "NewReplica"
    """Assigned; its broker may be told, and follows."""
    ONLINE = "OnlineReplica"
    """Its broker lives, and has been told to lead or to follow."""
    OFFLINE = "OfflineReplica"
    """Its broker is dead, or it was told to stop."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    """Its broker was told to delete it, and has not answered."""
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """Its broker has confirmed that it is deleted."""
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """It is to be deleted, and its broker is dead or has refused."""


class ReplicaEffect(StrEnum):
    """What a move needs besides the new state in memory."""

    REMEMBER = "remember"
    """Nothing is sent."""
    SEND_NEW = "send_new"
    """LeaderAndIsr with is_new to the replica, once its partition has a leadership."""
    SEND_LEADERSHIP = "send_leadership"
    """LeaderAndIsr to the replica."""
    STOP = "stop"
    """StopReplica without deletion; out of the ISR; LeaderAndIsr to the other replicas."""
    STOP_AND_DELETE = "stop_and_delete"
    """StopReplica that deletes."""
    FORGET = "forget"
    """Nothing is sent; the replica is known no longer."""


_S = ReplicaState
_HOSTED = (_S.NEW, _S.ONLINE, _S.OFFLINE, _S.DELETION_INELIGIBLE)

VALID_PREVIOUS: dict[ReplicaState, tuple[ReplicaState, ...]] = {
    _S.NEW: (_S.NON_EXISTENT,),
    _S.ONLINE: _HOSTED,
    _S.OFFLINE: _HOSTED,
    _S.DELETION_STARTED: (_S.OFFLINE,),
    _S.DELETION_SUCCESSFUL: (_S.DELETION_STARTED,),
    _S.DELETION_INELIGIBLE: (_S.OFFLINE, _S.DELETION_STARTED),
    _S.NON_EXISTENT: (_S.DELETION_SUCCESSFUL,),
}

_EFFECT_OF_TARGET: dict[ReplicaState, ReplicaEffect] = {
    _S.NEW: ReplicaEffect.SEND_NEW,
    _S.ONLINE: ReplicaEffect.SEND_LEADERSHIP,
    _S.OFFLINE: ReplicaEffect.STOP,
    _S.DELETION_STARTED: ReplicaEffect.STOP_AND_DELETE,
    _S.DELETION_SUCCESSFUL: ReplicaEffect.REMEMBER,
    _S.DELETION_INELIGIBLE: ReplicaEffect.REMEMBER,
    _S.NON_EXISTENT: ReplicaEffect.FORGET,
}

EFFECTS: dict[tuple[ReplicaState, ReplicaState], ReplicaEffect] = {
    (previous, target): _EFFECT_OF_TARGET[target]
    for target, allowed in VALID_PREVIOUS.items()
    for previous in allowed
} | {
    # A new replica has been told already, by its partition's election or by SEND_NEW.
    (_S.NEW, _S.ONLINE): ReplicaEffect.REMEMBER,
}


def may_become(current: ReplicaState, target: ReplicaState) -> bool:
    """Return whether the move is one of the table's."""
    return current in VALID_PREVIOUS[target]


def without_replicas(
    leader: NodeId, isr: tuple[NodeId, ...], offline: tuple[NodeId, ...]
) -> LeadershipChange | None:
    """Return leader and ISR once `offline` have gone, or None when nothing changes.

    An ISR that would become empty stays whole: any of its members holds all that is committed.
    Deviation: Kafka takes replicas out one at a time, so that the ISR then left depends on the
    order in which it does so.
    """
    remaining = tuple(broker for broker in isr if broker not in offline)
    shrunk = LeadershipChange(NO_LEADER if leader in offline else leader, remaining or isr)
    return None if (shrunk.leader, shrunk.isr) == (leader, isr) else shrunk
