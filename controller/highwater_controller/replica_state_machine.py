"""Makes replicas' transitions: sends commands, and removes dead ones from the ISR.

Source: Kafka's ReplicaStateMachine; docs/explanation/replication.md, "The controller".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto

from highwater_controller.context import Replica
from highwater_controller.leadership_updates import Decide, trace_isr_written, update_leaderships
from highwater_controller.logic.leadership_change import LeadershipChange
from highwater_controller.logic.replica_states import (
    EFFECTS,
    ReplicaEffect,
    ReplicaState,
    may_become,
    without_replicas,
)
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_changes import trace_change, trace_failure, trace_refusal
from highwater_controller.term import Term
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.znodes import PartitionLeadership


async def move_replicas(
    term: Term,
    replicas: Iterable[Replica],
    target: ReplicaState,
    init: Iterable[NodeId] = (),
) -> list[Replica]:
    """Make the transition and send its commands; return the replicas that made it.

    Each broker gets one request of a kind. init: brokers that have just started, which get their
    init command with this step even if it lists no partition. A replica without a valid transition
    stays as it is: a bug of ours costs that replica, not the controller. So does one whose
    transition is impossible: a new one that leads, or one to take offline whose partition has no
    state. Both are traced.
    """
    batch = RequestBatch(term)
    came = dict.fromkeys(init)
    batch.add_init(came)
    moves = _permitted(term, replicas, target)
    if target is ReplicaState.OFFLINE:
        moves = await leave_isrs(term, batch, moves)
    for replica in moves:
        current = term.context.replica_state(replica)
        effect = EFFECTS[current, target]
        if current is ReplicaState.NEW and replica.broker_id in came:
            effect = ReplicaEffect.SEND_LEADERSHIP  # leaders since then could not send it commands
        _add_command(batch, replica, effect)
        _remember(term, replica, target)
    batch.send()
    return moves


def _permitted(term: Term, replicas: Iterable[Replica], target: ReplicaState) -> list[Replica]:
    """Return the replicas, each once, whose transition is valid and possible as far as known."""
    permitted: list[Replica] = []
    for replica in dict.fromkeys(replicas):
        current = term.context.replica_state(replica)
        leader = term.context.leader_of(replica.topic_partition)
        if not may_become(current, target):
            trace_refusal(term, replica, current, target)
        elif target is ReplicaState.NEW and leader == replica.broker_id:
            trace_failure(term, replica, current, target, "it leads the partition")
        else:
            permitted.append(replica)
    return permitted


def _add_command(batch: RequestBatch, replica: Replica, effect: ReplicaEffect) -> None:
    at, broker = replica.topic_partition, replica.broker_id
    match effect:
        case ReplicaEffect.SEND_NEW:
            batch.add_leader_and_isr([broker], at, is_new=True)
        case ReplicaEffect.SEND_LEADERSHIP:
            batch.add_leader_and_isr([broker], at)
        case ReplicaEffect.STOP:
            batch.add_stop_replica(broker, at, delete=False)
        case ReplicaEffect.STOP_AND_DELETE:
            batch.add_stop_replica(broker, at, delete=True)
        case ReplicaEffect.REMEMBER | ReplicaEffect.FORGET:
            pass


def put_replica(term: Term, replica: Replica, state: ReplicaState) -> None:
    """Set a replica's state as found in ZooKeeper, without a transition."""
    term.context.replica_states[replica] = state


def _remember(term: Term, replica: Replica, target: ReplicaState) -> None:
    current = term.context.replica_state(replica)
    if target is ReplicaState.NON_EXISTENT:
        term.context.replica_states.pop(replica, None)
    else:
        term.context.replica_states[replica] = target
    if current is not target:
        trace_change(term, replica, current, target)


# ---------------------------------------------------------------- out of the ISR


class _Left(Enum):
    """The result of removing replicas from a partition's ISR."""

    CHANGED = auto()
    AS_IT_WAS = auto()
    NO_STATE = auto()


async def leave_isrs(term: Term, batch: RequestBatch, replicas: Iterable[Replica]) -> list[Replica]:
    """Remove the replicas from their ISRs; return those of partitions that have a state.

    The other replicas get commands, except for topics that are being deleted, which need no state.
    """
    leaving: dict[TopicPartition, list[Replica]] = {}
    for replica in replicas:
        leaving.setdefault(replica.topic_partition, []).append(replica)
    left: list[Replica] = []
    for at, outcome in (await _write_isrs_without(term, leaving)).items():
        gone = leaving[at]
        is_doomed = term.context.is_to_be_deleted(at.topic)
        if outcome is _Left.NO_STATE and not is_doomed:
            for replica in gone:
                current = term.context.replica_state(replica)
                trace_failure(
                    term, replica, current, ReplicaState.OFFLINE, "the partition has no state"
                )
            continue
        left += gone
        if outcome is _Left.CHANGED and not is_doomed:
            brokers = [replica.broker_id for replica in gone]
            others = [broker for broker in term.context.assignments[at] if broker not in brokers]
            batch.add_leader_and_isr(others, at)
    return left


async def _write_isrs_without(
    term: Term, leaving: Mapping[TopicPartition, Iterable[Replica]]
) -> dict[TopicPartition, _Left]:
    """Remove stopped replicas from the leaderships, and trace it."""
    outcomes = dict.fromkeys(leaving, _Left.AS_IT_WAS)

    def decide_on(at: TopicPartition) -> Decide:
        gone = tuple(replica.broker_id for replica in leaving[at])

        def decide(before: PartitionLeadership | None) -> LeadershipChange | None:
            if before is None:
                outcomes[at] = _Left.NO_STATE
                return None
            return without_replicas(before.leader, before.isr, gone)

        return decide

    updates = await update_leaderships(term, {at: decide_on(at) for at in leaving})
    for at, update in updates.items():
        if update is not None:
            outcomes[at] = _Left.CHANGED
            trace_isr_written(term, at, update.written)
    return outcomes
