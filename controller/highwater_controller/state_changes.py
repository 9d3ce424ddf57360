"""Traces each transition of a partition or replica, and each that is not made.

A transition that is not made costs that partition or replica alone; the others are made.
Source: Kafka's ZkReplicaStateMachine (logInvalidTransition, StateChangeFailedException).
"""

from __future__ import annotations

from typing import Any

from highwater_controller.context import Replica
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.term import Term
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition

Subject = TopicPartition | Replica
State = PartitionState | ReplicaState


def trace_change(term: Term, subject: Subject, current: State, target: State) -> None:
    is_replica = isinstance(subject, Replica)
    changed = EventKind.REPLICA_STATE_CHANGED if is_replica else EventKind.PARTITION_STATE_CHANGED
    _trace(term, changed, subject, current, target)


def trace_refusal(term: Term, subject: Subject, current: State, target: State) -> None:
    """Trace a transition that the table does not have: a bug of its caller."""
    reason = "the table has no such change"
    _trace(term, EventKind.TRANSITION_REFUSED, subject, current, target, reason=reason)


def trace_failure(term: Term, subject: Subject, current: State, target: State, reason: str) -> None:
    """Trace a transition that the table has and that is impossible at the moment."""
    _trace(term, EventKind.STATE_CHANGE_FAILED, subject, current, target, reason=reason)


def _trace(
    term: Term, kind: EventKind, subject: Subject, current: State, target: State, **detail: Any
) -> None:
    if isinstance(subject, Replica):
        at, detail = subject.topic_partition, {"replica": subject.broker_id, **detail}
    else:
        at = subject
    known = term.context.leaderships.get(at)
    term.emit(
        kind,
        at,
        leader_epoch=None if known is None else known.leadership.leader_epoch,
        from_state=current.value,
        to_state=target.value,
        trigger=term.context.trigger,
        **detail,
    )
