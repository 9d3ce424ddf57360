"""Deletes topics: stops and deletes every replica, then removes the znodes.

A topic is gone only once each assigned replica's broker has confirmed. A dead replica halts the
deletion until its broker returns, while the live replicas are deleted at once. A deletion that a
live broker's disk refuses is retried after a while. A topic whose znodes cannot be removed is put
aside, and delays no other one.
Deviation: Kafka retries a refused deletion only when the broker returns.
Source: Kafka's TopicDeletionManager; docs/explanation/replication.md, "Flows".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from highwater_controller.admin_znodes import forget_reassignments
from highwater_controller.chunks import TOPICS_PER_STEP, pieces
from highwater_controller.context import ControllerContext, Replica
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.partition_state_machine import move_partitions
from highwater_controller.replica_state_machine import move_replicas
from highwater_controller.request_batch import RequestBatch
from highwater_controller.term import Term
from highwater_controller.tree_removal import remove_topic
from highwater_core import znodes
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NO_BROKER_EPOCH, NodeId, TopicPartition
from highwater_core.messages import CommandResponse, StopReplicaRequest
from highwater_core.ports import CoordinationError, SessionExpired


async def load_deletions(term: Term) -> None:
    """Read the requested deletions; a request for an unknown topic is removed.

    A topic whose replicas are being moved is deleted after the move.
    """
    context = term.context
    moved = {partition.topic for partition in context.reassignments}
    context.deletions_after_reassignment.clear()
    for topic in await term.store.children(znodes.DELETE_TOPICS, watch=True):
        if topic in moved and not context.is_to_be_deleted(topic):
            context.deletions_after_reassignment[topic] = None
        elif context.is_known(topic):
            context.topics_to_delete.setdefault(topic)
        elif topic not in context.unreadable_topics:
            await term.store.delete(znodes.delete_topic_path(topic))


async def on_deletions_requested(term: Term) -> None:
    """Begin the deletions requested in /admin/delete_topics.

    Ordering: requests read, and watched; removed for an unknown topic, put off for one whose
    replicas are being moved -> partitions Offline, then NonExistent -> metadata without leaders ->
    live replicas Offline, then DeletionStarted; those of dead brokers DeletionIneligible, which
    halts the topic's deletion.
    """
    await load_deletions(term)
    await resume_deletions(term)


async def resume_deletions(term: Term, topics: Iterable[str] | None = None) -> None:
    """Begin or complete those of the topics' deletions that are ready for it; None: of all.

    Some topics at a time, so that other tasks run in between.
    """
    doomed = list(term.context.topics_to_delete)
    if topics is not None:
        doomed = [topic for topic in topics if term.context.is_to_be_deleted(topic)]
    for start in range(0, len(doomed), TOPICS_PER_STEP):
        if start:
            await term.runtime.sleep(0)
        await _resume_together(term, doomed[start : start + TOPICS_PER_STEP])


async def _resume_together(term: Term, doomed: Sequence[str]) -> None:
    context = term.context
    to_begin: list[str] = []
    to_complete: list[str] = []
    for topic in doomed:
        if topic in context.failed_deletions or _is_under_way(context, topic):
            continue
        states = {context.replica_state(replica) for replica in context.replicas_of(topic)}
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            to_complete.append(topic)
        elif topic not in context.topics_ineligible_for_deletion:
            to_begin.append(topic)
    await _complete(term, to_complete)
    if to_begin:
        await _begin(term, to_begin)


def _is_under_way(context: ControllerContext, topic: str) -> bool:
    """Return whether a replica is being deleted, by its broker."""
    return any(
        context.replica_state(Replica(partition, broker)) is ReplicaState.DELETION_STARTED
        for partition in context.partitions_of(topic)
        for broker in context.assignments[partition]
    )


async def resume_deletions_on(term: Term, returned: Iterable[NodeId]) -> None:
    """Resume deletions that waited for brokers which are live again."""
    context = term.context
    for replica in context.replicas_on(returned):
        topic = replica.topic_partition.topic
        if context.is_to_be_deleted(topic):
            context.topics_ineligible_for_deletion.discard(topic)
    await resume_deletions(term)


async def fail_deletions(term: Term, replicas: Iterable[Replica]) -> None:
    """Halt the deletions of these replicas, whose brokers died or refused."""
    halted = [
        replica
        for replica in replicas
        if term.context.replica_state(replica)
        not in (ReplicaState.DELETION_SUCCESSFUL, ReplicaState.DELETION_INELIGIBLE)
    ]
    stopped = (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED)
    to_stop = [replica for replica in halted if term.context.replica_state(replica) not in stopped]
    await move_replicas(term, to_stop, ReplicaState.OFFLINE)
    await move_replicas(term, halted, ReplicaState.DELETION_INELIGIBLE)
    for topic in sorted({replica.topic_partition.topic for replica in halted}):
        term.context.topics_ineligible_for_deletion.add(topic)
        term.waits.deletion_ended(topic)


async def retry_refused(term: Term) -> None:
    """Retry deletions that live brokers could not carry out.

    Ordering: as on_deletions_requested, for the topics that brokers refused to delete.
    """
    refused, term.context.refused_deletions = term.context.refused_deletions, {}
    term.context.topics_ineligible_for_deletion.difference_update(refused)
    await resume_deletions(term)


async def on_stop_replica_answered(
    term: Term, broker_id: NodeId, request: StopReplicaRequest, response: CommandResponse
) -> None:
    """Handle a broker's answer about deleted replicas.

    Answers of an earlier registration are ignored: the deletion was begun again since.
    Ordering: deleted replicas DeletionSuccessful -> refused ones DeletionIneligible, their topics
    retried after command_timeout_ms -> topics whose replicas are all deleted: znodes removed,
    replicas NonExistent, topic forgotten.
    """
    context = term.context
    if request.broker_epoch not in (NO_BROKER_EPOCH, context.broker_epoch(broker_id)):
        return
    errors = dict(response.partition_errors)
    deleted: list[Replica] = []
    failed: list[Replica] = []
    for item in request.partitions:
        replica = Replica(item.topic_partition, broker_id)
        is_awaited = (
            item.delete_partition
            and context.replica_state(replica) is ReplicaState.DELETION_STARTED
            and (not item.topic_id or item.topic_id == context.topic_id(item.topic_partition.topic))
        )
        if not is_awaited:
            continue
        error = response.error or errors.get(item.topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        (failed if error else deleted).append(replica)
    await move_replicas(term, deleted, ReplicaState.DELETION_SUCCESSFUL)
    await fail_deletions(term, failed)
    context.refused_deletions.update((replica.topic_partition.topic, None) for replica in failed)
    named = dict.fromkeys(replica.topic_partition.topic for replica in (*deleted, *failed))
    await resume_deletions(term, named)


async def _begin(term: Term, topics: list[str]) -> None:
    """Remove the topics from clients' metadata, then stop and delete their replicas.

    They are deleted a step at a time, each with its commands: no command has thousands at once.
    """
    partitions = [partition for topic in topics for partition in term.context.partitions_of(topic)]
    for some in pieces(partitions):
        await _begin_together(term, some)


async def _begin_together(term: Term, partitions: Sequence[TopicPartition]) -> None:
    context = term.context
    existing = [
        partition
        for partition in partitions
        if context.partition_state(partition) is not PartitionState.NON_EXISTENT
    ]
    await move_partitions(term, existing, PartitionState.OFFLINE)
    await move_partitions(term, existing, PartitionState.NON_EXISTENT)
    batch = RequestBatch(term)
    batch.add_update_metadata(context.live_brokers, partitions)
    batch.send()
    replicas = context.replicas_of_partitions(partitions)
    dead = [replica for replica in replicas if replica.broker_id not in context.live_brokers]
    live = [
        replica
        for replica in replicas
        if replica.broker_id in context.live_brokers
        and context.replica_state(replica) is not ReplicaState.DELETION_SUCCESSFUL
    ]
    await fail_deletions(term, dead)
    unconfirmed = [
        replica
        for replica in dead
        if context.replica_state(replica) is not ReplicaState.DELETION_SUCCESSFUL
    ]
    for topic in sorted({replica.topic_partition.topic for replica in unconfirmed}):
        context.topics_ineligible_for_deletion.add(topic)
        term.waits.deletion_ended(topic)
    stopped = await move_replicas(term, live, ReplicaState.OFFLINE)
    await move_replicas(term, stopped, ReplicaState.DELETION_STARTED)


async def _complete(term: Term, topics: list[str]) -> None:
    """Remove the topics' znodes, many at once, and forget the topics.

    Its jobs in /admin/reassign_partitions are removed before: a new topic of that name may be
    created.
    """
    gone = frozenset(topics)
    jobs = [at for at in term.context.listed_reassignments.targets if at.topic in gone]
    await forget_reassignments(term, jobs)
    faults = await term.store.each(topics, lambda topic: _remove(term, topic))
    for topic, fault in zip(topics, faults, strict=True):
        if fault:
            _put_aside(term, topic, fault)
        else:
            await _forget(term, topic)


async def _remove(term: Term, topic: str) -> str:
    """Remove a topic's znodes; return why they cannot be removed, empty when they are gone."""
    try:
        await remove_topic(term.store, topic)
    except SessionExpired:
        raise
    except CoordinationError as fault:
        return f"{type(fault).__name__}: {fault}"
    return ""


async def _forget(term: Term, topic: str) -> None:
    await move_replicas(term, term.context.replicas_of(topic), ReplicaState.NON_EXISTENT)
    topic_id = term.context.topic_id(topic)
    term.context.forget_topic(topic)
    term.trace.emit(
        EventKind.TOPIC_DELETED,
        topic=topic,
        controller_epoch=term.epoch.controller_epoch,
        topic_id=topic_id,
    )
    term.waits.deletion_ended(topic)


def _put_aside(term: Term, topic: str, reason: str) -> None:
    """Leave a deletion that fails: its request stays in ZooKeeper, and the failure is traced."""
    term.context.failed_deletions[topic] = reason
    term.trace.emit(
        EventKind.DELETION_FAILED,
        topic=topic,
        controller_epoch=term.epoch.controller_epoch,
        reason=reason[:300],
    )
    term.waits.deletion_ended(topic, ErrorCode.UNKNOWN_SERVER_ERROR)
