"""A new controller's first work: it loads the cluster and takes charge of it.

Source: docs/explanation/replication.md, "The controller", Failover; V3 design, section D;
KAFKA-4443 (UpdateMetadata before any LeaderAndIsr).
"""

from __future__ import annotations

from highwater_controller.config_changes import load_config_changes
from highwater_controller.context import Replica
from highwater_controller.isr_notifications import delete_notifications
from highwater_controller.loading import load_leaderships, put_found_states
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.partition_state_machine import elect_leaders_where_none
from highwater_controller.reassignment import adopt_unassigned, resume_reassignments
from highwater_controller.renouncing import renounce_lost
from highwater_controller.replica_state_machine import move_replicas
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_reader import read_brokers, read_topic_names, read_topics
from highwater_controller.storage_failures import delete_log_folder_events
from highwater_controller.term import Term
from highwater_controller.topic_deletion import load_deletions, resume_deletions
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint


async def fail_over(term: Term) -> None:
    """Take charge of the cluster.

    Ordering: notifications dropped, since all state is read afterwards -> brokers' configurations,
    brokers, topics, states loaded, watches set -> deletions known -> replicas that lost records out
    of ISR and ELR, leaders that restarted meanwhile out of the lead -> UpdateMetadata -> live
    replicas Online, each broker with its init command -> leaders elected where there is none ->
    dead replicas removed from ISRs -> reassignments and deletions resumed -> the admin znodes'
    jobs, step by step, with other events in between.
    """
    context = term.context
    await delete_notifications(term)
    await delete_log_folder_events(term)
    await load_config_changes(term)
    context.set_live((await read_brokers(term)).values())
    await read_topics(term, await read_topic_names(term))
    partitions = sorted(context.assignments)
    await load_leaderships(term, partitions)
    adopt_unassigned(term, partitions)
    await load_deletions(term)
    await renounce_lost(term, partitions)
    await term.fail_points.reach(FailPoint.DURING_FAILOVER)
    for broker in context.live_brokers.values():
        term.channels.open(broker)
    if term.toggles.update_metadata_first:
        _update_metadata(term)
    live_replicas = put_found_states(term, partitions)
    await move_replicas(term, live_replicas, ReplicaState.ONLINE, init=context.live_brokers)
    await elect_leaders_where_none(term)
    await move_replicas(term, _dead_members(term), ReplicaState.OFFLINE)
    if not term.toggles.update_metadata_first:
        _update_metadata(term)
    await resume_reassignments(term, partitions)
    await resume_deletions(term)
    term.emit(
        EventKind.FAILOVER_COMPLETED,
        brokers=list(context.live_brokers),
        partitions=len(partitions),
    )


def _dead_members(term: Term) -> list[Replica]:
    """Return the ISR members whose brokers died without an active controller.

    The leader does not remove them from the ISR of an idle partition (KAFKA-7152).
    """
    context = term.context
    return [
        replica
        for replica in context.replicas_of_partitions(sorted(context.leaderships))
        if replica.broker_id not in context.live_brokers
        and replica.broker_id in context.leaderships[replica.topic_partition].leadership.isr
        and not context.is_to_be_deleted(replica.topic_partition.topic)
    ]


def _update_metadata(term: Term) -> None:
    batch = RequestBatch(term)
    batch.add_full_metadata(term.context.live_brokers)
    batch.send()
