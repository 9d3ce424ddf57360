"""Planted: the controller moves replicas and holds requested elections wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from highwater_controller import failover, leader_elections, partition_state_machine, reassignment
from highwater_controller.context import Replica
from highwater_controller.logic.leader_selectors import Elected, Election, NoLeader
from highwater_controller.logic.leadership_change import Brokers
from highwater_controller.term import Term
from highwater_core.admin_messages import ElectionType
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.topic_plans import Refused
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_find_fault = leader_elections._find_fault


def _once_one_is_in_sync(target: Brokers, isr: Brokers, live: Set[NodeId]) -> bool:
    return any(broker in isr and broker in live for broker in target)


def _all_of_them(members: Brokers, target: Brokers) -> Brokers:
    return members


async def _do_not_stop(term: Term, replicas: Sequence[Replica]) -> None:
    for replica in replicas:
        term.context.replica_states.pop(replica, None)


async def _leave_the_epoch(term: Term, at: TopicPartition) -> None:
    pass


async def _leave_the_job(term: Term, done: Iterable[TopicPartition]) -> None:
    pass


async def _begin_nothing_again(term: Term, partitions: Iterable[TopicPartition]) -> None:
    term.context.reassignments.clear()


def _elect_the_head(assigned: Brokers, isr: Brokers, live: Set[NodeId]) -> Election:
    head = assigned[0]
    if head not in live:
        return NoLeader("the preferred replica is not live")
    return Elected(head, isr if head in isr else (head, *isr))


def _ask_for_life_alone(term: Term, at: TopicPartition, asked: ElectionType) -> Refused | None:
    fault = _find_fault(term, at, asked)
    lags = fault is not None and fault.error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return None if lags and at in term.context.leaderships else fault


def _add_none(term: Term, partition: TopicPartition) -> Brokers:
    return ()


BUGS = (
    PlantedBug(
        name="moved_before_in_sync",
        summary="replicas go once one of those that stay is in sync, not all",
        source="own; Kafka's KafkaController, onPartitionReassignment",
        breaks=("I18",),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(reassignment, "may_complete", _once_one_is_in_sync),),
    ),
    PlantedBug(
        name="isr_keeps_who_goes",
        summary="replicas that go leave the ISR by a later write than the one that moves the lead",
        source="own; as Kafka's ZooKeeper controller does it",
        breaks=("I2", "I5"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(reassignment, "staying", _all_of_them),),
    ),
    PlantedBug(
        name="moved_replica_not_stopped",
        summary="brokers are not told to stop and delete replicas that have moved away",
        source="own; KAFKA-10545",
        breaks=("I13",),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(reassignment, "_delete_replicas", _do_not_stop),),
    ),
    PlantedBug(
        name="epoch_kept_when_moved",
        summary="the leader epoch stays as a reassignment begins: the leader knows no new follower",
        source="own; KAFKA-8813",
        breaks=("L6", "L4"),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(reassignment, "_raise_epoch", _leave_the_epoch),),
    ),
    PlantedBug(
        name="admin_job_kept",
        summary="a reassignment that is done stays in /admin/reassign_partitions",
        source="own; Kafka's KafkaController",
        breaks=("L6",),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(reassignment, "end_reassignments", _leave_the_job),),
    ),
    PlantedBug(
        name="moves_not_resumed",
        summary="a new controller forgets the reassignments that its predecessor had begun",
        source="own; Kafka's KafkaController, controller failover",
        breaks=("L6",),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(failover, "resume_reassignments", _begin_nothing_again),),
    ),
    PlantedBug(
        name="preferred_outside_isr",
        summary="the preferred replica is elected though it is not in sync",
        source="own; KIP-460",
        breaks=("I4", "I2", "I1", "I11"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(
            Replacement(leader_elections, "_find_fault", _ask_for_life_alone),
            Replacement(partition_state_machine, "elect_preferred", _elect_the_head),
        ),
    ),
    PlantedBug(
        name="added_replica_elected",
        summary="an unclean election during a move takes the assignment's first live replica, "
        "though the move adds it and it may be empty",
        source="own; KIP-455, KIP-106",
        breaks=("I12",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(partition_state_machine, "_added_replicas", _add_none),),
    ),
)
