"""Forgets, at intervals, offsets past their retention, and groups without members and offsets.

Source: KIP-211; Kafka's GroupMetadataManager.cleanupGroupMetadata.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from highwater_broker.coordinator.group import Group
from highwater_broker.coordinator.groups_and_log import Appends
from highwater_broker.coordinator.logic.group_states import GroupState
from highwater_broker.coordinator.logic.offset_expiry import ExpiryFacts, expired_offsets
from highwater_broker.coordinator.logic.tombstones import parted
from highwater_broker.coordinator.stored import OffsetCommitted, OffsetForgotten
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime

TOMBSTONES_AT_ONCE = 100
"""In one append at most: one line of the trace names their partitions."""


class Log(Appends, Protocol):
    """Writes groups' records, and tells whether an append of a group is unanswered."""

    def is_idle(self, group_id: str) -> bool: ...


class OffsetExpiry:
    """Looks through the groups that are coordinated here."""

    def __init__(
        self,
        runtime: Runtime,
        trace: Trace,
        log: Log,
        groups: Callable[[], Iterable[Group]],
        delete_group: Callable[[str], Awaitable[ErrorCode]],
        *,
        retention_ms: int,
        check_interval_ms: int,
    ) -> None:
        """delete_group: forgets a group without members and writes its tombstone."""
        self._runtime = runtime
        self._trace = trace
        self._log = log
        self._groups = groups
        self._delete_group = delete_group
        self._retention_ms = retention_ms
        self._check_interval_ms = check_interval_ms

    async def run(self) -> None:
        while True:
            await self._runtime.sleep(self._check_interval_ms)
            for group in tuple(self._groups()):
                await self._runtime.sleep(0)
                await self._look_at(group)

    async def _look_at(self, group: Group) -> None:
        expired = self._expired(group, group.offsets)
        for begin in range(0, len(expired), TOMBSTONES_AT_ONCE):
            some = expired[begin : begin + TOMBSTONES_AT_ONCE]
            if await self._forget(group, some) is not ErrorCode.NONE:
                return  # the next look tries again
        is_left = group.offsets or group.pending_ids or not self._log.is_idle(group.group_id)
        if group.state is GroupState.EMPTY and not is_left:
            await self._delete_group(group.group_id)

    async def _forget(self, group: Group, partitions: Sequence[TopicPartition]) -> ErrorCode:
        """Forget the offsets of these partitions that are still expired."""
        while True:
            offsets = {each: group.offsets[each] for each in partitions if each in group.offsets}
            expired = self._expired(group, offsets)
            if not expired:
                return ErrorCode.NONE
            error = await self._forget_some(group, expired)
            if error is not ErrorCode.NONE:
                return error

    def _expired(
        self, group: Group, offsets: Mapping[TopicPartition, OffsetCommitted]
    ) -> tuple[TopicPartition, ...]:
        """Return the expired ones of a group's offsets; none while a commit of it is unanswered.

        The tombstone would be in the log behind that commit, which is acknowledged.
        """
        if not self._log.is_idle(group.group_id):
            return ()
        is_stable = group.state is GroupState.STABLE
        facts = ExpiryFacts(
            group.state,
            group.protocol_type,
            group.state_since_ms,
            group.subscribed_topics() if is_stable else None,
            offsets,
        )
        return expired_offsets(facts, self._runtime.wall_clock_ms(), self._retention_ms)

    async def _forget_some(self, group: Group, expired: tuple[TopicPartition, ...]) -> ErrorCode:
        """Forget as many of the offsets as one append takes, in the log first.

        Ordering: nothing runs between the decision and the append.
        """
        tombstones = [OffsetForgotten(group.group_id, *each) for each in expired]
        records = next(parted(group.group_id, tombstones))
        partitions = expired[: len(records)]
        error = await self._log.append(group.group_id, records)
        if error is ErrorCode.NONE:
            for each in partitions:
                group.offsets.pop(each, None)
            self._trace.emit(
                EventKind.OFFSETS_EXPIRED,
                group=group.group_id[:300],
                partitions=[str(each) for each in partitions],
            )
        return error
