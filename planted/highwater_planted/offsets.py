"""Planted: committed offsets are told too early, and loaded or given up at the wrong moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from highwater_broker.coordinator import coordinator
from highwater_broker.coordinator.committing import Committing, fetched
from highwater_broker.coordinator.group import Group
from highwater_broker.coordinator.load import STEP_BYTES, PartitionLoad
from highwater_broker.coordinator.logic.loaded_records import LoadedRecords
from highwater_broker.coordinator.offsets_log import OffsetsLog
from highwater_broker.coordinator.ownership import Ownership, Term
from highwater_broker.coordinator.stored import GroupRecord, OffsetCommitted
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.log_folders import Interrupted
from highwater_broker.partition import Partition
from highwater_broker.partition_context import ReadOutcome
from highwater_broker.purgatory import Purgatory
from highwater_broker.replica_manager import ReplicaManager
from highwater_core.errors import ErrorCode
from highwater_core.ids import Offset, TopicPartition
from highwater_core.messages import StopReplicaPartition
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_apply_record = LoadedRecords.apply
_commit = Committing.commit
_status = OffsetsLog._status
_init_load = PartitionLoad.__init__
_role_changed = Ownership.role_changed
_stop_replica = ReplicaManager._stop_replica


def _earlier_offset_counts(self: LoadedRecords, record: GroupRecord) -> None:
    if isinstance(record, OffsetCommitted):
        self._offsets.setdefault(record.group_id, {}).setdefault(record.topic_partition, record)
    else:
        _apply_record(self, record)


async def _show_and_commit(
    self: Committing, group: Group, request: Any, items: Sequence[Any]
) -> Any:
    for item in items:
        shown = OffsetCommitted(
            group.group_id, item.topic, item.partition, item.offset, item.leader_epoch, "", 0, None
        )
        group.offsets[shown.topic_partition] = shown
    return await _commit(self, group, request, items)


def _fetched_one_too_high(group: Group | None, partitions: Any) -> Any:
    told = fetched(group, partitions)
    return tuple(
        replace(each, offset=Offset(each.offset + 1)) if each.offset >= 0 else each for each in told
    )


async def _acknowledged_while_deposed(
    self: OffsetsLog, partition: Partition, end_offset: Offset
) -> ErrorCode | None:
    status = await _status(self, partition, end_offset)
    return ErrorCode.NONE if status is ErrorCode.NOT_LEADER_OR_FOLLOWER else status


async def _wait_for_nobody(
    self: OffsetsLog, partition: Partition, end_offset: Offset
) -> ErrorCode | None:
    return ErrorCode.NONE


def _load_to_the_high_watermark(
    self: PartitionLoad,
    partition: Partition,
    epoch_start_offset: Offset,
    is_wanted: Callable[[], bool],
    is_own: Callable[[str], bool],
    purgatory: Purgatory,
    turns: Turns,
) -> None:
    """As Kafka's GroupMetadataManager does."""
    end_offset = min(epoch_start_offset, partition.high_watermark)
    _init_load(self, partition, end_offset, is_wanted, is_own, purgatory, turns)


def _always_current(self: Ownership, number: int, term: Term) -> bool:
    return True


def _read_in_any_role(self: PartitionLoad, start: Offset) -> ReadOutcome:
    partition, end_offset = self._partition, self._partition.high_watermark
    records = partition.log.read(start, STEP_BYTES, end_offset).records
    return ReadOutcome(ErrorCode.NONE, end_offset, partition.log_start_offset, records)


def _stop_and_unload(
    self: ReplicaManager, command: StopReplicaPartition, deleted: Interrupted
) -> ErrorCode:
    error = _stop_replica(self, command, deleted)
    if error is ErrorCode.FENCED_LEADER_EPOCH:
        _late_stops[command.topic_partition] = None
        self._context.role_changed(command.topic_partition)
    return error


_late_stops: dict[TopicPartition, None] = {}
"""Of which an Ownership has yet to hear: within one call."""


def _unload_at_a_late_stop(self: Ownership, topic_partition: TopicPartition) -> None:
    term = self._terms.get(topic_partition.partition)
    if topic_partition in _late_stops and term is not None:
        self._emigrate(topic_partition.partition, term)
    elif topic_partition not in _late_stops:
        _role_changed(self, topic_partition)
    _late_stops.pop(topic_partition, None)


BUGS = (
    PlantedBug(
        name="offset_commit_acknowledged_on_append",
        summary="an offset commit is acknowledged before it is committed in the log",
        source="own",
        breaks=("I14",),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(OffsetsLog, "_status", _wait_for_nobody),),
    ),
    PlantedBug(
        name="group_load_stops_early",
        summary="a coordinator reads offsets up to the high watermark of the moment, no further",
        source="Kafka's GroupMetadataManager, loadGroupsAndOffsets; KIP-207",
        breaks=("I14",),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(PartitionLoad, "__init__", _load_to_the_high_watermark),),
    ),
    PlantedBug(
        name="group_load_after_unload",
        summary="a load that was begun before the lead was lost fills the cache after it",
        source="KAFKA-2841",
        breaks=("I14",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(
            Replacement(Ownership, "_is_current", _always_current),
            Replacement(PartitionLoad, "_read", _read_in_any_role),
        ),
        is_rare=True,
    ),
    PlantedBug(
        name="late_stop_unloads_groups",
        summary="a StopReplica that is refused as late unloads the groups of a leader all the same",
        source="KAFKA-10614",
        breaks=("I14", "L9"),
        shows_under=(FaultFamily.NETWORK, FaultFamily.PROCESS),
        replacements=(
            Replacement(ReplicaManager, "_stop_replica", _stop_and_unload),
            Replacement(Ownership, "role_changed", _unload_at_a_late_stop),
        ),
        is_rare=True,
    ),
    PlantedBug(
        name="deposed_coordinator_acknowledges",
        summary="an offset commit is acknowledged though its coordinator was deposed meanwhile",
        source="own",
        breaks=("I14",),
        shows_under=(FaultFamily.NETWORK, FaultFamily.PROCESS),
        replacements=(Replacement(OffsetsLog, "_status", _acknowledged_while_deposed),),
    ),
    PlantedBug(
        name="offset_goes_back",
        summary="a load takes the earliest offset of each partition, not the latest",
        source="own",
        breaks=("I14",),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(LoadedRecords, "apply", _earlier_offset_counts),),
    ),
    PlantedBug(
        name="offset_shown_before_commit",
        summary="an offset is told while its record is not committed in the log",
        source="own",
        breaks=("I14",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(Committing, "commit", _show_and_commit),),
    ),
    PlantedBug(
        name="offset_told_too_high",
        summary="a group is told the offset behind the one that it committed",
        source="own",
        breaks=("I14", "I22"),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(coordinator, "fetched", _fetched_one_too_high),),
    ),
)
