"""The one way in which the controller changes a partition's state znode.

Read the znode, let a pure decision return its next content, write this on the version that was
read, and store the result in the context.
Source: V3 design, on_broker_change and init_leaders; KIP-497 (conditional writes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from highwater_controller.conditional_writes import Conflict, until_written
from highwater_controller.context import VersionedLeadership
from highwater_controller.eligibility import next_leadership, next_leaderships
from highwater_controller.logic.leadership_change import LeadershipChange
from highwater_controller.state_reader import read_leadership
from highwater_controller.term import Term
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_core.znodes import PartitionLeadership, partition_state_path, topic_path

Decide = Callable[[PartitionLeadership | None], LeadershipChange | None]
"""Returns the change of the read state (None: there is none); None leaves it."""

Announce = Callable[[Term, TopicPartition, PartitionLeadership, LeadershipChange], None]
"""Traces a state that is about to be written."""


@dataclass(frozen=True, slots=True)
class LeadershipUpdate:
    """A change that was written; before is None where there was no state."""

    before: PartitionLeadership | None
    change: LeadershipChange
    written: VersionedLeadership


@dataclass(frozen=True, slots=True)
class Draft:
    """The next state, which this change makes of the current one."""

    current: VersionedLeadership
    change: LeadershipChange
    leadership: PartitionLeadership


def announce_decision(
    term: Term, partition: TopicPartition, leadership: PartitionLeadership, change: LeadershipChange
) -> None:
    """Trace a decision before it is written: a controller may die with its write under way."""
    term.emit(
        EventKind.LEADERSHIP_DECIDED,
        partition,
        leader_epoch=leadership.leader_epoch,
        leader=leadership.leader,
        isr=list(leadership.isr),
        unclean=change.unclean,
    )


async def update_leadership(
    term: Term,
    partition: TopicPartition,
    decide: Decide,
    announce: Announce = announce_decision,
) -> LeadershipUpdate | None:
    """Write the change that `decide` returns for the partition's state; None when none was written.

    None is written where `decide` returns None, where the znode is unreadable and where the topic
    is gone. On a conflict with another writer it starts over from the read, as in V3.

    Raises:
        TermOver: a newer controller wrote the state, or has been elected, or others wrote it again
            and again.
    """

    async def attempt() -> LeadershipUpdate | Conflict | None:
        current = await read_leadership(term, partition)
        if current is not None:
            term.context.leaderships[partition] = current
        elif partition in term.context.unreadable_partitions:
            return None
        before = None if current is None else current.leadership
        change = decide(before)
        if change is None:
            return None
        leadership = await next_leadership(term, partition, before, change)
        announce(term, partition, leadership, change)
        written = await write_leadership(term, partition, current, leadership)
        if written is not None:
            return LeadershipUpdate(before, change, written)
        if current is None and not await _topic_exists(term, partition):
            return None
        return Conflict(before, None if current is None else current.partition_epoch)

    return await until_written(partition_state_path(partition), attempt)


async def update_leaderships(
    term: Term,
    decisions: Mapping[TopicPartition, Decide],
    announce: Announce = announce_decision,
) -> dict[TopicPartition, LeadershipUpdate | None]:
    """Update each partition as update_leadership does, many of them with one write.

    `decide` gets the state in the context, which was right if the write meets the known version.
    Otherwise, and without a known state or a decision, the znode is read first.
    """
    changes: dict[TopicPartition, tuple[VersionedLeadership, LeadershipChange]] = {}
    for partition, decide in decisions.items():
        known = term.context.leaderships.get(partition)
        change = None if known is None else decide(known.leadership)
        if known is None or change is None or partition in term.context.unreadable_partitions:
            continue
        changes[partition] = known, change
    leaderships = await next_leaderships(
        term, {at: (known.leadership, change) for at, (known, change) in changes.items()}
    )
    drafts: dict[TopicPartition, Draft] = {}
    for partition, (known, change) in changes.items():
        announce(term, partition, leaderships[partition], change)
        drafts[partition] = Draft(known, change, leaderships[partition])
    found: dict[TopicPartition, LeadershipUpdate | None] = {**await write_leaderships(term, drafts)}
    others = [partition for partition in decisions if partition not in found]
    read = await term.store.each(
        others, lambda partition: update_leadership(term, partition, decisions[partition], announce)
    )
    found.update(zip(others, read, strict=True))
    return {partition: found[partition] for partition in decisions}


async def write_leaderships(
    term: Term, drafts: Mapping[TopicPartition, Draft]
) -> dict[TopicPartition, LeadershipUpdate]:
    """Write and store the states, many with one write; states with a conflict are left out."""
    written = await term.store.set_leaderships(
        [
            (partition, draft.leadership, draft.current.partition_epoch)
            for partition, draft in drafts.items()
        ]
    )
    updates: dict[TopicPartition, LeadershipUpdate] = {}
    for (partition, draft), partition_epoch in zip(drafts.items(), written, strict=True):
        if partition_epoch is not None:
            now = VersionedLeadership(draft.leadership, partition_epoch)
            term.context.leaderships[partition] = now
            updates[partition] = LeadershipUpdate(draft.current.leadership, draft.change, now)
    return updates


async def write_leadership(
    term: Term,
    partition: TopicPartition,
    current: VersionedLeadership | None,
    leadership: PartitionLeadership,
) -> VersionedLeadership | None:
    """Write and store the state after `current`; None on a conflict."""
    if current is None:
        written = await term.store.create_leadership(partition, leadership)
    else:
        written = await term.store.set_leadership(partition, leadership, current.partition_epoch)
    if written is None:
        return None
    known = term.context.leaderships[partition] = VersionedLeadership(leadership, written)
    return known


async def _topic_exists(term: Term, partition: TopicPartition) -> bool:
    """Return whether a first election's conflict was about the state, not a vanished topic."""
    return await term.store.exists(topic_path(partition.topic)) is not None


def trace_isr_written(term: Term, partition: TopicPartition, written: VersionedLeadership) -> None:
    """Trace a state whose ISR changed without an election."""
    term.emit(
        EventKind.ISR_WRITTEN,
        partition,
        leader_epoch=written.leadership.leader_epoch,
        leader=written.leadership.leader,
        isr=list(written.leadership.isr),
        partition_epoch=written.partition_epoch,
        trigger=term.context.trigger,
    )
