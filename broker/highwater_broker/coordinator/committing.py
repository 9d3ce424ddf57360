"""Groups' offsets: committed, fetched and deleted. A commit is in the log before it is answered.

Ordering: commits of one group are written in the order of their requests, and answered in it.
Source: Kafka's GroupCoordinator, doCommitOffsets; KIP-211, KIP-496.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from highwater_broker.coordinator.group import Group
from highwater_broker.coordinator.groups_and_log import Appends
from highwater_broker.coordinator.logic.group_states import DELETE_ANSWERS, GroupState
from highwater_broker.coordinator.logic.identity import absent_group_error, commit_error
from highwater_broker.coordinator.logic.protocols import CONSUMER_PROTOCOL_TYPE
from highwater_broker.coordinator.logic.tombstones import parted
from highwater_broker.coordinator.settings import GroupSettings
from highwater_broker.coordinator.stored import (
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_core.runtime import Runtime
from highwater_wire.kafka.committed_messages import (
    CommittedPartition,
    FetchedOffset,
    OffsetCommitRequest,
    OffsetToCommit,
)

_COMMIT_ERRORS = {ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


def commit_refusal(group: Group | None, request: OffsetCommitRequest) -> ErrorCode:
    """Return NONE, or the error for the whole request.

    group: None where there is none; NONE then lets the caller make it.
    """
    if group is None:
        return absent_group_error(request.generation, request.request_version)
    names_member = bool(request.member_id) or request.group_instance_id is not None
    return commit_error(
        group.state,
        group.generation,
        request.generation,
        is_anonymous=request.generation < 0 and not names_member,
        identity=group.identity_error(request.member_id, request.group_instance_id),
    )


class Committing:
    """Commits, fetches and forgets the offsets of groups."""

    def __init__(self, settings: GroupSettings, runtime: Runtime, appends: Appends) -> None:
        self._settings = settings
        self._runtime = runtime
        self._appends = appends

    async def commit(
        self, group: Group, request: OffsetCommitRequest, items: Sequence[OffsetToCommit]
    ) -> tuple[CommittedPartition, ...]:
        """Return each item's error. A fetch returns the new offsets once they are in the log."""
        now_ms = self._runtime.wall_clock_ms()
        expires_ms = now_ms + request.retention_ms if request.retention_ms >= 0 else None
        records: list[OffsetCommitted] = []
        errors: list[ErrorCode] = []
        for item in items:
            metadata = item.metadata or ""
            if len(metadata) > self._settings.offset_metadata_max_bytes:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            errors.append(ErrorCode.NONE)
            records.append(
                OffsetCommitted(
                    request.group_id,
                    item.topic,
                    item.partition,
                    item.offset,
                    item.leader_epoch,
                    metadata,
                    now_ms,
                    expires_ms,
                )
            )
        stored = ErrorCode.NONE
        if records:
            stored = await self._append_offsets(group, records)
        if stored is ErrorCode.NONE:
            group.offsets.update((record.topic_partition, record) for record in records)
        told = _COMMIT_ERRORS.get(stored, stored)
        return tuple(
            CommittedPartition(
                item.topic, item.partition, told if error is ErrorCode.NONE else error
            )
            for item, error in zip(items, errors, strict=True)
        )

    async def _append_offsets(self, group: Group, records: Sequence[OffsetCommitted]) -> ErrorCode:
        """Append the offsets; the group knows meanwhile that they are on their way."""
        partitions = [record.topic_partition for record in records]
        for left in group.forgetting:
            left.difference_update(partitions)
        group.committing.update(partitions)
        try:
            return await self._appends.append(group.group_id, records)
        finally:
            group.committing.subtract(partitions)
            group.committing = +group.committing

    async def forget(self, group: Group, partitions: Iterable[TopicPartition]) -> ErrorCode:
        """Forget the offsets that these partitions have now, in the log first.

        The tombstones may need several appends. An offset that is committed meanwhile stays.
        """
        in_log = group.partitions_in_log()
        known = [each for each in partitions if each in in_log]
        left = set(known)
        group.forgetting.append(left)
        try:
            records = [OffsetForgotten(group.group_id, *each) for each in known]
            for part in parted(group.group_id, records):
                tombstones = [each for each in part if each.topic_partition in left]
                error = await self._forget_some(group, tombstones, left)
                if error is not ErrorCode.NONE:
                    return error
        finally:
            group.forgetting = [each for each in group.forgetting if each is not left]
        return ErrorCode.NONE

    async def _forget_some(
        self, group: Group, tombstones: Sequence[OffsetForgotten], left: Collection[TopicPartition]
    ) -> ErrorCode:
        """Append the tombstones, then forget their offsets, but for those no longer in left."""
        if not tombstones:
            return ErrorCode.NONE
        error = await self._appends.append(group.group_id, tombstones)
        if error is ErrorCode.NONE:
            for each in tombstones:
                if each.topic_partition in left:
                    group.offsets.pop(each.topic_partition, None)
        return error

    async def append(self, group_id: str, records: Sequence[GroupRecord]) -> ErrorCode:
        """Append the tombstones, in as many batches as they need."""
        for part in parted(group_id, records):
            error = await self._appends.append(group_id, part)
            if error is not ErrorCode.NONE:
                return error
        return ErrorCode.NONE


def fetched(
    group: Group | None, partitions: Sequence[TopicPartition] | None
) -> tuple[FetchedOffset, ...]:
    """Return the committed offsets of these partitions, -1 where a partition has none.

    partitions: None for all partitions that have a committed offset.
    """
    offsets = {} if group is None or group.state is GroupState.DEAD else group.offsets
    wanted = sorted(offsets) if partitions is None else partitions
    answer: list[FetchedOffset] = []
    for each in wanted:
        found = offsets.get(each)
        if found is None:
            answer.append(FetchedOffset(*each))
        else:
            answer.append(FetchedOffset(*each, found.offset, found.leader_epoch, found.metadata))
    return tuple(answer)


def offset_delete_error(group: Group | None) -> ErrorCode:
    """Return NONE, or the error for all offsets of the group.

    NONE for a group of consumers: `read_by` then tells for each topic whether a member reads it.
    """
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.state is not GroupState.DEAD:
        return ErrorCode.NONE
    return DELETE_ANSWERS[group.state]


def read_by(group: Group) -> Callable[[str], bool]:
    """Return a test for topics: whether a member reads it. True where subscriptions are unknown."""
    if group.state is GroupState.EMPTY:
        return lambda _: False
    topics = group.subscribed_topics()
    return lambda topic: topics is None or topic in topics
