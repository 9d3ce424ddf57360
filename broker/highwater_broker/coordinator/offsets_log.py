"""Appends groups' records to `__consumer_offsets`, and waits until they are committed.

This broker leads the group's partition, and appends with acks=all. An append counts only in the
term in which the group was loaded.
Source: Kafka's GroupMetadataManager.appendForGroup; its answers by the append's error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from highwater_broker.coordinator.ownership import Ownership, Term
from highwater_broker.coordinator.records import BadGroupRecord, encode_batch
from highwater_broker.coordinator.stored import GroupRecord
from highwater_broker.log.record_batch import keys_are_known
from highwater_broker.partition import Partition
from highwater_broker.purgatory import Purgatory
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import Offset
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import ACKS_ALL

_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}
"""What an append's error means for who asked the coordinator; others are UNKNOWN_SERVER_ERROR."""


class OffsetsLog:
    """Writes groups' records to the log."""

    def __init__(
        self, ownership: Ownership, purgatory: Purgatory, runtime: Runtime, timeout_ms: int
    ) -> None:
        """timeout_ms: how long an append waits to be committed (offsets.commit.timeout.ms)."""
        self._ownership = ownership
        self._purgatory = purgatory
        self._runtime = runtime
        self._timeout_ms = timeout_ms
        self._under_way: Counter[str] = Counter()
        """How many appends of a group are not answered yet."""

    def is_idle(self, group_id: str) -> bool:
        """Return whether no append for the group is unanswered."""
        return group_id not in self._under_way

    async def append(self, group_id: str, records: Sequence[GroupRecord]) -> ErrorCode:
        """Return NONE once the records are committed, or an error; see groups_and_log.Appends.

        Ordering: the records are in the log before the first await. Appends of one group are
        answered in the order in which they began.
        """
        term = self._ownership.term_of(group_id)
        if term is None:
            return ErrorCode.NOT_COORDINATOR
        if not term.is_loaded:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if not records:
            return ErrorCode.NONE
        self._under_way[group_id] += 1
        try:
            return await self._append(term, records)
        finally:
            self._under_way[group_id] -= 1
            if not self._under_way[group_id]:
                del self._under_way[group_id]

    async def _append(self, term: Term, records: Sequence[GroupRecord]) -> ErrorCode:
        partition, now_ms = term.partition, self._runtime.wall_clock_ms()
        try:
            batch = encode_batch(records, now_ms)
        except BadGroupRecord as bad:
            partition.trace(EventKind.BAD_INPUT_MET, where="a group's record", what=str(bad)[:300])
            return ErrorCode.UNKNOWN_SERVER_ERROR
        outcome = partition.append(batch, ACKS_ALL, now_ms, keys_are_known())
        if outcome.error is not ErrorCode.NONE:
            return _ERRORS.get(outcome.error, ErrorCode.UNKNOWN_SERVER_ERROR)
        status = await self._status(partition, outcome.end_offset)
        if status is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _ERRORS.get(status, ErrorCode.UNKNOWN_SERVER_ERROR)

    async def _status(self, partition: Partition, end_offset: Offset) -> ErrorCode | None:
        """Return the outcome of the append that ended at end_offset; None at the time-out."""
        leader_epoch = partition.leader_epoch
        status: ErrorCode | None = None

        def is_decided() -> bool:
            nonlocal status
            status = partition.acks_all_status(end_offset, leader_epoch)
            return status is not None

        await self._purgatory.wait(
            (partition.topic_partition,), is_decided, self._timeout_ms, in_turn=True
        )
        return status
