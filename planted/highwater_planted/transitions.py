"""Planted: the controller makes transitions of replicas that its table does not have."""

from __future__ import annotations

from collections.abc import Iterable

from highwater_controller import replica_state_machine, topic_deletion
from highwater_controller.context import Replica
from highwater_controller.logic.replica_states import EFFECTS, ReplicaState
from highwater_controller.replica_state_machine import move_replicas
from highwater_controller.term import Term
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_EFFECT_OF_TARGET = {target: effect for (_, target), effect in reversed(EFFECTS.items())}
_EVERY_EFFECT = {
    (previous, target): effect
    for target, effect in _EFFECT_OF_TARGET.items()
    for previous in ReplicaState
}


async def _do_not_stop_first(
    term: Term, replicas: Iterable[Replica], target: ReplicaState
) -> list[Replica]:
    """Leave out the transition to OfflineReplica before a replica's deletion."""
    if target is ReplicaState.OFFLINE:
        return list(replicas)
    return await move_replicas(term, replicas, target)


def _allow_all(current: ReplicaState, target: ReplicaState) -> bool:
    return True


_NOT_STOPPED = Replacement(topic_deletion, "move_replicas", _do_not_stop_first)

BUGS = (
    PlantedBug(
        name="deleted_without_stopping",
        summary="a topic's replicas are to be deleted while they are online, which no table has",
        source="own; Kafka's ZkReplicaStateMachine, ReplicaDeletionStarted",
        breaks=("I12", "L6"),
        shows_under=(FaultFamily.TOPICS,),
        replacements=(_NOT_STOPPED,),
    ),
    PlantedBug(
        name="transition_not_checked",
        summary="online replicas are deleted: the state machine does not look at its table",
        source="own; Kafka's ZkReplicaStateMachine, checkValidReplicaStateChange",
        breaks=("I12",),
        shows_under=(FaultFamily.TOPICS,),
        replacements=(
            _NOT_STOPPED,
            Replacement(replica_state_machine, "may_become", _allow_all),
            Replacement(replica_state_machine, "EFFECTS", _EVERY_EFFECT),
        ),
    ),
)
