"""The replicas that are known to have all committed records: every state that the controller writes
names them, and renouncing.py checks restarted brokers against it.

A state has the storage ids (log contents) of its ISR and ELR members, and the registration of its
leader. A broker that registers with another storage id has lost records; a leader with a new
registration has restarted. The next controller notices both, even if controllers died meanwhile.
Source: KIP-966; docs/reference/catalogue.md, rows 8 and 9. Deviation: docs/decisions/0003.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from highwater_controller.configurations import TopicConfigs, min_insync_replicas
from highwater_controller.context import ControllerContext
from highwater_controller.logic.eligible_leaders import next_eligible
from highwater_controller.logic.leadership_change import Brokers, LeadershipChange
from highwater_controller.term import Term
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
    change: LeadershipChange,
    topics: TopicConfigs | None = None,
) -> PartitionLeadership:
    """Return the state to be written after `before`; a first one has leader epoch 0.

    topics: the configurations that this step has read already.
    """
    last_epoch = -1 if before is None else before.leader_epoch
    leader_epoch = LeaderEpoch(last_epoch if change.keeps_epoch else last_epoch + 1)
    leader, isr, elr = change.leader, change.isr, change.elr
    written = PartitionLeadership(leader, leader_epoch, term.epoch.controller_epoch, isr)
    if not term.toggles.eligible_leader_replicas:
        return written
    if elr is None:
        elr = await _next_eligible(term, partition, before, isr, leader, topics)
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


async def next_leaderships(
    term: Term, changes: Mapping[TopicPartition, tuple[PartitionLeadership, LeadershipChange]]
) -> dict[TopicPartition, PartitionLeadership]:
    """Return the states to be written after these, as next_leadership does.

    The configurations of all topics that matter are read at once.
    """
    topics = TopicConfigs(term)
    await topics.read(at.topic for at, each in changes.items() if _is_minimum_needed(term, *each))
    return {
        at: await next_leadership(term, at, before, change, topics)
        for at, (before, change) in changes.items()
    }


def eligible_leaders(term: Term, leadership: PartitionLeadership) -> Brokers:
    """Return the ELR, whose members all have the committed records.

    Changes of min.insync.replicas since do not matter: leaders commit no record in a state with an
        ELR.
    """
    return leadership.elr if term.toggles.eligible_leader_replicas else ()


async def is_thawed(term: Term, partition: TopicPartition, leadership: PartitionLeadership) -> bool:
    """Return whether the ISR is large enough by now to commit without the ELR.

    That is so where min.insync.replicas was lowered since the state was written.
    """
    if not eligible_leaders(term, leadership):
        return False
    minimum = await min_insync_replicas(term, partition.topic, leadership.leader)
    return len(leadership.isr) >= minimum


# ---------------------------------------------------------------- members in a state


def _is_minimum_needed(term: Term, before: PartitionLeadership, change: LeadershipChange) -> bool:
    """Return whether the next ELR depends on min.insync.replicas."""
    is_open = term.toggles.eligible_leader_replicas and change.elr is None
    return is_open and _leaves_one(before, change.isr)


def _leaves_one(before: PartitionLeadership, isr: Brokers) -> bool:
    """Return whether a member of the ISR or ELR is not in the next ISR."""
    return not set(before.isr + before.elr) <= set(isr)


async def _next_eligible(
    term: Term,
    partition: TopicPartition,
    before: PartitionLeadership | None,
    isr: Brokers,
    leader: NodeId,
    topics: TopicConfigs | None,
) -> Brokers:
    if before is None or not _leaves_one(before, isr):
        return ()
    minimum = await min_insync_replicas(term, partition.topic, leader, topics)
    eligible = next_eligible(before.isr, before.elr, isr, minimum)
    # A replica that a reassignment has removed keeps no log.
    return tuple(broker for broker in eligible if broker in term.context.assignments[partition])


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
    """Return the broker's storage id; for a dead one the last known."""
    if broker in context.live_brokers:
        return context.storage_id(broker)
    return NO_STORAGE_ID if before is None else before.storage_id(broker)
