"""Where groups and their log meet, as narrow protocols.

The group coordinator has GroupCache, the log of offsets has Appends, and whoever knows which
partitions of `__consumer_offsets` this broker leads has Owned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from highwater_broker.coordinator.stored import GroupRecord, LoadedGroup
from highwater_core.errors import ErrorCode


class Appends(Protocol):
    """Writes records of groups to `__consumer_offsets`."""

    async def append(self, group_id: str, records: Sequence[GroupRecord]) -> ErrorCode:
        """Return once the records are committed, or say why they may not be.

        NONE: committed, under the leader epoch in which this broker took the group over.
        NOT_COORDINATOR: it does not lead the group's partition, or no longer in that epoch.
        COORDINATOR_LOAD_IN_PROGRESS: it leads and has not read the partition yet.
        COORDINATOR_NOT_AVAILABLE: too few replicas are in sync, or time is over: the records may
        be committed later. UNKNOWN_SERVER_ERROR: the log refused them as they are.
        """
        ...


class Owned(Protocol):
    """Which groups this broker coordinates."""

    def refusal(self, group_id: str) -> ErrorCode:
        """Return NONE, or why requests about the group are refused here.

        NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS.
        """
        ...

    def is_loading(self) -> bool:
        """Return whether there may be groups here that are not loaded yet."""
        ...


class GroupCache(Protocol):
    """The groups that this broker coordinates, in memory."""

    def take_over(self, offsets_partition: int, groups: Mapping[str, LoadedGroup]) -> None:
        """Coordinate these groups from now on: all that the partition's log has."""
        ...

    def resign(self, offsets_partition: int) -> None:
        """Coordinate no group of the partition any more, and answer who waits NOT_COORDINATOR."""
        ...
