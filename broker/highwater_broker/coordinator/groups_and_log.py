"""The protocols between the group coordinator and the log of its groups.

The group coordinator is a GroupCache, offsets_log.py an Appends, and ownership.py an Owned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from highwater_broker.coordinator.stored import GroupRecord, LoadedGroup
from highwater_core.errors import ErrorCode


class Appends(Protocol):
    """Writes records of groups to `__consumer_offsets`."""

    async def append(self, group_id: str, records: Sequence[GroupRecord]) -> ErrorCode:
        """Return NONE once the records are committed, or an error.

        NONE: committed, in the term in which this broker loaded the group.
        NOT_COORDINATOR: this broker does not lead the group's partition, or its term ended.
        COORDINATOR_LOAD_IN_PROGRESS: this broker leads the partition and has not loaded it yet.
        COORDINATOR_NOT_AVAILABLE: too few replicas are in sync, or the append timed out; then the
        records may be committed later.
        UNKNOWN_SERVER_ERROR: the log refused the records.
        """
        ...


class Owned(Protocol):
    """Tells which groups this broker coordinates."""

    def refusal(self, group_id: str) -> ErrorCode:
        """Return NONE, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        ...

    def is_loading(self) -> bool:
        """Return whether groups may be missing because a partition is still loading."""
        ...


class GroupCache(Protocol):
    """The groups that this broker coordinates, in memory."""

    def take_over(self, offsets_partition: int, groups: Mapping[str, LoadedGroup]) -> None:
        """Coordinate these groups from now on. groups: all groups in the partition's log."""
        ...

    def resign(self, offsets_partition: int) -> None:
        """Stop coordinating the partition's groups; answer waiting requests NOT_COORDINATOR."""
        ...
