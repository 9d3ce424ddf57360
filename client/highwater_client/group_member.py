"""A member of a consumer group: joins, is assigned partitions, sends heartbeats, commits, leaves.

It assigns by ranges, and gives up all partitions before it joins again (the eager protocol). It
reads no records: `on_assigned` gets the partitions and offsets, and `on_revoked` ends them.
Source: KIP-62, KIP-394; Kafka's ConsumerCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from highwater_checker.history import COMMIT, FETCH_COMMITTED
from highwater_client.assignment import (
    CONSUMER,
    RANGE,
    BadAssignment,
    assign_ranges,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from highwater_client.metadata import METADATA_TIMEOUT_MS, Brokers
from highwater_client.offset_history import OffsetHistory
from highwater_client.outcomes import judge_answer, judge_failure
from highwater_client.recorder import HistoryRecorder
from highwater_client.settings import backoff_after
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, Offset, TopicPartition
from highwater_core.ports import CallFailed, Transport
from highwater_core.runtime import Runtime
from highwater_wire.kafka.committed_messages import (
    GroupToFetch,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetToCommit,
)
from highwater_wire.kafka.group_messages import (
    NO_GENERATION,
    NO_MEMBER_ID,
    GroupProtocol,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
)
from highwater_wire.kafka.messages import FindCoordinatorRequest, MetadataRequest

METADATA_MAX_AGE_MS = 5_000
"""After so long the leader of a group asks again how many partitions there are (Kafka's
metadata.max.age.ms)."""
_COORDINATOR_IS_ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of a member.

    heartbeat_ms: the interval of heartbeats.
    group_instance_id: of a static member; None for a dynamic one.
    """

    group_id: str
    topics: tuple[str, ...]
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 30_000
    heartbeat_ms: int = 1_000
    request_timeout_ms: int = 5_000
    retry_backoff_ms: int = 100
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """The member's assignment. positions: the committed offsets, -1 where there is none."""

    generation: int
    member_id: str
    positions: Mapping[TopicPartition, Offset]


class GroupMember:
    """One member. Its generation is -1 while it has no assignment."""

    def __init__(
        self,
        runtime: Runtime,
        transport: Transport,
        bootstrap: Sequence[Endpoint],
        settings: GroupSettings,
        *,
        client_id: str = "member",
        history: OffsetHistory | None = None,
        on_assigned: Callable[[Assigned], None] = lambda _: None,
        on_revoked: Callable[[int], None] = lambda _: None,
    ) -> None:
        """history: gets the member's assignments, and its commits and fetches of offsets.

        on_revoked: called with the generation that is over: reading must stop at once.
        """
        self._runtime = runtime
        self._transport = transport
        self._brokers = Brokers(transport, bootstrap)
        self._settings = settings
        self._client_id = client_id
        self._history = history or OffsetHistory(
            HistoryRecorder(runtime.now_ns, client_id), settings.group_id
        )
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._coordinator: Endpoint | None = None
        self._stopping = runtime.event()
        self._leaves = True
        self._assigned_counts: dict[str, int] = {}
        """How many partitions of each topic this member, as the leader, last assigned."""
        self.member_id = NO_MEMBER_ID
        self.generation = NO_GENERATION
        self.last_error = ""
        """The last error: the coordinator's, or the call's."""

    # ------------------------------------------------------------ for the owner

    async def run(self) -> None:
        """Be a member until stop(), with any number of coordinators; then disconnect."""
        failures = 0
        while not self._stopping.is_set():
            try:
                was_assigned = await self._one_generation()
            except CallFailed as failed:
                self.last_error, was_assigned = str(failed), False
                self._coordinator = None
            self._revoke()
            failures = 0 if was_assigned else failures + 1
            if failures:
                rest_ms = backoff_after(failures, self._settings.retry_backoff_ms)
                await self._stopping.wait(rest_ms)
        if self._leaves:
            await self._leave()
        if self._coordinator is not None:
            self._transport.disconnect(self._coordinator, "group")

    def stop(self, *, leaves: bool = True) -> None:
        """End run(). leaves: with a LeaveGroup; else without a word, as after a crash."""
        self._leaves = leaves
        self._stopping.set()

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> ErrorCode | None:
        """Commit the offsets in this generation; return the first error.

        None: no answer came, so the offsets may be committed or not.
        """
        coordinator = self._coordinator
        if coordinator is None or self.generation == NO_GENERATION:
            return ErrorCode.ILLEGAL_GENERATION
        request = OffsetCommitRequest(
            self._settings.group_id,
            tuple(OffsetToCommit(*each, Offset(offset)) for each, offset in offsets.items()),
            self.generation,
            self.member_id,
            self._settings.group_instance_id,
        )
        begun = {at: self._history.begin(COMMIT, at, each) for at, each in offsets.items()}
        try:
            answer = await self._call(coordinator, request)
        except CallFailed as failed:
            for at, operation_id in begun.items():
                result = judge_failure(failed)
                self._history.end(operation_id, COMMIT, at, offsets[at], result)
            return None
        for (at, operation_id), told in zip(begun.items(), answer.partitions, strict=True):
            self._history.end(operation_id, COMMIT, at, offsets[at], judge_answer(told.error))
        return next((each.error for each in answer.partitions if each.error), ErrorCode.NONE)

    # ------------------------------------------------------------ one generation

    async def _one_generation(self) -> bool:
        """Join, and return once the generation is over for this member.

        False: it got no assignment, and must rest before it tries again.
        """
        coordinator = await self._find()
        if coordinator is None:
            return False
        joined: JoinGroupResponse = await self._call(
            coordinator, self._join_request(), self._settings.rebalance_timeout_ms
        )
        if joined.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return True
        if joined.error is not ErrorCode.NONE:
            self._note(joined.error)
            return False
        self.member_id = joined.member_id
        synced = await self._call(
            coordinator,
            await self._sync_request(joined),
            self._settings.rebalance_timeout_ms,
        )
        if synced.error is not ErrorCode.NONE:
            self._note(synced.error)
            return synced.error is ErrorCode.REBALANCE_IN_PROGRESS
        try:
            partitions = decode_assignment(synced.assignment)
        except BadAssignment as bad:
            self.last_error = str(bad)
            return False
        positions = await self._committed(coordinator, partitions)
        if positions is None:
            return False
        self.generation = joined.generation
        self._history.assigned(joined.generation, positions, self._settings.group_instance_id)
        self._on_assigned(Assigned(joined.generation, self.member_id, positions))
        await self._stay(coordinator)
        return True

    async def _stay(self, coordinator: Endpoint) -> None:
        """Send heartbeats until one is answered with an error, or there are more partitions."""
        settings = self._settings
        age_ms = 0
        while not await self._stopping.wait(settings.heartbeat_ms):
            request = HeartbeatRequest(
                settings.group_id, self.generation, self.member_id, settings.group_instance_id
            )
            answer = await self._call(coordinator, request)
            if answer.error is not ErrorCode.NONE:
                self._note(answer.error)
                return
            age_ms += settings.heartbeat_ms
            if age_ms >= METADATA_MAX_AGE_MS or 0 in self._assigned_counts.values():
                age_ms = 0
                if await self._are_more_known_now():
                    return

    async def _are_more_known_now(self) -> bool:
        """Return whether there are partitions that the last assignment lacked.

        They were created since, or the broker that gave the metadata then had just started.
        """
        before = self._assigned_counts
        counts = await self._count_partitions(tuple(before)) if before else None
        return any(count > before.get(topic, 0) for topic, count in (counts or {}).items())

    def _note(self, error: ErrorCode) -> None:
        """Forget the coordinator or the member id, where the error says that it is wrong."""
        self.last_error = error.name
        if error in _COORDINATOR_IS_ELSEWHERE:
            self._coordinator = None
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = NO_MEMBER_ID

    def _revoke(self) -> None:
        generation, self.generation = self.generation, NO_GENERATION
        if generation != NO_GENERATION:
            self._on_revoked(generation)

    # ------------------------------------------------------------ requests

    async def _find(self) -> Endpoint | None:
        if self._coordinator is None:
            request = FindCoordinatorRequest((self._settings.group_id,))
            timeout_ms = self._settings.request_timeout_ms
            answer = await self._brokers.ask_any("coordinator", request, timeout_ms)
            if answer is None:
                self.last_error = "no broker answered"
                return None
            (found,) = answer.coordinators
            if found.error is not ErrorCode.NONE:
                self.last_error = found.error.name
                return None
            self._coordinator = Endpoint(found.host, found.port)
        return self._coordinator

    def _join_request(self) -> JoinGroupRequest:
        settings = self._settings
        return JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            protocol_type=CONSUMER,
            protocols=(GroupProtocol(RANGE, encode_subscription(settings.topics)),),
            group_instance_id=settings.group_instance_id,
            client_id=self._client_id,
        )

    async def _sync_request(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        assignments: tuple[MemberAssignment, ...] = ()
        self._assigned_counts = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(joined)
        return SyncGroupRequest(
            self._settings.group_id,
            joined.generation,
            joined.member_id,
            assignments,
            self._settings.group_instance_id,
            CONSUMER,
            joined.protocol,
        )

    async def _assign(self, joined: JoinGroupResponse) -> tuple[MemberAssignment, ...]:
        """Return the leader's assignments; without topics that no broker knows yet.

        Raises:
            CallFailed: no broker answers the request for the topics' partitions.
        """
        subscriptions: dict[str, tuple[str, ...]] = {}
        for member in joined.members:
            try:
                subscriptions[member.member_id] = decode_subscription(member.metadata)
            except BadAssignment:
                subscriptions[member.member_id] = ()
        topics = tuple(sorted({topic for named in subscriptions.values() for topic in named}))
        counts = await self._count_partitions(topics)
        if counts is None:
            raise CallFailed("no broker tells how many partitions there are", sent=False)
        self._assigned_counts = {topic: counts.get(topic, 0) for topic in topics}
        shares = assign_ranges(subscriptions, counts)
        return tuple(
            MemberAssignment(member_id, encode_assignment(partitions))
            for member_id, partitions in shares.items()
        )

    async def _count_partitions(self, topics: Sequence[str]) -> dict[str, int] | None:
        """Return each topic's number of partitions, 0 if unknown; None where no broker answers."""
        answer = await self._brokers.ask_any(
            "metadata", MetadataRequest(tuple(topics)), METADATA_TIMEOUT_MS
        )
        if answer is None:
            return None
        self._brokers.learn(answer)
        return {topic.name: len(topic.partitions) for topic in answer.topics}

    async def _committed(
        self, coordinator: Endpoint, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Offset] | None:
        """Return each partition's committed offset, -1 without one; None after an error."""
        wanted = GroupToFetch(self._settings.group_id, tuple(partitions))
        begun = {at: self._history.begin(FETCH_COMMITTED, at) for at in partitions}
        request = OffsetFetchRequest((wanted,), require_stable=True)
        try:
            (group,) = (await self._call(coordinator, request)).groups
        except CallFailed as failed:
            for at, operation_id in begun.items():
                self._history.end(operation_id, FETCH_COMMITTED, at, -1, judge_failure(failed))
            raise
        told = {TopicPartition(each.topic, each.partition): each for each in group.partitions}
        errors = {at: group.error or told[at].error for at in partitions}
        for at, operation_id in begun.items():
            result, offset = judge_answer(errors[at]), -1 if errors[at] else told[at].offset
            self._history.end(operation_id, FETCH_COMMITTED, at, offset, result)
        failure = next((error for error in errors.values() if error), group.error)
        if failure:
            self._note(failure)
            return None
        return {at: told[at].offset for at in partitions}

    async def _leave(self) -> None:
        """Send one LeaveGroup; if it is lost, the coordinator's session timeout removes the member.

        A static member sends none: it is expected back.
        """
        coordinator, settings = self._coordinator, self._settings
        if coordinator is None or not self.member_id or settings.group_instance_id is not None:
            return
        leaving = LeaveGroupRequest(settings.group_id, (LeavingMember(self.member_id),))
        try:
            await self._call(coordinator, leaving)
        except CallFailed as failed:
            self.last_error = str(failed)

    async def _call(self, coordinator: Endpoint, request: Any, may_wait_ms: int = 0) -> Any:
        timeout_ms = may_wait_ms + self._settings.request_timeout_ms
        return await self._transport.call(coordinator, "group", request, timeout_ms)
