"""Builds groups and their offsets from an offsets partition's records, in their order. Pure."""

from __future__ import annotations

from highwater_broker.coordinator.stored import (
    GroupForgotten,
    GroupRecord,
    GroupStored,
    LoadedGroup,
    OffsetCommitted,
    OffsetForgotten,
)
from highwater_core.ids import TopicPartition


class LoadedRecords:
    """Groups and their offsets. A later record of the same key replaces an earlier one."""

    def __init__(self) -> None:
        self._stored: dict[str, GroupStored] = {}
        self._offsets: dict[str, dict[TopicPartition, OffsetCommitted]] = {}

    def apply(self, record: GroupRecord) -> None:
        """Take the next record; a tombstone removes its offset or group."""
        match record:
            case OffsetCommitted():
                offsets = self._offsets.setdefault(record.group_id, {})
                offsets[record.topic_partition] = record
            case OffsetForgotten():
                offsets = self._offsets.get(record.group_id, {})
                offsets.pop(record.topic_partition, None)
                if not offsets:
                    self._offsets.pop(record.group_id, None)
            case GroupStored():
                self._stored[record.group_id] = record
            case GroupForgotten():
                self._stored.pop(record.group_id, None)

    def groups(self) -> dict[str, LoadedGroup]:
        """Return all groups, also groups that have offsets only."""
        names = dict.fromkeys((*self._stored, *self._offsets))
        return {
            name: LoadedGroup(self._stored.get(name), self._offsets.get(name, {})) for name in names
        }
