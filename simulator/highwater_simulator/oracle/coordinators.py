"""I14: a group has one coordinator; acknowledged offsets are committed, and fetched later.

A coordinator that does not know that it was deposed may answer a fetch with offsets of its own
epoch: its client has not heard of the successor. Records that it appends are never committed.
Source: docs/reference/invariants.md, I14; docs/reference/catalogue.md, row 22.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from highwater_broker.coordinator.records import BadGroupRecord, decode
from highwater_broker.coordinator.stored import OffsetCommitted, OffsetForgotten
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.partition import Partition
from highwater_broker.roles import Leading
from highwater_core.errors import ErrorCode
from highwater_core.ids import Offset, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_simulator.oracle.group_places import GroupPlaces
from highwater_simulator.oracle.partition_oracle import PartitionOracle
from highwater_wire.kafka.committed_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from highwater_wire.kafka.record_batch import BadBatch, decode_records, split_batches

if TYPE_CHECKING:
    from highwater_simulator.world import World

Report = Callable[[TopicPartition | None, str, str, int], None]
Key = tuple[str, TopicPartition]
"""A group, and the partition whose offset it commits."""
STEP_BYTES = 1 << 20


@dataclass(slots=True)
class _Value:
    """A record of a committed offset. at: the record's own offset. offset: -1 for a tombstone."""

    at: int
    leader_epoch: int
    offset: int
    is_acknowledged: bool = False


@dataclass(slots=True)
class _Kept:
    """The committed records of one offsets partition, up to read_up_to."""

    read_up_to: int = 0
    values: dict[Key, list[_Value]] = field(default_factory=dict)


class CoordinatorChecks:
    """Judges the groups that coordinators hold, and their answers."""

    def __init__(self, world: World, places: GroupPlaces, report: Report) -> None:
        self._world = world
        self._places = places
        self._report = report
        self._kept: dict[PartitionOracle, _Kept] = {}

    # ------------------------------------------------------------ terms

    def check_owner(self, broker: int, hosted: Partition) -> None:
        """A broker has a term exactly while it leads, and groups only of terms that are loaded."""
        node = self._world.broker_node(broker)
        if node is None:
            return
        at, role = hosted.topic_partition, hosted.role
        epoch = node.groups.ownership.epoch_of(at.partition)
        leads_since = role.first_epoch if isinstance(role, Leading) and role.is_open else None
        if epoch != leads_since:
            self._report(
                at,
                "I14",
                f"broker {broker} coordinates since epoch {epoch}; it leads since {leads_since}",
                -1,
            )
        loaded = {each.partition for each, _ in node.groups.ownership.loaded()}
        for group in node.groups.coordinator.groups():
            if group.offsets_partition not in loaded:
                self._report(
                    TopicPartition(OFFSETS_TOPIC, group.offsets_partition),
                    "I14",
                    f"broker {broker} has group {group.group_id!r} of a partition that it has not "
                    "loaded, or does not lead",
                    -1,
                )

    # ------------------------------------------------------------ answers

    def judgements(
        self, broker: int, request: object, response: object
    ) -> Iterator[Callable[[], None]]:
        """Yield the checks of this answer, to be called once its event is over."""
        if isinstance(request, OffsetCommitRequest) and isinstance(response, OffsetCommitResponse):
            for item, told in zip(request.partitions, response.partitions, strict=True):
                if told.error is ErrorCode.NONE:
                    key = request.group_id, TopicPartition(item.topic, item.partition)
                    yield lambda key=key, offset=item.offset: self._acknowledged(  # type: ignore[misc]
                        broker, key, offset
                    )
        elif isinstance(request, OffsetFetchRequest) and isinstance(response, OffsetFetchResponse):
            for group in response.groups:
                for each in group.partitions if group.error is ErrorCode.NONE else ():
                    key = group.group_id, TopicPartition(each.topic, each.partition)
                    epoch = self._leader_epoch(broker, group.group_id)
                    if each.error is ErrorCode.NONE and epoch is not None:
                        yield lambda key=key, offset=each.offset, epoch=epoch: self._told(  # type: ignore[misc]
                            broker, key, offset, epoch
                        )

    def _acknowledged(self, broker: int, key: Key, offset: int) -> None:
        """An acknowledged offset is committed in the log."""
        known = self._kept_of(key[0])
        if known is None:
            return
        at, kept = known
        values = [each for each in kept.values.get(key, ()) if each.offset == offset]
        if not values:
            self._report(
                at,
                "I14",
                f"broker {broker} acknowledged offset {offset} of {key[1]} to group {key[0]!r}; "
                f"no such record is committed below {kept.read_up_to}",
                -1,
            )
            return
        unknown = [each for each in values if not each.is_acknowledged]
        (unknown or values)[0].is_acknowledged = True

    def _told(self, broker: int, key: Key, offset: int, leader_epoch: int) -> None:
        """A fetched offset is the last one acknowledged, or one that was committed after it."""
        known = self._kept_of(key[0])
        if known is None:
            return
        at, kept = known
        values = kept.values.get(key, [])
        acknowledged = [
            each.at for each in values if each.is_acknowledged and each.leader_epoch <= leader_epoch
        ]
        floor = max(acknowledged, default=-1)
        may_be = {each.offset for each in values if each.at >= floor}
        if floor < 0:
            may_be.add(-1)
        if offset not in may_be:
            self._report(
                at,
                "I14",
                f"broker {broker}, in leader epoch {leader_epoch}, told group {key[0]!r} offset "
                f"{offset} of {key[1]}; acknowledged or committed since: {sorted(may_be)}",
                floor,
            )

    def _leader_epoch(self, broker: int, group_id: str) -> int | None:
        found = self._places.find(group_id)
        hosted = None if found is None else self._world.hosted(broker, found[0])
        return None if hosted is None or not hosted.is_leader else int(hosted.leader_epoch)

    # ------------------------------------------------------------ committed offsets

    def _kept_of(self, group_id: str) -> tuple[TopicPartition, _Kept] | None:
        """Return the group's partition and its committed offsets; None if they are not known."""
        found = self._places.find(group_id)
        kept = None if found is None else self._read(*found)
        return None if found is None or kept is None else (found[0], kept)

    def _read(self, at: TopicPartition, partition: PartitionOracle) -> _Kept | None:
        """Return the partition's committed offsets; None if no replica can be read to their end."""
        kept = self._kept.setdefault(partition, _Kept())
        end_offset = partition.committed.end_offset
        for broker in self._world.brokers:
            hosted = self._world.hosted(broker, at)
            if kept.read_up_to >= end_offset:
                break
            if hosted is not None and hosted.high_watermark >= end_offset:
                try:
                    self._read_on(kept, hosted, end_offset)
                except (LogRefused, BadBatch, OSError):
                    continue
        return kept if kept.read_up_to >= end_offset else None

    def _read_on(self, kept: _Kept, hosted: Partition, end_offset: int) -> None:
        while kept.read_up_to < end_offset:
            start = Offset(max(kept.read_up_to, hosted.log_start_offset))
            records = hosted.log.read(start, STEP_BYTES, Offset(end_offset)).records
            data = records if isinstance(records, bytes | memoryview) else records.read()
            batches = split_batches(data)
            if not batches:
                raise LogRefused(ErrorCode.OFFSET_OUT_OF_RANGE, "nothing to read")
            for batch in batches:
                for record in decode_records(batch.data):
                    if record.offset >= kept.read_up_to:
                        _note(kept, record.offset, batch.header.leader_epoch, record)
                kept.read_up_to = batch.header.last_offset + 1


def _note(kept: _Kept, at: int, leader_epoch: int, record: object) -> None:
    try:
        found = decode(record.key, record.value)  # type: ignore[attr-defined]
    except BadGroupRecord:
        return
    if isinstance(found, OffsetCommitted | OffsetForgotten):
        offset = found.offset if isinstance(found, OffsetCommitted) else -1
        key = found.group_id, found.topic_partition
        kept.values.setdefault(key, []).append(_Value(at, leader_epoch, offset))
