"""Moves partitions from state to state: elects leaders, writes state znodes, sends commands.

Source: V3 design, on_broker_change and init_leaders; Kafka's PartitionStateMachine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from highwater_controller.context import VersionedLeadership
from highwater_controller.eligibility import eligible_leaders, next_leadership
from highwater_controller.logic.eligible_leaders import elect_eligible
from highwater_controller.logic.leader_selectors import (
    Elected,
    Election,
    NoLeader,
    Selector,
    elect_controlled_shutdown,
    elect_initial,
    elect_offline,
    elect_preferred,
    elect_reassign,
)
from highwater_controller.logic.partition_states import (
    EFFECTS,
    PartitionEffect,
    PartitionState,
    may_become,
)
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_reader import allows_unclean_election, read_leadership
from highwater_controller.term import Term
from highwater_core.events import EventKind
from highwater_core.ids import LeaderEpoch, NodeId, TopicPartition
from highwater_core.znodes import PartitionLeadership, topic_path

Targets = Mapping[TopicPartition, tuple[NodeId, ...]]
"""A reassignment's target replicas, by partition."""


async def move_partitions(
    term: Term,
    partitions: Iterable[TopicPartition],
    target: PartitionState,
    selector: Selector = Selector.OFFLINE,
    reassignment: Targets | None = None,
) -> list[TopicPartition]:
    """Move the partitions and send what follows; return those that are in the target state.

    A partition that finds no leader stays in its state; so does one that may not move there, which
    is a bug of ours, and costs that partition and not the controller.
    """
    effects: dict[TopicPartition, PartitionEffect] = {}
    for partition in partitions:
        current = term.context.partition_state(partition)
        if may_become(current, target):
            effects[partition] = EFFECTS[current, target]
        else:
            _refuse(term, partition, current, target)
    elected = await _elect_all(term, effects, selector, reassignment or {})
    batch = RequestBatch(term)
    moved: list[TopicPartition] = []
    for partition, effect in effects.items():
        if effect is not PartitionEffect.REMEMBER:
            recipients = elected[partition]
            if recipients is None:
                continue
            is_new = effect is PartitionEffect.CREATE_STATE
            batch.add_leader_and_isr(recipients, partition, is_new=is_new)
        _remember(term, partition, target)
        moved.append(partition)
    batch.send()
    return moved


async def _elect_all(
    term: Term,
    effects: Mapping[TopicPartition, PartitionEffect],
    selector: Selector,
    reassignment: Targets,
) -> dict[TopicPartition, tuple[NodeId, ...] | None]:
    """Elect where the move needs it; return who must be told, by partition."""
    to_elect = [
        partition for partition, effect in effects.items() if effect is not PartitionEffect.REMEMBER
    ]

    async def elect(partition: TopicPartition) -> tuple[NodeId, ...] | None:
        is_first = effects[partition] is PartitionEffect.CREATE_STATE
        wanted = Selector.INITIAL if is_first else selector
        return await _elect(term, partition, wanted, reassignment.get(partition))

    is_first = PartitionEffect.CREATE_STATE
    new = [partition for partition in to_elect if effects[partition] is is_first]
    found = await _elect_first(term, new)
    others = [partition for partition in to_elect if partition not in found]
    again = await term.store.each(others, elect)
    return found | dict(zip(others, again, strict=True))


async def _elect_first(
    term: Term, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[NodeId, ...] | None]:
    """Elect where there is no state so far, with few writes; return who must be told.

    Left out are those whose state turns out to exist: they are elected like all others.
    """
    assignments, electable = term.context.assignments, term.context.electable()
    found: dict[TopicPartition, tuple[NodeId, ...] | None] = {}
    decided: dict[TopicPartition, Elected] = {}
    for partition in partitions:
        decision = elect_initial(assignments[partition], electable)
        if isinstance(decision, Elected):
            decided[partition] = decision
        else:
            found[partition] = None
    first = [
        (partition, await _decided(term, partition, None, decision))
        for partition, decision in decided.items()
    ]
    written = await term.store.create_leaderships(first)
    for (partition, leadership), partition_epoch in zip(first, written, strict=True):
        if partition_epoch is not None:
            known = VersionedLeadership(leadership, partition_epoch)
            term.context.leaderships[partition] = known
            _trace_election(term, partition, known, decided[partition], Selector.INITIAL)
            found[partition] = decided[partition].isr
    return found


async def elect_leaders_where_none(term: Term) -> None:
    """Try to bring every New and Offline partition of the topics that stay Online."""
    waiting = [
        partition
        for partition in term.context.partitions_without_leader()
        if partition not in term.context.unreadable_partitions
    ]
    await move_partitions(term, waiting, PartitionState.ONLINE, Selector.OFFLINE)


def put_partition(term: Term, partition: TopicPartition, state: PartitionState) -> None:
    """Set a partition's state as it was found, which is no transition."""
    term.context.partition_states[partition] = state


def _refuse(
    term: Term, partition: TopicPartition, current: PartitionState, target: PartitionState
) -> None:
    term.emit(
        EventKind.TRANSITION_REFUSED,
        partition,
        from_state=current.value,
        to_state=target.value,
    )


def _remember(term: Term, partition: TopicPartition, target: PartitionState) -> None:
    current = term.context.partition_state(partition)
    if target is PartitionState.NON_EXISTENT:
        term.context.partition_states.pop(partition, None)
    else:
        term.context.partition_states[partition] = target
    if current is not target:
        term.emit(
            EventKind.PARTITION_STATE_CHANGED,
            partition,
            from_state=current.value,
            to_state=target.value,
        )


async def _elect(
    term: Term,
    partition: TopicPartition,
    selector: Selector,
    target: tuple[NodeId, ...] | None,
) -> tuple[NodeId, ...] | None:
    """Elect and write; return who must be told, or None when nobody leads.

    On a conflict with another writer it starts over from the read, as V3 has it.
    """
    while True:
        current = await read_leadership(term, partition)
        if current is None and partition in term.context.unreadable_partitions:
            return None
        if current is None and selector is not Selector.INITIAL:
            return None
        if current is not None and selector is Selector.INITIAL:
            selector = Selector.OFFLINE  # somebody created the state: it is not a first election
        decision = await _decide(term, partition, current, selector, target)
        if isinstance(decision, NoLeader):
            if current is not None:
                term.context.leaderships[partition] = current
            return None
        written = await _write(term, partition, current, decision)
        if written is not None:
            term.context.leaderships[partition] = written
            _trace_election(term, partition, written, decision, selector)
            return _recipients(term, partition, selector, decision, target)
        if current is None and not await _topic_exists(term, partition):
            return None


async def _decide(
    term: Term,
    partition: TopicPartition,
    current: VersionedLeadership | None,
    selector: Selector,
    target: tuple[NodeId, ...] | None,
) -> Election:
    assigned = term.context.assignments[partition]
    electable = term.context.electable()
    isr = () if current is None else current.leadership.isr
    match selector:
        case Selector.INITIAL:
            return elect_initial(assigned, electable)
        case Selector.REASSIGN:
            return elect_reassign(target or assigned, isr, electable)
        case Selector.PREFERRED:
            return elect_preferred(assigned, isr, electable)
        case Selector.CONTROLLED_SHUTDOWN:
            return elect_controlled_shutdown(assigned, isr, electable, term.context.shutting_down)
        case Selector.OFFLINE:
            clean = elect_offline(assigned, isr, electable, unclean=False)
            if isinstance(clean, NoLeader) and current is not None:
                elr = eligible_leaders(term, current.leadership)
                clean = elect_eligible(assigned, elr, electable) if elr else clean
            if isinstance(clean, NoLeader) and await allows_unclean_election(term, partition.topic):
                return elect_offline(assigned, isr, electable, unclean=True)
            return clean


async def _decided(
    term: Term,
    partition: TopicPartition,
    current: VersionedLeadership | None,
    decision: Elected,
) -> PartitionLeadership:
    """Return the state that the decision, made on what was read, is to be written as."""
    last_epoch = -1 if current is None else current.leadership.leader_epoch
    leadership = await next_leadership(
        term,
        partition,
        None if current is None else current.leadership,
        leader=decision.leader,
        leader_epoch=LeaderEpoch(last_epoch + 1),
        isr=decision.isr,
        elr=() if decision.unclean else None,
    )
    term.emit(
        EventKind.LEADERSHIP_DECIDED,
        partition,
        leader_epoch=leadership.leader_epoch,
        leader=decision.leader,
        isr=list(decision.isr),
        unclean=decision.unclean,
    )
    return leadership


async def _write(
    term: Term,
    partition: TopicPartition,
    current: VersionedLeadership | None,
    decision: Elected,
) -> VersionedLeadership | None:
    """Write the decision on what was read; None on a conflict."""
    leadership = await _decided(term, partition, current, decision)
    if current is None:
        written = await term.store.create_leadership(partition, leadership)
    else:
        written = await term.store.set_leadership(partition, leadership, current.partition_epoch)
    return None if written is None else VersionedLeadership(leadership, written)


async def _topic_exists(term: Term, partition: TopicPartition) -> bool:
    """Return whether a first election's conflict was about the state, not a vanished topic."""
    return await term.store.exists(topic_path(partition.topic)) is not None


def _recipients(
    term: Term,
    partition: TopicPartition,
    selector: Selector,
    decision: Elected,
    target: tuple[NodeId, ...] | None,
) -> tuple[NodeId, ...]:
    """Return who is told; the batch leaves out those that are not live."""
    if selector is Selector.INITIAL:
        return decision.isr
    if selector is Selector.REASSIGN and target is not None:
        return target
    return term.context.assignments[partition]


def _trace_election(
    term: Term,
    partition: TopicPartition,
    written: VersionedLeadership,
    decision: Elected,
    selector: Selector,
) -> None:
    term.emit(
        EventKind.LEADER_ELECTED,
        partition,
        leader_epoch=written.leadership.leader_epoch,
        leader=decision.leader,
        isr=list(decision.isr),
        unclean=decision.unclean,
        selector=selector.value,
        partition_epoch=written.partition_epoch,
    )
