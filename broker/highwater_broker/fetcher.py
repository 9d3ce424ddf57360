"""ReplicaFetcherThread: copies the partitions that this broker follows from one leader.

Each partition is first Truncating, until its log agrees with the leader's, then Fetching. The
answer to a request counts for a partition only while the partition still has the entry with which
the request was made: a command that changes the role or the leader epoch replaces the entry.
Source: docs/explanation/replication.md, "Truncation"; KIP-101, 279, 320.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

from highwater_broker.log.record_batch import LogRefused
from highwater_broker.logic.epoch_cache import EpochEnd
from highwater_broker.logic.fetcher_spread import MAX_ASKED
from highwater_broker.logic.log_divergence import (
    AskLeader,
    TruncateAndAskAgain,
    TruncateTo,
    after_answer,
    drops_log,
    first_step,
)
from highwater_broker.replica import Replica
from highwater_broker.settings import BrokerSettings
from highwater_core.config import Toggles
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import (
    NO_BROKER_EPOCH,
    NO_EPOCH,
    BrokerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicPartition,
)
from highwater_core.ports import CallFailed, Ports
from highwater_wire.kafka.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    EpochEndOffset,
    EpochPartition,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

R = TypeVar("R")

HELD_BACK_MS = 1_000
"""How long a fetcher pauses when a quota holds all of its partitions back; as in Kafka."""


@dataclass(frozen=True, slots=True)
class FetcherContext:
    """The parts of the broker that its fetchers use."""

    settings: BrokerSettings
    toggles: Toggles
    ports: Ports
    endpoint_of: Callable[[NodeId], Endpoint | None]
    """A live broker's replication listener."""
    broker_epoch: Callable[[], BrokerEpoch]
    """The broker epoch of this broker's present registration."""
    write_recovery_points: Callable[[], Awaitable[None]]
    """Writes recovery points: after a truncation, before the next append."""
    fail_points: FailPoints
    told_endpoints: dict[NodeId, Endpoint] = field(default_factory=dict)
    """Replication listeners that LeaderAndIsr commands named; used where metadata has none."""

    def endpoint(self, leader: NodeId) -> Endpoint | None:
        return self.endpoint_of(leader) or self.told_endpoints.get(leader)


class Phase(StrEnum):
    TRUNCATING = "truncating"
    FETCHING = "fetching"


@dataclass(slots=True, eq=False)
class _Followed:
    """One partition under one leader and epoch; compared by identity."""

    partition: Replica
    leader_epoch: LeaderEpoch
    phase: Phase
    is_in_sync: bool
    """A member of the ISR when the role began, or at the leader's high watermark since (KIP-73)."""
    not_before_ms: int = 0
    failures: int = 0
    asked_epoch: LeaderEpoch = NO_EPOCH
    """The epoch of the last OffsetForLeaderEpoch, while Truncating."""
    item: FetchPartition | None = None
    """The partition's part of the last fetch request."""
    nothing_new: FetchPartitionResult | None = None
    """The last fetch result, if it was applied and had no records; an equal one changes nothing."""

    @property
    def is_held_back(self) -> bool:
        return not self.is_in_sync and self.partition.is_held_back

    def is_answered_by(self, result: FetchPartitionResult) -> bool:
        key = self.partition.topic_partition
        return result.partition == key.partition and result.topic == key.topic


class Released(NamedTuple):
    """A partition that a fetcher no longer fetches, with the state for the next fetcher."""

    partition: Replica
    is_truncation_due: bool
    is_in_sync: bool


class ReplicaFetcher:
    """Fetches from one leader, one request at a time, on a connection of its own.

    All partitions of a request are fetched with one version of Fetch; see fetcher_registry.
    """

    def __init__(self, context: FetcherContext, leader: NodeId, name: str) -> None:
        self._context = context
        self._leader = leader
        self._followed: dict[TopicPartition, _Followed] = {}
        self._runtime = context.ports.runtime
        self._woken = self._runtime.event()
        self._has_new_partition = False
        self._connection = name
        self._calling: Endpoint | None = None
        self._was_interrupted = False
        self._failures = 0

    # ------------------------------------------------------------ its partitions

    @property
    def partition_count(self) -> int:
        return len(self._followed)

    def add(self, partition: Replica, *, truncates: bool, is_in_sync: bool) -> None:
        phase = Phase.TRUNCATING if truncates else Phase.FETCHING
        self._followed[partition.topic_partition] = _Followed(
            partition, partition.leader_epoch, phase, is_in_sync
        )
        self._has_new_partition = True
        self._woken.set()
        if self._calling is not None:
            # Do not let the new partition wait for the end of a long poll that lacks it.
            self._was_interrupted = True
            self.disconnect()

    def remove(self, topic_partition: TopicPartition) -> Released:
        """Stop fetching the partition."""
        followed = self._followed.pop(topic_partition)
        is_due = followed.phase is Phase.TRUNCATING
        return Released(followed.partition, is_due, followed.is_in_sync)

    def disconnect(self) -> None:
        if self._calling is not None:
            self._context.ports.transport.disconnect(self._calling, self._connection)

    def _is_current(self, followed: _Followed) -> bool:
        return self._followed.get(followed.partition.topic_partition) is followed

    # ------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Truncate the partitions that are Truncating, else fetch; until it is cancelled."""
        while True:
            if self._has_new_partition:
                self._has_new_partition = False
                await self._context.fail_points.reach(FailPoint.BEFORE_FIRST_FETCH)
            self._woken.clear()
            self._was_interrupted = False
            now_ms = self._runtime.now_ms()
            due = [each for each in self._followed.values() if each.not_before_ms <= now_ms]
            unsaved = [each for each in due if each.partition.must_checkpoint]
            truncating = [each for each in due if each.phase is Phase.TRUNCATING]
            free = [each for each in due if not each.is_held_back]
            try:
                if unsaved:
                    await self._write_recovery_points(unsaved)
                elif truncating:
                    await self._bring_in_line(truncating)
                elif free:
                    await self._fetch(free)
                else:
                    await self._woken.wait(HELD_BACK_MS if due else self._pause_ms())
                self._failures = 0
            except CallFailed:
                if not self._was_interrupted:
                    self._failures += 1
                    await self._woken.wait(self._backoff_ms(self._failures))

    async def _write_recovery_points(self, unsaved: list[_Followed]) -> None:
        """Write recovery points and log starts; there is no fetch before they are on the disk."""
        await self._context.write_recovery_points()
        if any(each.partition.must_checkpoint for each in unsaved):
            await self._woken.wait(self._context.settings.replica_fetch_backoff_max_ms)

    def _pause_ms(self) -> int | None:
        waits = [each.not_before_ms for each in self._followed.values()]
        return max(1, min(waits) - self._runtime.now_ms()) if waits else None

    def _backoff_ms(self, failures: int) -> int:
        settings = self._context.settings
        doubled = settings.replica_fetch_backoff_ms << min(failures - 1, 16)
        return min(doubled, settings.replica_fetch_backoff_max_ms)

    def _back_off(self, followed: _Followed, error: ErrorCode) -> None:
        if followed.failures == 0:
            followed.partition.trace(
                EventKind.REQUEST_REFUSED, request="fetch", error=error.name, by=self._leader
            )
        followed.failures += 1
        followed.nothing_new = None
        pause_ms = self._backoff_ms(followed.failures)
        followed.not_before_ms = self._runtime.now_ms() + pause_ms

    async def _call(self, request: object, response_type: type[R]) -> R:
        """Return the leader's answer.

        Raises:
            CallFailed: also when the leader is not known to live.
        """
        endpoint = self._context.endpoint(self._leader)
        if endpoint is None:
            raise CallFailed(f"broker {self._leader} is not known to live", sent=False)
        self._calling = endpoint
        try:
            response = await self._context.ports.transport.call(
                endpoint,
                self._connection,
                request,
                self._context.settings.replica_fetch_timeout_ms,
            )
        finally:
            self._calling = None
        if not isinstance(response, response_type):
            raise CallFailed(f"broker {self._leader} answered with a {type(response).__name__}")
        return response

    def _fence(self, followed: _Followed) -> LeaderEpoch:
        fenced = self._context.toggles.fence_fetch_by_leader_epoch
        return followed.leader_epoch if fenced else NO_EPOCH

    # ------------------------------------------------------------ Fetching

    async def _fetch(self, ready: list[_Followed]) -> None:
        settings = self._context.settings
        request = FetchRequest(
            replica_id=settings.broker_id,
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            partitions=tuple([self._fetch_partition(each) for each in ready]),
            replica_epoch=(
                self._context.broker_epoch()
                if self._context.toggles.isr_join_checks_broker_epoch
                else NO_BROKER_EPOCH
            ),
        )
        response = await self._call(request, FetchResponse)
        if response.error is not ErrorCode.NONE:
            raise CallFailed(f"broker {self._leader} answered {response.error.name}")
        out_of_range: list[_Followed] = []
        for followed, result in self._with_news(ready, response.partitions):
            if not self._is_current(followed):
                continue
            if result is None:
                self._back_off(followed, ErrorCode.UNKNOWN_SERVER_ERROR)
            elif result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range.append(followed)
            else:
                self._take(followed, result)
        for followed in out_of_range:
            await self._back_in_range(followed)

    def _with_news(
        self, ready: list[_Followed], results: tuple[FetchPartitionResult, ...]
    ) -> list[tuple[_Followed, FetchPartitionResult | None]]:
        """Return the partitions whose result differs from their last one, with that result.

        The result is None for a partition that the response lacks; a correct leader leaves none
        out. Results in the order of the request are matched without a look-up.
        """
        if len(ready) == len(results):
            pairs: list[tuple[_Followed, FetchPartitionResult | None]] = [
                (followed, result)
                for followed, result in zip(ready, results, strict=True)
                if result is not followed.nothing_new and result != followed.nothing_new
            ]
            if all(result and each.is_answered_by(result) for each, result in pairs):
                return pairs
        answers = {TopicPartition(each.topic, each.partition): each for each in results}
        return [(each, answers.get(each.partition.topic_partition)) for each in ready]

    def _back_off_all(self, unanswered: Mapping[TopicPartition, _Followed]) -> None:
        """Back off the partitions that a response lacks; a correct leader leaves none out."""
        for followed in unanswered.values():
            if self._is_current(followed):
                self._back_off(followed, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _fetch_partition(self, followed: _Followed) -> FetchPartition:
        """Return the partition's part of a fetch request; the last one again if it is unchanged."""
        partition, item = followed.partition, followed.item
        log = partition.log
        if (
            item is not None
            and item.fetch_offset == log.log_end_offset
            and item.log_start_offset == log.log_start_offset
            and item.topic_id == partition.topic_id
        ):
            return item
        followed.item = FetchPartition(
            topic=partition.topic_partition.topic,
            partition=partition.topic_partition.partition,
            fetch_offset=partition.log_end_offset,
            max_bytes=self._context.settings.replica_fetch_max_bytes,
            current_leader_epoch=self._fence(followed),
            log_start_offset=partition.log_start_offset,
            topic_id=partition.topic_id,
        )
        return followed.item

    def _take(self, followed: _Followed, result: FetchPartitionResult) -> None:
        """Append the result's records without copying them, or back off on its error."""
        error = result.error
        followed.nothing_new = None
        if error is ErrorCode.NONE:
            records = result.records
            if not isinstance(records, bytes | memoryview):
                records = records.read()
            error = followed.partition.append_as_follower(
                records,
                result.high_watermark,
                result.log_start_offset,
                self._runtime.wall_clock_ms(),
            )
            followed.is_in_sync = followed.partition.log_end_offset >= result.high_watermark
            if len(records) > 0:
                # The next request has it last: a full response starves no other partition.
                key = followed.partition.topic_partition
                self._followed[key] = self._followed.pop(key)
            else:
                followed.nothing_new = result
        if error is ErrorCode.NONE:
            followed.failures = 0
        else:
            self._back_off(followed, error)

    async def _back_in_range(self, followed: _Followed) -> None:
        """Bring a log whose end the leader does not have back into the leader's range.

        The leader's end below ours: truncate to it, with a warning in the trace (row 10b). Else
        start over at the leader's start; with the fix only if that is beyond our end (row 12).
        """
        partition = followed.partition
        leader_end = await self._list_offset(followed, LATEST_TIMESTAMP)
        if leader_end is None:
            return
        if leader_end < partition.log_end_offset:
            self._truncate(followed, leader_end, "warning: the leader's log ends below")
            return
        leader_start = await self._list_offset(followed, EARLIEST_TIMESTAMP)
        if leader_start is None:
            return
        end, fixed = partition.log_end_offset, self._context.toggles.wipe_only_below_leader_start
        if not drops_log(leader_start, end, only_below_start=fixed):
            return
        if leader_start < end:
            self._truncate(followed, leader_start, "warning: out of the leader's range")
        else:
            try:
                partition.truncate_fully(leader_start, "warning: the leader's log starts above")
            except LogRefused as refused:
                self._back_off(followed, refused.error)

    def _truncate(self, followed: _Followed, offset: Offset, reason: str) -> bool:
        """Truncate the log; return False, and back off, where the disk refuses."""
        try:
            followed.partition.truncate_to(offset, reason)
        except LogRefused as refused:
            self._back_off(followed, refused.error)
            return False
        return True

    async def _list_offset(self, followed: _Followed, timestamp: int) -> Offset | None:
        """Return the leader's end or start, or None on an error or once the entry is replaced."""
        key = followed.partition.topic_partition
        asked = ListOffsetsPartition(key.topic, key.partition, timestamp, self._fence(followed))
        response = await self._call(
            ListOffsetsRequest(self._context.settings.broker_id, (asked,)), ListOffsetsResponse
        )
        if not self._is_current(followed):
            return None
        for result in response.partitions:
            if (result.topic, result.partition) == (key.topic, key.partition):
                error = result.error
                if error is ErrorCode.NONE and result.offset < 0:
                    error = ErrorCode.UNKNOWN_SERVER_ERROR  # no log begins or ends there
                if error is ErrorCode.NONE:
                    return result.offset
                self._back_off(followed, error)
        return None

    # ------------------------------------------------------------ Truncating

    async def _bring_in_line(self, truncating: list[_Followed]) -> None:
        """Ask the leader where the first MAX_ASKED partitions' epochs end; truncate by its answers.

        The others are Truncating still, and the next ones.
        """
        asked: dict[TopicPartition, _Followed] = {}
        for followed in truncating:
            if len(asked) == MAX_ASKED:
                break
            if followed.asked_epoch == NO_EPOCH:
                self._take_step(followed, self._first_step(followed.partition))
            if followed.asked_epoch != NO_EPOCH:
                asked[followed.partition.topic_partition] = followed
        if not asked:
            return
        request = OffsetForLeaderEpochRequest(
            replica_id=self._context.settings.broker_id,
            partitions=tuple(
                EpochPartition(key.topic, key.partition, each.asked_epoch, self._fence(each))
                for key, each in asked.items()
            ),
        )
        response = await self._call(request, OffsetForLeaderEpochResponse)
        await self._context.fail_points.reach(FailPoint.BEFORE_TRUNCATION)
        unanswered = dict(asked)
        for result in response.partitions:
            key = TopicPartition(result.topic, result.partition)
            unanswered.pop(key, None)
            answered = asked.get(key)
            if answered is not None and self._is_current(answered):
                self._take_answer(answered, result)
        self._back_off_all(unanswered)

    def _first_step(self, partition: Replica) -> TruncateTo | AskLeader:
        return first_step(
            self._context.toggles.truncation,
            partition.log.epoch_cache,
            partition.high_watermark,
            partition.log_end_offset,
        )

    def _take_answer(self, followed: _Followed, result: EpochEndOffset) -> None:
        if result.error is not ErrorCode.NONE:
            self._back_off(followed, result.error)
            return
        partition = followed.partition
        step = after_answer(
            self._context.toggles.truncation,
            EpochEnd(result.leader_epoch, result.end_offset),
            partition.log.epoch_cache,
            partition.high_watermark,
            partition.log_end_offset,
        )
        self._take_step(followed, step, is_known=result.end_offset >= 0)

    def _take_step(
        self,
        followed: _Followed,
        step: TruncateTo | AskLeader | TruncateAndAskAgain,
        *,
        is_known: bool = True,
    ) -> None:
        match step:
            case AskLeader(epoch):
                followed.asked_epoch = epoch
            case TruncateAndAskAgain(offset, older_epoch):
                reason = f"epoch {followed.asked_epoch} diverged"
                if self._truncate(followed, offset, reason):
                    followed.asked_epoch = older_epoch
            case TruncateTo(offset):
                asked = followed.asked_epoch
                reason = "to the high watermark"
                if asked != NO_EPOCH:
                    unknown = f"{reason}: its leader knows no epoch {asked}"
                    reason = f"to the end of epoch {asked}" if is_known else unknown
                if self._truncate(followed, offset, reason):
                    followed.phase = Phase.FETCHING
                    followed.failures = 0
