"""Moves partitions' replicas from brokers to brokers, without a loss of records.

The order, and why: first the target is written into the topic's znode, so that any later controller
goes on with it. The leader epoch rises, so that the leader accepts its new followers. Added
replicas are started. Once all of the target are in sync, the removing ones lose the lead and leave
the ISR by one write, are stopped and deleted. Only then are they removed from the topic's znode: a
controller that dies in between leaves a job that can be done again.
Source: Kafka's KafkaController, onPartitionReassignment; KIP-455. As in Kafka the deletion of a
removed replica is not awaited; a log that a broker keeps of it is a stray at its next start.
Deviation: Kafka removes them from the ISR by a later write. Meanwhile the leader, which counts the
assigned replicas only, commits without them, and a lagging one could still be elected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from highwater_controller.admin_znodes import end_reassignments
from highwater_controller.assignment_updates import update_assignment
from highwater_controller.chunks import pieces
from highwater_controller.configurations import min_insync_replicas
from highwater_controller.context import Replica
from highwater_controller.leadership_updates import trace_isr_written, update_leadership
from highwater_controller.logic.leader_selectors import NoLeader, Selector, elect_reassign
from highwater_controller.logic.leadership_change import Brokers, LeadershipChange
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.partition_state_machine import elect_leaders_where_none, trace_election
from highwater_controller.replica_state_machine import move_replicas
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_reader import report_malformed
from highwater_controller.term import Term
from highwater_controller.topic_deletion import on_deletions_requested
from highwater_core.events import EventKind
from highwater_core.ids import NO_LEADER, TopicPartition
from highwater_core.ports import TooLarge
from highwater_core.reassignments import (
    NOT_REASSIGNED,
    is_given_up,
    may_complete,
    may_give_up,
    reassign,
    staying,
    target_of,
)
from highwater_core.topic_znode import Reassignment, TopicContent
from highwater_core.znodes import PartitionLeadership, topic_path

Moves = Mapping[TopicPartition, tuple[Brokers, Reassignment]]
"""All replicas of a partition, with its adding and removing ones."""


async def begin_reassignments(
    term: Term, topic: str, targets: Mapping[TopicPartition, Brokers]
) -> bool:
    """Write the topic's target replicas, and start the added ones; False if the topic is gone.

    The partitions are known, and the topic is not being deleted. A target may be the original
    replicas: then the reassignment is cancelled. A repeated target changes neither the replicas nor
    the leader epoch.

    Raises:
        TooLarge: the topic's znode would be too large; nothing has changed.
    """
    context = term.context
    moves: dict[TopicPartition, tuple[Brokers, Reassignment]] = {}
    for at, target in targets.items():
        known = context.assignments[at], context.reassignments.get(at, NOT_REASSIGNED)
        move = reassign(*known, target)
        if move != known:
            moves[at] = move
    if not moves:
        return True
    if await update_assignment(term, topic, lambda content: _with_moves(content, moves)) is None:
        return False
    for at, (replicas, reassignment) in moves.items():
        context.assign(at, replicas)
        context.reassignments.pop(at, None)
        if reassignment != NOT_REASSIGNED:
            context.reassignments[at] = reassignment
        term.emit(
            EventKind.REASSIGNMENT_BEGUN,
            at,
            replicas=list(replicas),
            adding=list(reassignment.adding),
            removing=list(reassignment.removing),
        )
    await _start_replicas(term, list(moves))
    for at in moves:
        if at not in context.reassignments:  # only the order changes, or no replica had been added
            left = list(context.assignments[at])
            term.emit(EventKind.REASSIGNMENT_COMPLETED, at, replicas=left, removed=[])
    if context.deletions_after_reassignment:
        await on_deletions_requested(term)
    return True


async def resume_reassignments(term: Term, partitions: Iterable[TopicPartition]) -> None:
    """Go on with reassignments of an earlier controller, or of a repaired znode.

    Start added replicas, and complete partitions that are ready.
    """
    moved = [at for at in partitions if at in term.context.reassignments]
    await _start_replicas(term, moved)
    await advance_reassignments(term, moved)


async def advance_reassignments(
    term: Term, partitions: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Complete the reassignments whose target is in sync; return their partitions.

    For a cancelled reassignment may_give_up decides instead.
    """
    context = term.context
    under_way = [at for at in partitions if at in context.reassignments]
    completed: list[TopicPartition] = []
    for some in pieces(under_way):
        completed += await _complete(term, some)
    return completed


def adopt_unassigned(term: Term, partitions: Iterable[TopicPartition]) -> None:
    """Treat ISR members that are no longer assigned as replicas to remove.

    The assignment was written by hand without them, and they may be the only ones in sync.
    """
    context = term.context
    for at in partitions:
        known = context.leaderships.get(at)
        replicas = context.assignments[at]
        outside = () if known is None else _without(known.leadership.isr, replicas)
        if outside:
            earlier = context.reassignments.get(at, NOT_REASSIGNED)
            context.assign(at, replicas + outside)
            context.reassignments[at] = Reassignment(earlier.adding, earlier.removing + outside)


def _without(brokers: Brokers, gone: Brokers) -> Brokers:
    return tuple(broker for broker in brokers if broker not in gone)


def _with_moves(content: TopicContent, moves: Moves) -> TopicContent | None:
    """Return the topic's content with the moves of its partitions."""
    assignment, reassignments = dict(content.assignment), dict(content.reassignments)
    for at, (replicas, reassignment) in moves.items():
        if at in assignment:
            assignment[at] = replicas
            reassignments.pop(at, None)
            if reassignment != NOT_REASSIGNED:
                reassignments[at] = reassignment
    return content._replace(assignment=assignment, reassignments=reassignments)


async def _start_replicas(term: Term, partitions: Sequence[TopicPartition]) -> None:
    """Send leaders and followers their new assignment, and start the added replicas."""
    context = term.context
    for some in pieces(partitions):
        led = [at for at in some if at in context.leaderships]
        await term.store.each(led, lambda at: _raise_epoch(term, at))
        new = [
            replica
            for replica in context.replicas_of_partitions(some)
            if context.replica_state(replica) is ReplicaState.NON_EXISTENT
        ]
        started = set(new)
        batch = RequestBatch(term)
        for at in led:
            there = [r for r in context.replicas_of_partitions([at]) if r not in started]
            batch.add_leader_and_isr([replica.broker_id for replica in there], at)
        batch.send()
        await move_replicas(term, new, ReplicaState.NEW)
        dead = [replica for replica in new if replica.broker_id not in context.live_brokers]
        await move_replicas(term, dead, ReplicaState.OFFLINE)
    if any(context.partition_state(at) is PartitionState.NEW for at in partitions):
        await elect_leaders_where_none(term)


async def _raise_epoch(term: Term, at: TopicPartition) -> None:
    """Keep leader and ISR; with the new epoch all replicas take their roles again."""
    update = await update_leadership(
        term,
        at,
        lambda before: None if before is None else LeadershipChange(before.leader, before.isr),
    )
    if update is not None:
        trace_isr_written(term, at, update.written)


# ---------------------------------------------------------------- completion


async def _complete(term: Term, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Remove the removing replicas where that is allowed; return the completed partitions."""
    context = term.context
    are_ready = await term.store.each(partitions, lambda at: _is_ready(term, at))
    ready = [at for at, is_ready in zip(partitions, are_ready, strict=True) if is_ready]
    came = [
        Replica(at, broker)
        for at in ready
        for broker in context.assignments[at]
        if context.replica_state(Replica(at, broker)) is ReplicaState.NEW
    ]
    await move_replicas(term, came, ReplicaState.ONLINE)
    led = await term.store.each(ready, lambda at: _lead_without_removed(term, at))
    done = [at for at, is_led in zip(ready, led, strict=True) if is_led]
    if not done:
        return []
    batch = RequestBatch(term)
    for at in done:
        batch.add_leader_and_isr(context.assignments[at], at)
    batch.send()
    removed = {at: context.reassignments[at].removing for at in done}
    await _delete_replicas(term, [Replica(at, broker) for at in done for broker in removed[at]])
    left = {at: (context.assignments[at], NOT_REASSIGNED) for at in done}
    topics = list(dict.fromkeys(at.topic for at in done))
    written = await term.store.each(topics, lambda topic: _write_moves(term, topic, left))
    # An unreadable or too large znode is written after its repair: until then the job is not over.
    unwritten = [topic for topic, is_written in zip(topics, written, strict=True) if not is_written]
    done = [at for at in done if at.topic not in unwritten]
    await end_reassignments(term, done)
    for at in done:
        del context.reassignments[at]
        term.emit(
            EventKind.REASSIGNMENT_COMPLETED,
            at,
            replicas=list(context.assignments[at]),
            removed=list(removed[at]),
        )
    batch = RequestBatch(term)
    batch.add_update_metadata(context.live_brokers, done)
    batch.send()
    if context.deletions_after_reassignment:
        await on_deletions_requested(term)
    return done


async def _write_moves(term: Term, topic: str, moves: Moves) -> bool:
    """Write the moves of the topic's partitions into its znode; return whether that was possible.

    Others may write more than a node does. Such a znode is left as it is until it is written anew,
    or the term ends: each further try would be in vain, and take the partitions' leader epochs up.
    """
    try:
        content = await update_assignment(term, topic, lambda before: _with_moves(before, moves))
    except TooLarge as fault:
        report_malformed(term, topic_path(topic), fault)
        term.context.unwritable_topics.add(topic)
        return False
    return content is not None


async def _is_ready(term: Term, at: TopicPartition) -> bool:
    """Return whether the reassignment may complete, as far as known without a read."""
    context = term.context
    known = context.leaderships.get(at)
    return (
        known is not None
        and at not in context.unreadable_partitions
        and at.topic not in context.unreadable_topics
        and at.topic not in context.unwritable_topics
        and _may_go(term, at, known.leadership, await _least_left(term, at))
    )


async def _least_left(term: Term, at: TopicPartition) -> int | None:
    """Return how many must stay in sync where not all of the target need be; else None."""
    if not is_given_up(term.context.reassignments[at]):
        return None
    known = term.context.leaderships.get(at)
    leader = NO_LEADER if known is None else known.leadership.leader
    return await min_insync_replicas(term, at.topic, leader)


def _may_go(
    term: Term, at: TopicPartition, leadership: PartitionLeadership, least_left: int | None
) -> bool:
    context = term.context
    reassignment = context.reassignments[at]
    target = target_of(context.assignments[at], reassignment)
    if least_left is not None and not set(leadership.isr + leadership.elr) - set(target):
        return True
    if context.partition_state(at) is not PartitionState.ONLINE:
        return False
    electable = context.electable_for(at)
    return may_complete(target, leadership.isr, electable) or (
        least_left is not None and may_give_up(target, leadership.isr, electable, least_left)
    )


async def _lead_without_removed(term: Term, at: TopicPartition) -> bool:
    """Elect a remaining replica under a new epoch; return whether that was possible.

    The removing replicas leave the ISR by the same write. From then on they are no longer assigned
    in memory: the leader, which gets this assignment, does not add them to its ISR again.
    """
    context = term.context
    target = target_of(context.assignments[at], context.reassignments[at])
    least_left = await _least_left(term, at)

    def decide(before: PartitionLeadership | None) -> LeadershipChange | None:
        if before is None or not _may_go(term, at, before, least_left):
            return None
        is_led = context.partition_state(at) is PartitionState.ONLINE
        leader = before.leader
        electable = context.electable_for(at)
        if is_led and not (leader in target and leader in electable):
            elected = elect_reassign(target, before.isr, electable)
            if isinstance(elected, NoLeader):
                return None
            leader = elected.leader
        return LeadershipChange(leader, staying(before.isr, target), staying(before.elr, target))

    update = await update_leadership(term, at, decide)
    if update is None or update.before is None:
        return False
    if update.change.leader != update.before.leader:
        trace_election(term, at, update.written, update.change, Selector.REASSIGN)
    else:
        trace_isr_written(term, at, update.written)
    context.assign(at, target)
    return True


async def _delete_replicas(term: Term, replicas: Sequence[Replica]) -> None:
    """Stop the replicas, remove them from the ISR, delete and forget them."""
    context = term.context
    there = [
        each for each in replicas if context.replica_state(each) is not ReplicaState.NON_EXISTENT
    ]
    for state in (
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        there = await move_replicas(term, there, state)
