"""Fetch: record batches for consumers up to the high watermark, for followers up to the log end.

A fetch first counts as the follower's progress, then waits until there are records or news, then
reads once. Followers fetch on the replication listener, consumers on the client listeners.
Source: docs/explanation/replication.md, "Waiting requests"; KIP-74 (first batch), KIP-320 (leader
epochs), KIP-516 (a topic id, where it is given, counts instead of the name).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from highwater_broker.kafka_api.follower_session import FollowerSession
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS, Listener
from highwater_broker.kafka_api.lookup import PartitionLookup
from highwater_broker.kafka_api.pending_fetch import (
    ConsumerFetch,
    FollowerFetch,
    Part,
    SentHighWatermarks,
)
from highwater_broker.kafka_api.turns import CHUNK, Turns
from highwater_broker.purgatory import Purgatory, Watch
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, NodeId, TopicPartition
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import (
    CONSUMER,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)

FEW = 4
"""A fetch that waited reads so many partitions at once, and up to CHUNK in a step that it shares
with other fetches: one record may wake thousands of them."""
MAX_WATCHED_PARTITIONS = 1_000
"""A consumer's fetch of more is woken by these first ones only: the others are checked when its
max_wait has passed."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The broker's own bounds of a fetch."""

    response_max_bytes: int
    high_watermark_linger_ms: int
    max_wait_ms: int


class FetchHandler:
    """Answers Fetch."""

    def __init__(
        self,
        lookup: PartitionLookup,
        purgatory: Purgatory,
        runtime: Runtime,
        trace: Trace,
        limits: FetchLimits,
        turns: Turns,
    ) -> None:
        self._turns = turns
        self._lookup = lookup
        self._purgatory = purgatory
        self._runtime = runtime
        self._trace = trace
        self._limits = limits
        self.sent = SentHighWatermarks()
        self._sessions: dict[NodeId, list[FollowerSession]] = {}
        """The sessions of each follower's fetchers, one each, between their fetches. Fetchers share
        no partition, so any partition of a request shows its fetcher."""

    def forget_topic(self, topic: str) -> None:
        """Drop the state of a topic that is gone."""
        self.sent.forget_topic(topic)
        sessions, self._sessions = self._sessions, {}
        for session in chain.from_iterable(sessions.values()):
            session.close()

    async def handle(self, request: FetchRequest, listener: str) -> FetchResponse:
        """Return the readable records once there are enough, or once max_wait_ms has passed."""
        refused = self._refusal(request, listener)
        if refused is not None:
            return _refuse_all(request, refused)
        max_bytes = min(request.max_bytes, self._limits.response_max_bytes)
        if request.replica_id != CONSUMER:
            return await self._handle_follower(request, max_bytes)
        return await self._handle_consumer(_without_repeats(request), max_bytes)

    async def _handle_consumer(self, request: FetchRequest, max_bytes: int) -> FetchResponse:
        parts = await self._turns.each(self._part, request.partitions)
        pending = ConsumerFetch(request, parts, max_bytes)
        if len(parts) > CHUNK or not pending.is_complete():
            await self._wait_for_news(request, parts, pending)
            if FEW < len(parts) <= CHUNK:  # one record may wake thousands of such fetches
                await self._turns.share(len(parts))
        return FetchResponse(tuple(await self._turns.each(pending.read, parts)))

    async def _wait_for_news(
        self, request: FetchRequest, parts: list[Part], pending: ConsumerFetch
    ) -> None:
        """Watch the partitions before they are checked, so that no change is missed."""
        watch = Watch(pending.note_change)
        may_wait = self._purgatory.open_reader(watch, pending.keys()[:MAX_WATCHED_PARTITIONS])
        try:
            await self._turns.each(pending.look, parts)
            max_wait_ms = min(request.max_wait_ms, self._limits.max_wait_ms) if may_wait else 0
            await self._purgatory.wait_watching(watch, pending.is_complete, max_wait_ms)
        finally:
            self._purgatory.close_reader(watch)

    async def _handle_follower(self, request: FetchRequest, max_bytes: int) -> FetchResponse:
        """Do the same, but skip partitions without news since the last fetch."""
        session = self._take_session(request)
        is_kept = False
        try:
            parts = session.begin(request, self._part, self._runtime.now_ms())
            self._record_progress(request, list(session.open_parts))
            pending = FollowerFetch(request, parts, session.open_parts, max_bytes, self.sent)
            max_wait_ms = min(request.max_wait_ms, self._limits.max_wait_ms)
            await self._wait(session, pending, max_wait_ms)
            response = pending.read()
            # A peer that may not fetch here gets no session.
            is_kept = any(part.error is ErrorCode.NONE for part in parts)
        finally:
            if is_kept:
                self._keep_session(request.replica_id, session)
            else:
                session.close()
        return response

    def _take_session(self, request: FetchRequest) -> FollowerSession:
        """Return the session that goes on with this request.

        During this fetch another one of the same fetcher would begin a session of its own.
        """
        kept = self._sessions.get(request.replica_id, [])
        first = next(iter(request.partitions), None)
        for session in kept:
            if first is not None and session.has(first):
                kept.remove(session)
                if session.replica_epoch == request.replica_epoch:
                    return session
                session.close()  # from another registration
                break
        return FollowerSession(request.replica_epoch, self._purgatory)

    def _keep_session(self, replica_id: NodeId, session: FollowerSession) -> None:
        """Keep the session for the fetcher's next request, in place of outdated ones."""
        kept = self._sessions.get(replica_id, [])
        outlived = [other for other in kept if session.shares_with(other)]
        for other in outlived:
            other.close()
        self._sessions[replica_id] = [*(each for each in kept if each not in outlived), session]

    async def _wait(
        self, session: FollowerSession, pending: FollowerFetch, max_wait_ms: int
    ) -> None:
        """Wait for records or news.

        An answer with only a new high watermark is delayed for a moment: under load the next
        records bring it, which halves the fetches of a small write.
        """
        deadline_ms = self._runtime.now_ms() + max_wait_ms
        await self._purgatory.wait_watching(session.watch, pending.is_complete, max_wait_ms)
        if pending.has_newer_high_watermark():
            remaining_ms = deadline_ms - self._runtime.now_ms()
            await self._purgatory.wait_watching(
                session.watch,
                pending.is_complete_without_high_watermark,
                min(self._limits.high_watermark_linger_ms, remaining_ms),
            )

    def _refusal(self, request: FetchRequest, listener: str) -> ErrorCode | None:
        is_follower = request.replica_id > CONSUMER
        serving = (Listener.REPLICATION,) if is_follower else CLIENT_LISTENERS
        if request.replica_id < CONSUMER or listener not in serving:
            error = ErrorCode.INVALID_REQUEST
        elif request.max_bytes < 0 or any(item.max_bytes < 0 for item in request.partitions):
            error = ErrorCode.INVALID_FETCH_SIZE
        else:
            return None
        self._trace.emit(
            EventKind.REQUEST_REFUSED,
            request="Fetch",
            error=error.name,
            listener=listener,
            replica_id=request.replica_id,
        )
        return error

    def _part(self, item: FetchPartition) -> Part:
        topic: str | None = item.topic
        if item.topic_id != NO_TOPIC_ID:
            topic = self._lookup.topic_of(item.topic_id)
        if topic is None:
            return Part(item, None, ErrorCode.UNKNOWN_TOPIC_ID)
        topic_partition = TopicPartition(topic, item.partition)
        partition = self._lookup.get(topic_partition)
        if partition is None:
            return Part(item, None, self._lookup.error_when_absent(topic_partition))
        if item.topic_id not in (NO_TOPIC_ID, partition.topic_id):
            # The replica here is still of the topic's earlier incarnation (KIP-516).
            return Part(item, partition, ErrorCode.INCONSISTENT_TOPIC_ID)
        error = partition.check_leadership(item.current_leader_epoch)
        if error is ErrorCode.NONE and not (
            partition.log_start_offset <= item.fetch_offset <= partition.log_end_offset
        ):
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        return Part(item, partition, error)

    def _record_progress(self, request: FetchRequest, parts: list[Part]) -> None:
        """Record the follower's position, if its epoch and its offset are right (I16)."""
        now_ms = self._runtime.now_ms()
        for part in parts:
            if part.partition is not None and part.error is ErrorCode.NONE:
                part.error = part.partition.record_follower_fetch(
                    request.replica_id, request.replica_epoch, part.item.fetch_offset, now_ms
                )


def _without_repeats(request: FetchRequest) -> FetchRequest:
    """Return the request with each partition once; its last entry counts (as in Kafka)."""
    items = {(item.topic_id, item.topic, item.partition): item for item in request.partitions}
    if len(items) == len(request.partitions):
        return request
    return replace(request, partitions=tuple(items.values()))


def _refuse_all(request: FetchRequest, error: ErrorCode) -> FetchResponse:
    """Set the error in both places: versions below 7 have none for the whole request."""
    results = tuple(
        FetchPartitionResult(item.topic, item.partition, error, topic_id=item.topic_id)
        for item in request.partitions
    )
    return FetchResponse(results, error)
