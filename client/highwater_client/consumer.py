"""A consumer of assigned partitions, as librdkafka reads them without a group.

It reads from the earliest offset on with long polls: one at a time on one connection to each
broker, for all partitions that the broker leads. After an error it goes on at the same offset.
Deviation: its fetches carry no leader epoch (KIP-320), as clients before that did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from highwater_checker.history import (
    HIGH_WATERMARK,
    LATEST,
    POLL,
    RESET,
    HistoryEvent,
    OperationType,
)
from highwater_client.metadata import Brokers, Leaders
from highwater_client.positions import AssignedPartition, Progress
from highwater_client.recorder import HistoryRecorder
from highwater_client.settings import ConsumerSettings, OffsetReset, backoff_after
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_core.ids import Endpoint
from highwater_core.ports import CallFailed, Transport
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import (
    CONSUMER,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
)
from highwater_wire.kafka.record_batch import BadBatch, decode_records, split_batches

_RESET_TIMESTAMPS = {
    OffsetReset.EARLIEST: EARLIEST_TIMESTAMP,
    OffsetReset.LATEST: LATEST_TIMESTAMP,
}

OnRead = Callable[[str, int, int, int, int, int, int], None]
"""Gets topic, partition, base offset, next offset, CRC, leader epoch, high watermark per batch."""


class Consumer:
    """One consumer client; `process` names it in the history. now_ns: as a producer's."""

    def __init__(
        self,
        runtime: Runtime,
        transport: Transport,
        bootstrap: Sequence[Endpoint],
        settings: ConsumerSettings,
        *,
        process: str = "c0",
        now_ns: Callable[[], int] | None = None,
        on_event: Callable[[HistoryEvent], None] | None = None,
        on_read: OnRead | None = None,
        recorder: HistoryRecorder | None = None,
        positions: Mapping[int, int] | None = None,
    ) -> None:
        """recorder: of a history that it shares, instead of one of its own.

        positions: where partitions are read from, that are not read from their start.
        """
        self._runtime = runtime
        self._transport = transport
        self._settings = settings
        self._recorder = recorder or HistoryRecorder(
            now_ns or runtime.now_ns, process, on_event=on_event
        )
        self._on_read = on_read
        self._scope = runtime.scope("Consumer")
        self._leaders = Leaders(
            runtime,
            Brokers(transport, bootstrap),
            self._assign,
            backoff_ms=settings.retry_backoff_ms,
            max_age_ms=settings.metadata_max_age_ms,
        )
        self._partitions = {
            partition: AssignedPartition(settings.topic, partition, settings.partition_max_bytes)
            for partition in settings.partitions
        }
        for partition, offset in (positions or {}).items():
            self._partitions[partition].place(offset)
        self._by_leader: dict[Endpoint, dict[AssignedPartition, None]] = {}
        self._progress = Progress(runtime)
        self._stopping = runtime.event()

    @property
    def history(self) -> list[HistoryEvent]:
        return self._recorder.events

    def position(self, partition: int) -> int | None:
        """Return the offset to read next, None until the first one is known."""
        return self._partitions[partition].position

    async def caught_up(self, within_ms: int) -> bool:
        """Return True once each partition has been read to the high watermark of an answer.

        Only answers to requests from now on count. So records that were committed at the call have
        been read, if the answering leader knew of them. These requests do not wait for records.
        """
        return await self._progress.caught_up(self._partitions.values(), within_ms)

    async def run(self) -> None:
        """Read until stop()."""
        self._assign()
        if self._settings.latest_every_ms:
            self._scope.spawn("Latest", self._ask_latest_again_and_again())
        await self._stopping.wait()
        self._scope.cancel()
        self._leaders.close()
        for leader in self._by_leader:
            for connection in ("fetch", "offsets"):
                self._transport.disconnect(leader, connection)

    def stop(self) -> None:
        self._stopping.set()

    # ------------------------------------------------------------ assignment to leaders

    def _assign(self) -> None:
        """Give each partition that is not fetched to its leader's loop, or request its leader."""
        for item in self._partitions.values():
            if item.leader is not None or item.is_resting or item.has_ended:
                continue
            leader = self._leaders.find(item.topic, item.partition)
            if leader is None:
                self._leaders.need(item.topic)
                continue
            item.leader = leader
            mine = self._by_leader.setdefault(leader, {})
            mine[item] = None
            if len(mine) == 1:
                self._scope.spawn(f"Fetch {leader}", self._fetch_from(leader, mine))

    def _put_aside(self, items: Sequence[AssignedPartition]) -> None:
        """Take partitions from their leaders, and look up the leaders again after the backoff."""
        for item in items:
            if item.leader is not None:
                self._leaders.forget(item.topic, item.partition, item.leader)
                self._by_leader[item.leader].pop(item)
                item.leader = None
                item.is_resting = True
                item.failures += 1
        self._scope.spawn("Retry", self._assign_later(items))

    async def _assign_later(self, items: Sequence[AssignedPartition]) -> None:
        failures = min(item.failures for item in items)
        await self._runtime.sleep(backoff_after(failures, self._settings.retry_backoff_ms))
        for item in items:
            item.is_resting = False
        self._assign()

    # ------------------------------------------------------------ one broker

    async def _fetch_from(self, leader: Endpoint, mine: dict[AssignedPartition, None]) -> None:
        """Fetch for as long as there is a partition to fetch from this broker."""
        while mine:
            try:
                unplaced = [item for item in mine if item.position is None]
                if unplaced:
                    await self._place(leader, unplaced)
                else:
                    await self._fetch(leader, tuple(mine))
            except CallFailed:
                self._put_aside(tuple(mine))

    async def _fetch(self, leader: Endpoint, items: Sequence[AssignedPartition]) -> None:
        settings = self._settings
        max_wait_ms = 0 if any(map(self._progress.is_behind, items)) else settings.max_wait_ms
        request = FetchRequest(
            CONSUMER,
            max_wait_ms,
            1,
            settings.max_bytes,
            tuple([item.fetch_partition() for item in items]),
        )
        timeout_ms = max_wait_ms + settings.request_timeout_ms
        asked_in_round = self._progress.round
        response = await self._transport.call(leader, "fetch", request, timeout_ms)
        asked = {(item.topic, item.partition): item for item in items}
        failed: list[AssignedPartition] = []
        for result in response.partitions:
            item = asked.pop((result.topic, result.partition))
            if result.error is ErrorCode.NONE and self._take(item, result):
                self._progress.answered(item, asked_in_round)
                continue
            if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._reset(item)
            else:
                self._note_error(item, result.error)
            if not item.has_ended:
                failed.append(item)
        failed.extend(asked.values())
        if failed:
            self._put_aside(failed)

    def _take(self, item: AssignedPartition, result: Any) -> bool:
        """Record the read records; return False when they cannot be decoded."""
        high_watermark = result.high_watermark
        data = bytes(result.records)
        if data:
            try:
                self._read(item, data, high_watermark)
            except BadBatch as bad:
                self._fail(item, f"{bad.error.name}: {bad}")
                return False
        elif self._settings.record_high_watermarks and high_watermark != item.high_watermark:
            self._record(HIGH_WATERMARK, item, "", high_watermark)
        item.high_watermark = high_watermark
        item.failures = 0
        return True

    def _read(self, item: AssignedPartition, data: bytes, high_watermark: int) -> None:
        operation_id = self._recorder.new_operation()
        for batch in split_batches(data):
            header = batch.header
            for record in decode_records(batch.data):
                if item.position is None or record.offset >= item.position:
                    self._recorder.record(
                        OperationType.OK,
                        operation_id,
                        POLL,
                        item.topic,
                        item.partition,
                        (record.value or b"").decode(errors="backslashreplace"),
                        record.offset,
                        high_watermark=high_watermark,
                        key=(record.key or b"").decode(errors="backslashreplace"),
                    )
            next_offset = header.last_offset + 1
            item.position = max(item.position or 0, next_offset)
            if self._on_read is not None:
                self._on_read(
                    item.topic,
                    item.partition,
                    header.base_offset,
                    next_offset,
                    header.crc,
                    header.leader_epoch,
                    high_watermark,
                )

    # ------------------------------------------------------------ offsets

    def _reset(self, item: AssignedPartition) -> None:
        """Request the offset at which the policy goes on; under NONE read no further."""
        policy = self._settings.offset_reset
        self._fail(item, ErrorCode.OFFSET_OUT_OF_RANGE.name)
        if policy is OffsetReset.NONE:
            item.has_ended = True
            self._progress.ended(item)
            if item.leader is not None:
                self._by_leader[item.leader].pop(item)
                item.leader = None
        item.position = None
        item.has_been_placed = True

    async def _place(self, leader: Endpoint, items: Sequence[AssignedPartition]) -> None:
        """Request the offsets at which partitions are read from now on."""
        policy = self._settings.offset_reset
        wanted = tuple(
            ListOffsetsPartition(
                item.topic,
                item.partition,
                _RESET_TIMESTAMPS[policy] if item.has_been_placed else EARLIEST_TIMESTAMP,
            )
            for item in items
        )
        response = await self._transport.call(
            leader,
            "fetch",
            ListOffsetsRequest(CONSUMER, wanted),
            self._settings.request_timeout_ms,
        )
        asked = {(item.topic, item.partition): item for item in items}
        for result in response.partitions:
            item = asked[result.topic, result.partition]
            if result.error is not ErrorCode.NONE:
                self._note_error(item, result.error)
                continue
            item.position = result.offset
            del asked[result.topic, result.partition]
            if item.has_been_placed:
                self._record(RESET, item, policy.value, result.offset)
            item.has_been_placed = True
        if asked:
            self._put_aside(tuple(asked.values()))

    async def latest(self, partition: int) -> int | None:
        """Ask the leader for the partition's latest offset, and record it; None without one."""
        item = self._partitions[partition]
        leader = item.leader
        if leader is None:
            return None
        wanted = ListOffsetsPartition(item.topic, item.partition, LATEST_TIMESTAMP)
        try:
            response = await self._transport.call(
                leader,
                "offsets",
                ListOffsetsRequest(CONSUMER, (wanted,)),
                self._settings.request_timeout_ms,
            )
        except CallFailed:
            return None
        result = response.partitions[0]
        if result.error is not ErrorCode.NONE:
            return None
        self._record(LATEST, item, "", result.offset)
        return int(result.offset)

    async def _ask_latest_again_and_again(self) -> None:
        while True:
            await self._runtime.sleep(self._settings.latest_every_ms)
            for partition in self._partitions:
                await self.latest(partition)

    # ------------------------------------------------------------ history

    def _note_error(self, item: AssignedPartition, error: ErrorCode) -> None:
        """Record an error that no failover explains."""
        if error is not ErrorCode.NONE and not MEANINGS[error].retriable:
            self._fail(item, error.name)

    def _fail(self, item: AssignedPartition, error: str) -> None:
        self._recorder.record(
            OperationType.FAIL,
            self._recorder.new_operation(),
            POLL,
            item.topic,
            item.partition,
            "",
            -1 if item.position is None else item.position,
            error,
        )

    def _record(self, function: str, item: AssignedPartition, value: str, offset: int) -> None:
        self._recorder.record(
            OperationType.OK,
            self._recorder.new_operation(),
            function,
            item.topic,
            item.partition,
            value,
            offset,
        )
