"""Checks restarted brokers against the states: replicas that lost records leave ISR and ELR.

Source: KIP-966; docs/reference/catalogue.md, rows 8 and 9. Deviation: docs/decisions/0003.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from highwater_controller.context import ControllerContext
from highwater_controller.eligibility import eligible_leaders
from highwater_controller.leadership_updates import update_leadership
from highwater_controller.logic.eligible_leaders import without_lost
from highwater_controller.logic.leadership_change import LeadershipChange
from highwater_controller.term import Term
from highwater_core.events import EventKind
from highwater_core.ids import NO_BROKER_EPOCH, NO_LEADER, NodeId, TopicPartition
from highwater_core.znodes import PartitionLeadership


async def renounce_lost(term: Term, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Remove replicas that lost records from ISR and ELR, and restarted leaders from the lead.

    Return the partitions that changed; no command is sent yet, and partitions without a leader
    still need an election. Topics that are being deleted are left alone.
    """
    if not term.toggles.eligible_leader_replicas:
        return []
    context = term.context
    stale = [
        partition
        for partition in partitions
        if (known := context.leaderships.get(partition)) is not None
        and _is_stale(context, known.leadership)
        and not context.is_to_be_deleted(partition.topic)
    ]
    changed = await term.store.each(stale, lambda partition: _renounce(term, partition))
    return [partition for partition, is_changed in zip(stale, changed, strict=True) if is_changed]


def _lost(context: ControllerContext, leadership: PartitionLeadership) -> frozenset[NodeId]:
    """Return the live members whose storage id differs from the state's."""
    return frozenset(
        broker
        for broker, storage_id in leadership.storage_ids
        if broker in context.live_brokers and context.storage_id(broker) != storage_id
    )


def _has_restarted(context: ControllerContext, leadership: PartitionLeadership) -> bool:
    """Return whether the leader has registered again since it got its leader epoch."""
    known = leadership.leader_broker_epoch
    registered = context.broker_epoch(leadership.leader)
    return known != NO_BROKER_EPOCH and registered is not None and registered != known


def _is_stale(context: ControllerContext, leadership: PartitionLeadership) -> bool:
    return bool(_lost(context, leadership)) or _has_restarted(context, leadership)


async def _renounce(term: Term, partition: TopicPartition) -> bool:
    """Write the remaining members, if a member must leave; return whether one did."""

    def decide(before: PartitionLeadership | None) -> LeadershipChange | None:
        return None if before is None else _without_lost(term, before)

    return await update_leadership(term, partition, decide, _announce) is not None


def _without_lost(term: Term, before: PartitionLeadership) -> LeadershipChange | None:
    lost = _lost(term.context, before)
    elr = eligible_leaders(term, before)
    left = without_lost(before.leader, before.isr, elr, lost)
    if _has_restarted(term.context, before):
        left = replace(left or LeadershipChange(NO_LEADER, before.isr, elr), leader=NO_LEADER)
    return None if left is None else replace(left, lost=lost)


def _announce(
    term: Term, partition: TopicPartition, leadership: PartitionLeadership, change: LeadershipChange
) -> None:
    term.emit(
        EventKind.REPLICAS_RENOUNCED,
        partition,
        leader_epoch=leadership.leader_epoch,
        lost=sorted(change.lost),
        isr=list(leadership.isr),
        elr=list(leadership.elr),
        leader=leadership.leader,
    )
