"""Moves replicas from state to state: tells their brokers, and takes dead ones out of the ISR.

Source: Kafka's ReplicaStateMachine; docs/explanation/replication.md, "The controller".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
from highwater_controller.term import Term
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.znodes import PartitionLeadership


async def move_replicas(
    term: Term,
    replicas: Iterable[Replica],
    target: ReplicaState,
    init: Iterable[NodeId] = (),
) -> None:
    """Move the replicas and send what follows, one request per broker and kind.

    init: brokers that get their init command with this step even if it lists nothing. A replica
    that may not move there stays as it is: a bug of ours costs that replica, not the controller.
    """
    batch = RequestBatch(term)
    batch.add_init(init)
    stopped: dict[TopicPartition, list[NodeId]] = {}
    for replica in replicas:
        current = term.context.replica_state(replica)
        partition, broker = replica.topic_partition, replica.broker_id
        if not may_become(current, target):
            _refuse(term, replica, current, target)
            continue
        match EFFECTS[current, target]:
            case ReplicaEffect.SEND_NEW if term.context.leader_of(partition) == broker:
                _refuse(term, replica, current, target)
                continue
            case ReplicaEffect.SEND_NEW:
                batch.add_leader_and_isr([broker], partition, is_new=True)
            case ReplicaEffect.SEND_LEADERSHIP:
                batch.add_leader_and_isr([broker], partition)
            case ReplicaEffect.STOP:
                batch.add_stop_replica(broker, partition, delete=False)
                stopped.setdefault(partition, []).append(broker)
            case ReplicaEffect.STOP_AND_DELETE:
                batch.add_stop_replica(broker, partition, delete=True)
            case ReplicaEffect.REMEMBER | ReplicaEffect.FORGET:
                pass
        _remember(term, replica, target)
    for partition in await _remove_from_isrs(term, stopped):
        _announce_shrunk(term, batch, partition, stopped[partition])
    batch.send()


def put_replica(term: Term, replica: Replica, state: ReplicaState) -> None:
    """Set a replica's state as it was found, which is no transition."""
    term.context.replica_states[replica] = state


def _remember(term: Term, replica: Replica, target: ReplicaState) -> None:
    current = term.context.replica_state(replica)
    if target is ReplicaState.NON_EXISTENT:
        term.context.replica_states.pop(replica, None)
    else:
        term.context.replica_states[replica] = target
    if current is not target:
        term.emit(
            EventKind.REPLICA_STATE_CHANGED,
            replica.topic_partition,
            replica=replica.broker_id,
            from_state=current.value,
            to_state=target.value,
        )


def _refuse(term: Term, replica: Replica, current: ReplicaState, target: ReplicaState) -> None:
    term.emit(
        EventKind.TRANSITION_REFUSED,
        replica.topic_partition,
        replica=replica.broker_id,
        from_state=current.value,
        to_state=target.value,
    )


def _announce_shrunk(
    term: Term, batch: RequestBatch, partition: TopicPartition, gone: list[NodeId]
) -> None:
    if term.context.is_to_be_deleted(partition.topic):
        return
    others = [broker for broker in term.context.assignments[partition] if broker not in gone]
    batch.add_leader_and_isr(others, partition)


async def _remove_from_isrs(
    term: Term, stopped: Mapping[TopicPartition, Sequence[NodeId]]
) -> list[TopicPartition]:
    """Take stopped replicas out of their partitions' leadership; return where that changed it."""

    def decide_on(gone: Sequence[NodeId]) -> Decide:
        def decide(before: PartitionLeadership | None) -> LeadershipChange | None:
            if before is None:
                return None
            return without_replicas(before.leader, before.isr, tuple(gone))

        return decide

    decisions = {partition: decide_on(gone) for partition, gone in stopped.items()}
    changed: list[TopicPartition] = []
    for partition, update in (await update_leaderships(term, decisions)).items():
        if update is not None:
            trace_isr_written(term, partition, update.written)
            changed.append(partition)
    return changed
