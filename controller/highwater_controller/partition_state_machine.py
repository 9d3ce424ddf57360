"""Makes partitions' transitions: elects leaders, writes state znodes, sends commands.

Source: V3 design, on_broker_change and init_leaders; Kafka's PartitionStateMachine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from highwater_controller.configurations import allows_unclean_election
from highwater_controller.context import VersionedLeadership
from highwater_controller.eligibility import eligible_leaders, next_leadership
from highwater_controller.leadership_updates import (
    Decide,
    LeadershipUpdate,
    announce_decision,
    update_leadership,
    update_leaderships,
)
from highwater_controller.logic.eligible_leaders import elect_eligible
from highwater_controller.logic.leader_selectors import (
    Elected,
    Election,
    NoLeader,
    Selector,
    elect_initial,
    elect_offline,
    elect_preferred,
    elect_reassign,
    elect_without,
)
from highwater_controller.logic.leadership_change import LeadershipChange
from highwater_controller.logic.partition_states import (
    EFFECTS,
    PartitionEffect,
    PartitionState,
    may_become,
)
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_changes import trace_change, trace_failure, trace_refusal
from highwater_controller.term import Term
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.znodes import PartitionLeadership

Targets = Mapping[TopicPartition, tuple[NodeId, ...]]
"""A reassignment's target replicas, by partition."""

Outcome = tuple[NodeId, ...] | NoLeader
"""The result of an election: the recipients of commands, or why there is no leader."""


async def move_partitions(
    term: Term,
    partitions: Iterable[TopicPartition],
    target: PartitionState,
    selector: Selector = Selector.OFFLINE,
    reassignment: Targets | None = None,
) -> list[TopicPartition]:
    """Make the transition and send its commands; return the partitions that made it.

    A partition without a new leader stays in its state. So does one without a valid transition,
    which is a bug of ours and costs that partition alone. Both are traced.
    """
    effects: dict[TopicPartition, PartitionEffect] = {}
    for partition in partitions:
        current = term.context.partition_state(partition)
        if may_become(current, target):
            effects[partition] = EFFECTS[current, target]
        else:
            trace_refusal(term, partition, current, target)
    elected = await _elect_all(term, effects, selector, reassignment or {})
    batch = RequestBatch(term)
    moved: list[TopicPartition] = []
    for partition, effect in effects.items():
        if effect is not PartitionEffect.REMEMBER:
            recipients = elected[partition]
            if isinstance(recipients, NoLeader):
                current = term.context.partition_state(partition)
                trace_failure(term, partition, current, target, recipients.reason)
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
) -> dict[TopicPartition, Outcome]:
    """Elect where the transition needs it; return each partition's result."""
    to_elect = [
        partition for partition, effect in effects.items() if effect is not PartitionEffect.REMEMBER
    ]

    is_first = PartitionEffect.CREATE_STATE
    found = await _elect_first(term, [each for each in to_elect if effects[each] is is_first])
    selectors = {
        partition: Selector.INITIAL if effects[partition] is is_first else selector
        for partition in to_elect
        if partition not in found
    }
    return found | await _elect_on_states(term, selectors, reassignment)


async def _elect_first(
    term: Term, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Outcome]:
    """Elect where there is no state so far, with few writes; return each partition's result.

    Partitions whose state exists after all are left out: they are elected like all others.
    """
    found: dict[TopicPartition, Outcome] = {}
    changes: dict[TopicPartition, LeadershipChange] = {}
    for partition in partitions:
        decision = _elect_initial(term, partition)
        if isinstance(decision, NoLeader):
            found[partition] = decision
        else:
            changes[partition] = _to_change(decision)
    first: list[tuple[TopicPartition, PartitionLeadership]] = []
    for partition, change in changes.items():
        leadership = await next_leadership(term, partition, None, change)
        announce_decision(term, partition, leadership, change)
        first.append((partition, leadership))
    written = await term.store.create_leaderships(first)
    for (partition, leadership), partition_epoch in zip(first, written, strict=True):
        if partition_epoch is not None:
            known = VersionedLeadership(leadership, partition_epoch)
            term.context.leaderships[partition] = known
            trace_election(term, partition, known, changes[partition], Selector.INITIAL)
            found[partition] = _electable_replicas(term, partition)
    return found


async def elect_leaders_where_none(term: Term, topics: Collection[str] | None = None) -> None:
    """Try to make every New and Offline partition of topics that stay Online.

    topics: None for all.
    """
    waiting = [
        partition
        for partition in term.context.partitions_without_leader()
        if partition not in term.context.unreadable_partitions
        and (topics is None or partition.topic in topics)
    ]
    await move_partitions(term, waiting, PartitionState.ONLINE, Selector.OFFLINE)


def put_partition(term: Term, partition: TopicPartition, state: PartitionState) -> None:
    """Set a partition's state as found in ZooKeeper, without a transition."""
    term.context.partition_states[partition] = state


def _remember(term: Term, partition: TopicPartition, target: PartitionState) -> None:
    current = term.context.partition_state(partition)
    if target is PartitionState.NON_EXISTENT:
        term.context.partition_states.pop(partition, None)
    else:
        term.context.partition_states[partition] = target
    if current is not target:
        trace_change(term, partition, current, target)


async def _elect_on_states(
    term: Term, selectors: Mapping[TopicPartition, Selector], reassignment: Targets
) -> dict[TopicPartition, Outcome]:
    """Elect and write; return the recipients of commands, or why there is no leader.

    An unclean election is tried when a clean one finds no leader, if the topic allows it.
    """
    nobody = dict.fromkeys(selectors, NoLeader("its state cannot be read, or the topic is gone"))

    def decide_by(partition: TopicPartition, *, unclean: bool) -> Decide:
        selector, target = selectors[partition], reassignment.get(partition)

        def decide(before: PartitionLeadership | None) -> LeadershipChange | None:
            decision = _decide(term, partition, before, selector, target, unclean=unclean)
            if isinstance(decision, NoLeader):
                nobody[partition] = decision
                return None
            return _to_change(decision)

        return decide

    async def elect_unclean(partition: TopicPartition) -> LeadershipUpdate | None:
        if await _may_elect_unclean(term, partition, selectors[partition]):
            return await update_leadership(term, partition, decide_by(partition, unclean=True))
        return None

    unclean = term.toggles.unclean_election
    updates = await update_leaderships(
        term, {partition: decide_by(partition, unclean=unclean) for partition in selectors}
    )
    leaderless = [partition for partition, update in updates.items() if update is None]
    elected = await term.store.each(leaderless, elect_unclean)
    updates.update(zip(leaderless, elected, strict=True))
    return {
        partition: nobody[partition]
        if update is None
        else _tell(term, partition, update, selectors[partition], reassignment.get(partition))
        for partition, update in updates.items()
    }


def _tell(
    term: Term,
    partition: TopicPartition,
    update: LeadershipUpdate,
    selector: Selector,
    target: tuple[NodeId, ...] | None,
) -> tuple[NodeId, ...]:
    """Trace an election and return the recipients of commands."""
    if update.before is not None and selector is Selector.INITIAL:
        selector = Selector.OFFLINE  # another writer created the state: it was not a first election
    trace_election(term, partition, update.written, update.change, selector)
    return _recipients(term, partition, selector, target)


async def _may_elect_unclean(term: Term, partition: TopicPartition, selector: Selector) -> bool:
    """Return whether the topic allows an election from outside the ISR."""
    return (
        selector in (Selector.INITIAL, Selector.OFFLINE)
        and partition in term.context.leaderships
        and partition not in term.context.unreadable_partitions
        and not term.toggles.unclean_election
        and await allows_unclean_election(term, partition.topic)
    )


def _decide(
    term: Term,
    partition: TopicPartition,
    before: PartitionLeadership | None,
    selector: Selector,
    target: tuple[NodeId, ...] | None,
    *,
    unclean: bool,
) -> Election:
    """Return the election's result.

    A first election that finds a state becomes one after a leader's death; any other needs a state.
    """
    assigned = term.context.assignments[partition]
    electable = term.context.electable_for(partition)
    if before is None:
        is_first = selector is Selector.INITIAL
        return _elect_initial(term, partition) if is_first else NoLeader("it has no state")
    match selector:
        case Selector.REASSIGN:
            decision = elect_reassign(target or assigned, before.isr, electable)
        case Selector.PREFERRED:
            decision = elect_preferred(assigned, before.isr, electable)
        case Selector.CONTROLLED_SHUTDOWN | Selector.SUSPECTED:
            decision = elect_without(assigned, before.isr, electable, term.context.leaving)
        case Selector.INITIAL | Selector.OFFLINE | Selector.UNCLEAN:
            unclean = unclean or selector is Selector.UNCLEAN
            decision = elect_offline(assigned, before.isr, electable, unclean=False)
            if isinstance(decision, NoLeader):
                decision = elect_eligible(assigned, eligible_leaders(term, before), electable)
            if isinstance(decision, NoLeader) and unclean:
                adding = _added_replicas(term, partition)
                decision = elect_offline(
                    assigned, before.isr, electable, unclean=True, adding=adding
                )
    return decision


def _elect_initial(term: Term, partition: TopicPartition) -> Election:
    assigned = term.context.assignments[partition]
    electable = term.context.electable_for(partition)
    return elect_initial(assigned, electable, _added_replicas(term, partition))


def _added_replicas(term: Term, partition: TopicPartition) -> tuple[NodeId, ...]:
    """Return the replicas that a reassignment adds, which may be empty."""
    reassignment = term.context.reassignments.get(partition)
    return () if reassignment is None else reassignment.adding


def _electable_replicas(term: Term, partition: TopicPartition) -> tuple[NodeId, ...]:
    electable = term.context.electable_for(partition)
    return tuple(b for b in term.context.assignments[partition] if b in electable)


def _to_change(decision: Elected) -> LeadershipChange:
    elr = () if decision.unclean else None
    return LeadershipChange(decision.leader, decision.isr, elr, decision.unclean)


def _recipients(
    term: Term,
    partition: TopicPartition,
    selector: Selector,
    target: tuple[NodeId, ...] | None,
) -> tuple[NodeId, ...]:
    """Return the recipients of commands; the batch leaves out dead ones."""
    if selector is Selector.INITIAL:
        return _electable_replicas(term, partition)
    if selector is Selector.REASSIGN and target is not None:
        return target
    return term.context.assignments[partition]


def trace_election(
    term: Term,
    partition: TopicPartition,
    written: VersionedLeadership,
    change: LeadershipChange,
    selector: Selector,
) -> None:
    """Trace the partition's new leader."""
    term.emit(
        EventKind.LEADER_ELECTED,
        partition,
        leader_epoch=written.leadership.leader_epoch,
        leader=change.leader,
        isr=list(change.isr),
        unclean=change.unclean,
        selector=selector.value,
        partition_epoch=written.partition_epoch,
        trigger=term.context.trigger,
    )
