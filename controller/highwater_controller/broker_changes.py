"""The effects of brokers' failures and starts on partitions and replicas.

Source: V3 design, on_broker_change; docs/explanation/replication.md, "Flows"; KIP-380 (a broker
that registered again in between has failed and started).
"""

from __future__ import annotations

from highwater_controller.context import Replica
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.partition_state_machine import elect_leaders_where_none, move_partitions
from highwater_controller.reassignment import advance_reassignments
from highwater_controller.renouncing import renounce_lost
from highwater_controller.replica_state_machine import move_replicas
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_reader import read_brokers
from highwater_controller.term import Term
from highwater_controller.topic_deletion import fail_deletions, resume_deletions_on
from highwater_core.events import EventKind
from highwater_core.ids import NodeId
from highwater_core.messages import BrokerEndpoints


async def on_brokers_changed(term: Term) -> None:
    """Compare the registrations with the known brokers and act on the difference.

    A broker that registered again is among the failed and among the started.
    Ordering: channels of the failed closed -> partitions that they led Offline, then Online by an
    election -> their replicas Offline, out of the ISRs -> their deletions halted -> channels of the
    started opened -> replicas that lost records out of ISR and ELR -> UpdateMetadata -> replicas of
    the started Online, each broker with its init command -> leaders elected where there is none ->
    deletions resumed -> reassignments advanced.
    """
    known = term.context.live_brokers
    found = await read_brokers(term)
    started = [broker for broker in found if broker not in known]
    dead = [broker for broker in known if broker not in found]
    bounced = [
        broker
        for broker in found
        if term.toggles.broker_epoch
        and broker in known
        and found[broker].broker_epoch != known[broker].broker_epoch
    ]
    if not (started or dead or bounced):
        return
    term.emit(EventKind.BROKERS_CHANGED, new=started, dead=dead, bounced=bounced)
    failed = sorted((*dead, *bounced))
    if failed:
        await _on_brokers_failed(term, failed)
    returned = sorted((*started, *bounced))
    if returned:
        await _on_brokers_started(term, [found[broker] for broker in returned])
    await advance_reassignments(term, sorted(term.context.reassignments))


async def _on_brokers_failed(term: Term, failed: list[NodeId]) -> None:
    """Elect leaders for the partitions that they led, then take their replicas offline."""
    context = term.context
    for broker in failed:
        term.channels.close(broker)
    context.set_live(
        broker for broker_id, broker in context.live_brokers.items() if broker_id not in failed
    )
    leaderless = sorted(
        partition
        for partition, known in context.leaderships.items()
        if known.leadership.leader in failed and not context.is_to_be_deleted(partition.topic)
    )
    await move_partitions(term, leaderless, PartitionState.OFFLINE)
    await elect_leaders_where_none(term)
    replicas = context.replicas_on(failed)
    staying = [replica for replica in replicas if not _is_to_be_deleted(term, replica)]
    await move_replicas(term, staying, ReplicaState.OFFLINE)
    await fail_deletions(
        term, [replica for replica in replicas if _is_to_be_deleted(term, replica)]
    )
    if not leaderless:
        batch = RequestBatch(term)
        batch.add_update_metadata(context.live_brokers, ())
        batch.send()


async def _on_brokers_started(term: Term, started: list[BrokerEndpoints]) -> None:
    """Announce them to the others, send them their commands, and elect them where needed."""
    context = term.context
    others = list(context.live_brokers)
    ids = [broker.broker_id for broker in started]
    context.set_live((*context.live_brokers.values(), *started))
    for broker in started:
        term.channels.open(broker)
    batch = RequestBatch(term)
    await _renounce_lost(term, batch, ids)
    batch.add_update_metadata(others, ())
    batch.add_full_metadata(ids)
    batch.send()
    confirmed = ReplicaState.DELETION_SUCCESSFUL
    replicas = [
        replica
        for replica in context.replicas_on(ids)
        if context.replica_state(replica) is not confirmed
    ]
    await move_replicas(term, replicas, ReplicaState.ONLINE, init=ids)
    await elect_leaders_where_none(term)
    await resume_deletions_on(term, ids)


async def _renounce_lost(term: Term, batch: RequestBatch, started: list[NodeId]) -> None:
    """Remove restarted brokers that lost records from ISR and ELR; the batch gets the commands."""
    context = term.context
    hosted = {replica.topic_partition: None for replica in context.replicas_on(started)}
    changed = await renounce_lost(term, hosted)
    leaderless = [partition for partition in changed if not context.has_live_leader(partition)]
    await move_partitions(term, leaderless, PartitionState.OFFLINE)
    for partition in changed:
        others = [broker for broker in context.assignments[partition] if broker not in started]
        batch.add_leader_and_isr(others, partition)


def _is_to_be_deleted(term: Term, replica: Replica) -> bool:
    return term.context.is_to_be_deleted(replica.topic_partition.topic)
