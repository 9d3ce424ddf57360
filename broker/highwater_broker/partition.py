"""One partition's replica on this broker: its log, its role, its high watermark.

It decides through logic/ and touches its log, the trace and the purgatory; it awaits nothing, so
each method is atomic. Which partitions exist, and who may command them, is replica_manager's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from highwater_broker.log.log import Log
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.logic.high_watermark import (
    follower_high_watermark,
    is_frozen,
    next_high_watermark,
)
from highwater_broker.logic.isr import (
    FollowerProgress,
    after_fetch,
    is_caught_up,
    is_eligible,
    lagging_members,
    may_join,
)
from highwater_broker.roles import (
    ROLE_NAMES,
    Following,
    IsrProposal,
    Leading,
    Offline,
    Role,
    Stopped,
)
from highwater_core.check import check
from highwater_core.config import Toggles
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_CONTROLLER_EPOCH,
    NO_EPOCH,
    NO_LEADER,
    NO_OFFSET,
    NO_PARTITION_EPOCH,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    FollowerView,
    IsrMember,
    LeaderAndIsrPartition,
    ReplicaSnapshot,
)
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import Records

class Partition:
    """A replica: a log and the role that the controller gave it.

    Invariant: log_start_offset <= high_watermark <= log_end_offset. Within one leadership the
    high watermark only rises; across roles it may fall.
    """

    def __init__(
        self,
        context: PartitionContext,
        topic_partition: TopicPartition,
        log: Log,
        *,
        high_watermark: Offset,
        min_insync_replicas: int,
        topic_id: TopicId,
    ) -> None:
        self._context = context
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.min_insync_replicas = min_insync_replicas
        self.role: Role = Offline()
        self.leader_epoch: LeaderEpoch = NO_EPOCH
        self.controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
        self.partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
        self.assigned_replicas: tuple[NodeId, ...] = ()
        self.recovery_point_fell = False
        """A truncation lowered the log's recovery point; it must be checkpointed before the next
        append, or a power loss could leave unchecked bytes below the checkpointed one."""
        self._high_watermark = Offset(
            max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        )

    # ------------------------------------------------------------ what it is

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leading)

    @property
    def leader(self) -> NodeId:
        match self.role:
            case Leading():
                return self._context.broker_id
            case Following(leader):
                return leader
            case _:
                return NO_LEADER

    @property
    def isr(self) -> tuple[NodeId, ...]:
        """The ISR as last known to be written; empty unless this broker leads."""
        return self.role.isr if isinstance(self.role, Leading) else ()

    @property
    def high_watermark(self) -> Offset:
        return self._high_watermark

    @property
    def log_start_offset(self) -> Offset:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        return self.log.log_end_offset

    def snapshot(self) -> ReplicaSnapshot:
        followers: tuple[FollowerView, ...] = ()
        if isinstance(self.role, Leading):
            followers = tuple(
                FollowerView(broker, progress.log_end_offset, progress.last_caught_up_ms)
                for broker, progress in self.role.followers.items()
            )
        return ReplicaSnapshot(
            topic_partition=self.topic_partition,
            role=ROLE_NAMES[type(self.role)],
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            controller_epoch=self.controller_epoch,
            partition_epoch=self.partition_epoch,
            high_watermark=self.high_watermark,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            isr=self.isr,
            assigned_replicas=self.assigned_replicas,
            followers=followers,
            epoch_cache=self.log.epoch_cache.entries,
            topic_id=self.topic_id,
        )

    # ------------------------------------------------------------ role changes

    def take_role(
        self, role: Role, command: LeaderAndIsrPartition, told_by: ControllerEpoch
    ) -> None:
        """Take the role of a command that was found newer than what is known here."""
        self.role = role
        self.leader_epoch = command.leader_epoch
        self.partition_epoch = command.partition_epoch
        self.controller_epoch = told_by
        self.assigned_replicas = command.assigned_replicas

    def stop(self, epoch: LeaderEpoch) -> None:
        """Give up the role; epoch is the command's, or the known one when it carried none."""
        self.role = Stopped()
        self.leader_epoch = epoch
        self.changed()

    def changed(self) -> None:
        """Let requests that wait for this partition look again."""
        self._context.wake(self.topic_partition)

    def check_leadership(self, current_leader_epoch: LeaderEpoch) -> ErrorCode:
        """Return NONE when this broker leads in the epoch that the caller knows.

        Source: KIP-320; a caller that sends no epoch is not fenced.
        """
        if not self._context.toggles.fence_fetch_by_leader_epoch:
            current_leader_epoch = NO_EPOCH
        if current_leader_epoch != NO_EPOCH and self.leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # ------------------------------------------------------------ leader: produce

    def append(self, records: bytes | memoryview, acks: int, now_ms: int) -> AppendOutcome:
        """Append a client's batches as leader; acks is 0, 1 or -1.

        now_ms is wall-clock time, for batches without a timestamp of their own.
        Source: I17: with acks=-1 the ISR has at least min.insync.replicas members.
        """
        role = self.role
        if not isinstance(role, Leading):
            return AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == -1 and len(role.isr) < self.min_insync_replicas:
            return AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            base_offset, end_offset, _ = self.log.append_as_leader(
                records, self.leader_epoch, now_ms
            )
        except LogRefused as refused:
            self._refuse("produce", refused.error, what=str(refused))
            return AppendOutcome(refused.error)
        self._trace(EventKind.LOG_APPENDED, base_offset, end_offset=end_offset)
        self._maybe_advance_high_watermark()
        self.changed()
        return AppendOutcome(ErrorCode.NONE, base_offset, end_offset, self.log_start_offset)

    def acks_all_status(self, end_offset: Offset, leader_epoch: LeaderEpoch) -> ErrorCode | None:
        """Return how an acks=all append up to end_offset stands; None while it waits.

        leader_epoch is the epoch in which it was appended. It counts through later epochs as long
        as this broker led throughout: its log was then never truncated.
        """
        role = self.role
        if not isinstance(role, Leading) or leader_epoch < role.first_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._high_watermark < end_offset:
            return None
        if len(role.isr) < self.min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # ------------------------------------------------------------ leader: reads

    def read(self, fetch_offset: Offset, max_bytes: int, for_follower: bool) -> ReadOutcome:
        """Return whole batches from fetch_offset: followers see all, consumers below the HW.

        A consumer between high watermark and log end gets nothing and no error: a new leader's
        high watermark may lag what it has already seen (V3 C; KAFKA-725).
        """
        error = ErrorCode.NONE
        records: Records = b""
        if not self.is_leader:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.log_start_offset <= fetch_offset <= self.log_end_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            visible_end = self.log_end_offset if for_follower else self._high_watermark
            if fetch_offset < visible_end:
                try:
                    records = self.log.read(fetch_offset, max_bytes, visible_end).records
                except LogRefused as refused:
                    error = refused.error
                    self._refuse("fetch", error, what=str(refused))
        return ReadOutcome(error, self._high_watermark, self.log_start_offset, records)

    def offset_for_leader_epoch(self, epoch: LeaderEpoch) -> tuple[ErrorCode, LeaderEpoch, Offset]:
        """Return the largest epoch here that is at most `epoch`, and where it ends.

        NO_EPOCH and NO_OFFSET when that is not known. Source: KIP-101, KIP-279.
        """
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_EPOCH, NO_OFFSET
        answer = self.log.epoch_cache.end_offset_for(epoch, self.log_end_offset)
        return ErrorCode.NONE, answer.leader_epoch, answer.end_offset

    def latest_offset_for_clients(self) -> tuple[ErrorCode, Offset]:
        """Return the high watermark, once it has reached the start of the leader's epoch.

        Until then it may be below what the previous leader answered (KIP-207); the API answers
        LEADER_NOT_AVAILABLE instead to versions that do not know OFFSET_NOT_AVAILABLE.
        """
        role = self.role
        if not isinstance(role, Leading):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_OFFSET
        if self._high_watermark < role.epoch_start_offset:
            return ErrorCode.OFFSET_NOT_AVAILABLE, NO_OFFSET
        return ErrorCode.NONE, self._high_watermark

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, Offset] | None:
        """Return time and offset of the first record at or after the timestamp, or None."""
        try:
            found = self.log.offset_for_timestamp(timestamp_ms)
        except LogRefused as refused:
            self._refuse("list offsets", refused.error, what=str(refused))
            return None
        return (found.timestamp, found.offset) if found else None

    # ------------------------------------------------------------ leader: followers

    def record_follower_fetch(
        self, replica_id: NodeId, replica_epoch: BrokerEpoch, fetch_offset: Offset, now_ms: int
    ) -> ErrorCode:
        """Take note that a follower has everything below fetch_offset.

        now_ms is monotonic. Refused: fetchers outside the assignment (KAFKA-1097) and an earlier
        incarnation's late fetch (KIP-903). May advance the high watermark and propose an ISR.
        """
        role = self.role
        if not isinstance(role, Leading):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        progress = role.followers.get(replica_id)
        if progress is None:
            self._refuse("fetch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, replica=replica_id)
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replica_epoch < progress.broker_epoch:
            self._refuse("fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER, replica=replica_id)
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not self.log_start_offset <= fetch_offset <= self.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        role.followers[replica_id] = after_fetch(
            progress, fetch_offset, self.log_end_offset, replica_epoch, now_ms
        )
        self._maybe_propose_expansion(role, replica_id, now_ms)
        if fetch_offset != progress.log_end_offset and self._maybe_advance_high_watermark():
            self.changed()
        return ErrorCode.NONE

    def _maybe_propose_expansion(self, role: Leading, replica_id: NodeId, now_ms: int) -> None:
        if role.proposal is not None or replica_id in role.isr:
            return
        progress = role.followers[replica_id]
        if now_ms < progress.barred_until_ms or not self._is_eligible(replica_id, progress):
            return
        if may_join(
            progress.log_end_offset,
            self._high_watermark,
            role.epoch_start_offset,
            self._context.toggles.isr_join,
        ):
            self._propose(role, (*role.isr, replica_id), f"{replica_id} caught up")

    def _is_eligible(self, replica_id: NodeId, progress: FollowerProgress) -> bool:
        return is_eligible(
            progress.broker_epoch,
            self._context.registered_epoch(replica_id),
            checks_broker_epoch=self._context.toggles.isr_join_checks_broker_epoch,
        )

    def maybe_shrink_isr(self, now_ms: int) -> bool:
        """Propose an ISR without the members that lag; return whether there are any."""
        role = self.role
        if not isinstance(role, Leading) or role.proposal is not None:
            return False
        lagging = lagging_members(
            self._context.broker_id,
            role.isr,
            role.followers,
            self.log_end_offset,
            self._context.replica_lag_time_max_ms,
            now_ms,
        )
        if not lagging:
            return False
        remaining = tuple(member for member in role.isr if member not in lagging)
        self._propose(role, remaining, f"lagging: {', '.join(map(str, lagging))}")
        return True

    # ------------------------------------------------------------ leader: ISR proposals

    def _propose(self, role: Leading, isr: tuple[NodeId, ...], reason: str) -> None:
        role.proposal = IsrProposal(
            members=tuple(self._member(role, broker) for broker in isr),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            reason=reason,
        )
        self._trace(EventKind.ISR_CHANGE_PROPOSED, None, isr=isr, reason=reason)
        self._context.propose_isr(self)

    def _member(self, role: Leading, broker_id: NodeId) -> IsrMember:
        progress = role.followers.get(broker_id, FollowerProgress())
        return IsrMember(broker_id, progress.broker_epoch)

    def proposal(self) -> IsrProposal | None:
        return self.role.proposal if isinstance(self.role, Leading) else None

    def adopt_isr(
        self, proposal: IsrProposal, isr: tuple[NodeId, ...], partition_epoch: PartitionEpoch
    ) -> bool:
        """Take over what is now written; False when the proposal is no longer ours."""
        role = self.role
        if not isinstance(role, Leading) or role.proposal is not proposal:
            return False
        if partition_epoch < self.partition_epoch:
            return False
        role.proposal = None
        role.isr = isr
        self.partition_epoch = partition_epoch
        self._trace(EventKind.ISR_CHANGED, None, isr=isr, partition_epoch=partition_epoch)
        # A smaller ISR may let the high watermark rise without any further fetch (KAFKA-13091).
        self._maybe_advance_high_watermark()
        self.changed()
        return True

    def withdraw_proposal(self, proposal: IsrProposal, *, ineligible: bool = False) -> None:
        """Fall back to the written ISR: the proposal was certainly not carried out."""
        role = self.role
        if not isinstance(role, Leading) or role.proposal is not proposal:
            return
        role.proposal = None
        if ineligible:
            until_ms = self._context.runtime.now_ms() + BAR_AFTER_INELIGIBLE_MS
            for broker in proposal.isr:
                if broker in role.followers and broker not in role.isr:
                    barred = replace(role.followers[broker], barred_until_ms=until_ms)
                    role.followers[broker] = barred
        self._maybe_advance_high_watermark()
        self.changed()

    # ------------------------------------------------------------ leader: high watermark

    def _maybe_advance_high_watermark(self) -> bool:
        role = self.role
        if not isinstance(role, Leading):
            return False
        advanced = next_high_watermark(
            self._high_watermark,
            self.log_end_offset,
            (
                progress.log_end_offset
                for broker, progress in role.followers.items()
                if self._must_have(role, broker, progress)
            ),
            frozen=is_frozen(
                len(role.isr),
                self.min_insync_replicas,
                waits_for_min_isr=self._context.toggles.high_watermark_waits_for_min_isr,
            ),
        )
        if advanced == self._high_watermark:
            return False
        self._high_watermark = advanced
        self._trace(
            EventKind.HIGH_WATERMARK_ADVANCED,
            advanced,
            isr=role.isr,
            log_end_offset=self.log_end_offset,
        )
        return True

    def maybe_advance_high_watermark(self) -> bool:
        """Look again after a change from outside (a new role, a new min.insync.replicas)."""
        return self._maybe_advance_high_watermark()

    def _must_have(self, role: Leading, broker: NodeId, progress: FollowerProgress) -> bool:
        """Return whether a record must be on this follower before it is committed."""
        if broker in role.isr or (role.proposal is not None and broker in role.proposal.isr):
            return True
        # One that is about to join: else under load it would never be seen at the high watermark.
        now_ms = self._context.runtime.now_ms()
        return (
            now_ms >= progress.barred_until_ms
            and is_caught_up(progress, self._context.replica_lag_time_max_ms, now_ms)
            and self._is_eligible(broker, progress)
        )

    # ------------------------------------------------------------ follower

    def append_as_follower(
        self,
        records: memoryview | bytes,
        leader_high_watermark: Offset,
        leader_start: Offset,
        now_ms: int,
    ) -> ErrorCode:
        """Append what the leader sent and take over its high watermark and log start.

        now_ms is wall-clock time.
        """
        check(isinstance(self.role, Following), "only a follower appends a leader's batches")
        try:
            if len(records) > 0:
                self.log.append_as_follower(records, now_ms)
            held = follower_high_watermark(leader_high_watermark, self.log_end_offset)
            self._high_watermark = Offset(max(self.log_start_offset, held))
            if leader_start > self.log_start_offset:
                self._move_log_start(min(leader_start, self._high_watermark))
        except LogRefused as refused:
            self._refuse("append", refused.error, what=str(refused))
            return refused.error
        return ErrorCode.NONE

    def truncate_to(self, offset: Offset, reason: str) -> None:
        """Cut the log to [log_start_offset, offset), and epochs that begin beyond its end.

        Raises:
            LogRefused: the disk refused.
        """
        before = self.log_end_offset, self._high_watermark, self.log.recovery_point
        if self.log.truncate_to(offset):
            self._after_truncation(*before, reason)

    def truncate_fully(self, start_offset: Offset, reason: str) -> None:
        """Drop the whole log and start over at start_offset.

        Raises:
            LogRefused: the disk refused.
        """
        before = self.log_end_offset, self._high_watermark, self.log.recovery_point
        self.log.truncate_fully_and_start_at(start_offset)
        self._after_truncation(*before, reason)

    def _after_truncation(
        self, from_offset: Offset, high_watermark: Offset, recovery_point: Offset, reason: str
    ) -> None:
        self._high_watermark = Offset(
            max(self.log_start_offset, min(self._high_watermark, self.log_end_offset))
        )
        self.recovery_point_fell |= self.log.recovery_point < recovery_point
        self._trace(
            EventKind.LOG_TRUNCATED,
            self.log_end_offset,
            from_offset=from_offset,
            high_watermark=high_watermark,
            reason=reason,
        )
        self.changed()

    # ------------------------------------------------------------ retention

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove what retention no longer keeps; return how many segments. now_ms is wall clock.

        Raises:
            LogRefused: the disk refused.
        """
        count = self.log.delete_old_segments(now_ms, self._high_watermark)
        if count:
            self._trace(EventKind.LOG_START_MOVED, self.log_start_offset)
            self.changed()
        return count

    def _move_log_start(self, offset: Offset) -> None:
        if self.log.advance_log_start(offset):
            self._trace(EventKind.LOG_START_MOVED, self.log_start_offset)
            self.changed()

    # ------------------------------------------------------------ traces

    def _trace(self, kind: EventKind, offset: Offset | None, **detail: object) -> None:
        self._context.trace.emit(
            kind,
            topic=self.topic_partition.topic,
            partition=self.topic_partition.partition,
            leader_epoch=self.leader_epoch,
            controller_epoch=self.controller_epoch,
            offset=offset,
            **detail,
        )

    def trace(self, kind: EventKind, **detail: object) -> None:
        """Trace something that was done to this partition, at its log end."""
        self._trace(kind, self.log_end_offset, **detail)

    def _refuse(self, request: str, error: ErrorCode, **detail: object) -> None:
        self._trace(EventKind.REQUEST_REFUSED, None, request=request, error=error.name, **detail)
