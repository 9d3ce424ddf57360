"""AlterPartition: a leader's ISR change, checked and written by the controller.

Source: KIP-497; KIP-841 and KIP-903 (eligible members); Kafka's
KafkaController.processAlterPartition.
"""

from __future__ import annotations

from collections.abc import Mapping

from highwater_controller.eligibility import eligible_leaders, is_thawed, next_leaderships
from highwater_controller.leadership_updates import Draft, trace_isr_written, write_leaderships
from highwater_controller.logic.leadership_change import LeadershipChange
from highwater_controller.lost_topic_ids import learn_lost_id
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_reader import read_leadership
from highwater_controller.term import Term
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NO_BROKER_EPOCH, NO_TOPIC_ID, NodeId, TopicId, TopicPartition
from highwater_core.messages import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
)


async def on_alter_partition(term: Term, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Write the permitted ISRs, answer for each partition, and send all brokers UpdateMetadata."""
    if is_stale_broker(term, request.broker_id, request.broker_epoch):
        return AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH)
    errors: dict[TopicPartition, ErrorCode] = {}
    changes: dict[TopicPartition, AlterPartitionItem] = {}
    for item in request.partitions:
        partition = item.topic_partition
        if partition in errors:  # named twice: both are refused
            errors[partition] = ErrorCode.INVALID_REQUEST
            changes.pop(partition, None)
            continue
        errors[partition] = _find_refusal(term, request.broker_id, item)
        if errors[partition] is ErrorCode.NONE:
            await learn_lost_id(term, partition.topic, item.topic_id)
        if errors[partition] is ErrorCode.NONE and await _is_to_be_written(term, item):
            changes[partition] = item
    errors.update(await _write(term, changes))
    for partition, error in errors.items():
        if error is not ErrorCode.NONE:
            term.emit(
                EventKind.REQUEST_REFUSED,
                partition,
                request=type(request).__name__,
                error=error.name,
                broker=request.broker_id,
            )
    written = [partition for partition in changes if errors[partition] is ErrorCode.NONE]
    if written:
        batch = RequestBatch(term)
        batch.add_update_metadata(term.context.live_brokers, written)
        batch.send()
    return AlterPartitionResponse(
        ErrorCode.NONE,
        tuple(
            _to_result(term, item.topic_partition, errors[item.topic_partition])
            for item in request.partitions
        ),
    )


def is_stale_broker(term: Term, broker_id: NodeId, broker_epoch: int) -> bool:
    """Return whether a request comes from an earlier registration."""
    return term.toggles.broker_epoch and term.context.broker_epoch(broker_id) != broker_epoch


def _find_refusal(term: Term, sender: NodeId, item: AlterPartitionItem) -> ErrorCode:
    """Return why the change may not be written, or NONE."""
    context = term.context
    partition = item.topic_partition
    known = context.leaderships.get(partition)
    if known is None or context.is_to_be_deleted(partition.topic):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if term.toggles.topic_id and _is_other_topic(item, context.topic_id(partition.topic)):
        return ErrorCode.UNKNOWN_TOPIC_ID
    last = known.leadership
    if item.leader_epoch > last.leader_epoch or item.partition_epoch > known.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader has it from a newer controller
    if item.leader_epoch < last.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    members = [member.broker_id for member in item.new_isr]
    is_sound = (
        sender == last.leader
        and sender in members
        and len(set(members)) == len(members)
        and all(member in context.assignments[partition] for member in members)
    )
    if not is_sound:
        return ErrorCode.INVALID_REQUEST
    if _is_done(term, item):
        return ErrorCode.NONE
    if item.partition_epoch != known.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return _find_ineligible(term, item, last.isr)


def _is_other_topic(item: AlterPartitionItem, topic_id: TopicId) -> bool:
    """Return whether both ids exist and differ; a tool may have lost one (KAFKA-14190)."""
    return NO_TOPIC_ID not in (item.topic_id, topic_id) and item.topic_id != topic_id


def _find_ineligible(term: Term, item: AlterPartitionItem, isr: tuple[NodeId, ...]) -> ErrorCode:
    """Return INELIGIBLE_REPLICA if a joining member is dead, stops, restarted or has a bad disk.

    A member whose registration the leader does not know may be of an earlier one: it is refused.
    Present ISR members may stay: the controller itself removes them when they die.
    """
    if not term.toggles.isr_join_checks_broker_epoch:
        return ErrorCode.NONE
    electable = term.context.electable_for(item.topic_partition)
    for member in item.new_isr:
        if member.broker_id in isr:
            continue
        is_current = (
            member.broker_epoch != NO_BROKER_EPOCH
            and member.broker_epoch == term.context.broker_epoch(member.broker_id)
        )
        if member.broker_id not in electable or not is_current:
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_done(term: Term, item: AlterPartitionItem) -> bool:
    """Return whether the state is already the requested one: a retry after a lost answer."""
    last = term.context.leaderships[item.topic_partition].leadership
    asked_for = {member.broker_id for member in item.new_isr}
    return item.leader_epoch == last.leader_epoch and asked_for == set(last.isr)


async def _is_to_be_written(term: Term, item: AlterPartitionItem) -> bool:
    """Return whether the ISR changes, or can commit without the ELR by now."""
    known = term.context.leaderships[item.topic_partition]
    if not _is_done(term, item):
        return True
    is_present = item.partition_epoch == known.partition_epoch
    return is_present and await is_thawed(term, item.topic_partition, known.leadership)


async def _write(
    term: Term, changes: Mapping[TopicPartition, AlterPartitionItem]
) -> dict[TopicPartition, ErrorCode]:
    """Write the ISRs on the versions that the leader knows, without a read before."""
    known = {partition: term.context.leaderships[partition] for partition in changes}
    decided = {
        partition: LeadershipChange(
            known[partition].leadership.leader,
            tuple(member.broker_id for member in item.new_isr),
            keeps_epoch=True,
        )
        for partition, item in changes.items()
    }
    leaderships = await next_leaderships(
        term, {at: (known[at].leadership, change) for at, change in decided.items()}
    )
    drafts = {at: Draft(known[at], decided[at], leaderships[at]) for at in changes}
    written = await write_leaderships(term, drafts)
    for partition, update in written.items():
        trace_isr_written(term, partition, update.written)
    conflicts = [partition for partition in changes if partition not in written]
    read = await term.store.each(conflicts, lambda at: read_leadership(term, at))
    for partition, found in zip(conflicts, read, strict=True):
        if found is not None:
            term.context.leaderships[partition] = found
    return dict.fromkeys(written, ErrorCode.NONE) | dict.fromkeys(
        conflicts, ErrorCode.INVALID_UPDATE_VERSION
    )


def _to_result(term: Term, partition: TopicPartition, error: ErrorCode) -> AlterPartitionResult:
    if error is not ErrorCode.NONE:
        return AlterPartitionResult(partition, error)
    known = term.context.leaderships[partition]
    return AlterPartitionResult(
        topic_partition=partition,
        error=ErrorCode.NONE,
        leader=known.leadership.leader,
        leader_epoch=known.leadership.leader_epoch,
        isr=known.leadership.isr,
        partition_epoch=known.partition_epoch,
        elr=eligible_leaders(term, known.leadership),
    )
