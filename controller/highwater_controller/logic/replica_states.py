"""The states of a replica, the valid transitions, and the commands of each. Pure.

Source: docs/explanation/replication.md, "Replica states"; Kafka's ReplicaStateMachine.
"""

from __future__ import annotations

from enum import StrEnum

from highwater_controller.logic.leadership_change import LeadershipChange
from highwater_core.ids import NO_LEADER, NodeId


class ReplicaState(StrEnum):
    """A replica's state in the active controller."""

    NON_EXISTENT = "NonExistentReplica"
    """Its partition is unknown to the controller, or the replica is deleted."""
    NEW = "NewReplica"
    """Assigned; its broker may have its command, and follows."""
    ONLINE = "OnlineReplica"
    """Its broker lives, and has the command to lead or to follow."""
    OFFLINE = "OfflineReplica"
    """Its broker is dead, or has the command to stop it."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    """Its broker has the command to delete it, and has not answered."""
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """Its broker has confirmed that it is deleted."""
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """It must be deleted, and its broker is dead or has refused."""


class ReplicaEffect(StrEnum):
    """The effect of a transition besides the new state in memory."""

    REMEMBER = "remember"
    """No command."""
    SEND_NEW = "send_new"
    """LeaderAndIsr with is_new to the replica, once its partition has a leadership."""
    SEND_LEADERSHIP = "send_leadership"
    """LeaderAndIsr to the replica."""
    STOP = "stop"
    """StopReplica without deletion; out of the ISR; LeaderAndIsr to the other replicas."""
    STOP_AND_DELETE = "stop_and_delete"
    """StopReplica that deletes."""
    FORGET = "forget"
    """No command; the controller forgets the replica."""


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
    # A new replica has its command already, from its partition's election or SEND_NEW.
    (_S.NEW, _S.ONLINE): ReplicaEffect.REMEMBER,
}


def may_become(current: ReplicaState, target: ReplicaState) -> bool:
    """Return whether the table has the transition."""
    return current in VALID_PREVIOUS[target]


def without_replicas(
    leader: NodeId, isr: tuple[NodeId, ...], offline: tuple[NodeId, ...]
) -> LeadershipChange | None:
    """Return leader and ISR without `offline`, or None without a change.

    An ISR that would become empty stays: each of its members has all committed records.
    Deviation: Kafka removes replicas one at a time, so that the remaining ISR depends on their
    order.
    """
    remaining = tuple(broker for broker in isr if broker not in offline)
    shrunk = LeadershipChange(NO_LEADER if leader in offline else leader, remaining or isr)
    return None if (shrunk.leader, shrunk.isr) == (leader, isr) else shrunk
