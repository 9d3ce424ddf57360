"""Who of a partition's replicas is known to hold what is committed: every state that the
controller writes says so, and brokers that come back are held to it.

A state names the contents (storage ids) of its ISR and ELR members, and the registration of its
leader. A broker that registers with other contents has lost records; a leader that is registered
anew has restarted. Both are seen by whichever controller looks next, however many died meanwhile.
Source: KIP-966; docs/reference/catalogue.md, rows 8 and 9. Deviation: docs/decisions/0003.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from highwater_controller.context import ControllerContext, VersionedLeadership
from highwater_controller.logic.eligible_leaders import Survivors, next_eligible, without_lost
from highwater_controller.logic.leader_selectors import Brokers
from highwater_controller.state_reader import min_insync_replicas, read_leadership
from highwater_controller.term import Term
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    NO_STORAGE_ID,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    StorageId,
    TopicPartition,
)
from highwater_core.znodes import PartitionLeadership


async def next_leadership(
    term: Term,
    partition: TopicPartition,
    before: PartitionLeadership | None,
    *,
    leader: NodeId,
    leader_epoch: LeaderEpoch,
    isr: Brokers,
    elr: Brokers | None = None,
) -> PartitionLeadership:
    """Return the state to be written after `before`; elr None follows from the ISRs."""
    written = PartitionLeadership(leader, leader_epoch, term.epoch.controller_epoch, isr)
    if not term.toggles.eligible_leader_replicas:
        return written
    if elr is None:
        elr = await _next_eligible(term, partition, before, isr)
    return replace(
        written,
        elr=elr,
        leader_broker_epoch=_leader_broker_epoch(term.context, before, leader),
        storage_ids=tuple(
            (broker, storage_id)
            for broker in sorted((*isr, *elr))
            if (storage_id := _storage_id(term.context, before, broker)) != NO_STORAGE_ID
        ),
    )


def eligible_leaders(term: Term, leadership: PartitionLeadership) -> Brokers:
    """Return the ELR, all of which holds what is committed.

    Whatever became of min.insync.replicas since: leaders commit nothing in a state with an ELR.
    """
    return leadership.elr if term.toggles.eligible_leader_replicas else ()


async def is_thawed(term: Term, partition: TopicPartition, leadership: PartitionLeadership) -> bool:
    """Return whether the ISR is large enough by now to commit without those that are eligible.

    That is so where min.insync.replicas was lowered since the state was written.
    """
    if not eligible_leaders(term, leadership):
        return False
    return len(leadership.isr) >= await min_insync_replicas(term, partition.topic)


async def renounce_lost(term: Term, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Take replicas that lost records out of ISR and ELR, and the lead from restarted leaders.

    Return the partitions that changed; nobody is told yet, and one without leader has still to be
    elected for. Topics that are to be deleted are left alone.
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


# ---------------------------------------------------------------- what a state says of its members


async def _next_eligible(
    term: Term, partition: TopicPartition, before: PartitionLeadership | None, isr: Brokers
) -> Brokers:
    if before is None or not set(before.isr + before.elr) - set(isr):
        return ()
    minimum = await min_insync_replicas(term, partition.topic)
    return next_eligible(before.isr, before.elr, isr, minimum)


def _leader_broker_epoch(
    context: ControllerContext, before: PartitionLeadership | None, leader: NodeId
) -> BrokerEpoch:
    if leader == NO_LEADER:
        return NO_BROKER_EPOCH
    registered = context.broker_epoch(leader)
    if registered is not None:
        return registered
    is_known = before is not None and before.leader == leader
    return before.leader_broker_epoch if before is not None and is_known else NO_BROKER_EPOCH


def _storage_id(
    context: ControllerContext, before: PartitionLeadership | None, broker: NodeId
) -> StorageId:
    """Return what the broker registered; of one that is not live, what was known before."""
    if broker in context.live_brokers:
        return context.storage_id(broker)
    return NO_STORAGE_ID if before is None else before.storage_id(broker)


# ---------------------------------------------------------------- holding brokers to it


def _lost(context: ControllerContext, leadership: PartitionLeadership) -> frozenset[NodeId]:
    """Return the live members whose contents are other ones than the state means."""
    return frozenset(
        broker
        for broker, storage_id in leadership.storage_ids
        if broker in context.live_brokers and context.storage_id(broker) != storage_id
    )


def _has_restarted(context: ControllerContext, leadership: PartitionLeadership) -> bool:
    """Return whether the leader is registered anew since it got its leader epoch."""
    known = leadership.leader_broker_epoch
    registered = context.broker_epoch(leadership.leader)
    return known != NO_BROKER_EPOCH and registered is not None and registered != known


def _is_stale(context: ControllerContext, leadership: PartitionLeadership) -> bool:
    return bool(_lost(context, leadership)) or _has_restarted(context, leadership)


async def _renounce(term: Term, partition: TopicPartition) -> bool:
    """Write what is left, if something has to go; return whether that was so."""
    context = term.context
    while True:
        current = await read_leadership(term, partition)
        if current is None:
            return False
        context.leaderships[partition] = current
        last = current.leadership
        lost = _lost(context, last)
        elr = eligible_leaders(term, last)
        left = without_lost(last.leader, last.isr, elr, lost)
        if left is None and not _has_restarted(context, last):
            return False
        left = left or Survivors(NO_LEADER, last.isr, elr)
        leadership = await next_leadership(
            term,
            partition,
            last,
            leader=NO_LEADER if _has_restarted(context, last) else left.leader,
            leader_epoch=LeaderEpoch(last.leader_epoch + 1),
            isr=left.isr,
            elr=left.elr,
        )
        term.emit(
            EventKind.REPLICAS_RENOUNCED,
            partition,
            leader_epoch=leadership.leader_epoch,
            lost=sorted(lost),
            isr=list(left.isr),
            elr=list(left.elr),
            leader=leadership.leader,
        )
        written = await term.store.set_leadership(partition, leadership, current.partition_epoch)
        if written is not None:
            context.leaderships[partition] = VersionedLeadership(leadership, written)
            return True
