"""A replica of a partition on this broker, in any role: log, high watermark, epochs.

It awaits nothing, so each method is atomic. partition.py has the leader's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from highwater_broker.log.log import Log
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.logic.high_watermark import follower_high_watermark
from highwater_broker.logic.log_divergence import must_start_over
from highwater_broker.partition_context import PartitionContext
from highwater_broker.replication_quotas import Throttling
from highwater_broker.roles import (
    Following,
    Leading,
    Offline,
    Role,
    Stopped,
    name_of,
)
from highwater_core.check import check
from highwater_core.errors import ErrorCode
from highwater_core.events import BY_RETENTION, EventKind
from highwater_core.ids import (
    NO_CONTROLLER_EPOCH,
    NO_EPOCH,
    NO_LEADER,
    NO_PARTITION_EPOCH,
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
    LeaderAndIsrPartition,
    ReplicaSnapshot,
)


class Replica:
    """A log, its high watermark, and the role that the controller gave it.

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
        self.throttling = Throttling()
        self.role: Role = Offline()
        self.leader_epoch: LeaderEpoch = NO_EPOCH
        self.controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
        self.partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
        self.assigned_replicas: tuple[NodeId, ...] = ()
        self.checkpoints_due = 0
        """The number of calls of `need_checkpoint`."""
        self._checkpoints_done = 0
        self._agrees = False
        """Whether the leader's answers show that the logs agree; see must_start_over. Not known
        when the role begins, nor after a truncation."""
        self._high_watermark = Offset(
            max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        )

    # ------------------------------------------------------------ state

    @property
    def broker_id(self) -> NodeId:
        return self._context.broker_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leading)

    @property
    def serves_clients(self) -> bool:
        """Whether this broker leads, and has taken over."""
        return isinstance(self.role, Leading) and self.role.is_open

    @property
    def leaders_begin_open(self) -> bool:
        return self._context.leaders_begin_open

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
            role=name_of(self.role),
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
        """Take the role of a command that is newer than the known state."""
        self.role = role
        self._agrees = False
        self.leader_epoch = command.leader_epoch
        self.partition_epoch = command.partition_epoch
        self.controller_epoch = told_by
        self.assigned_replicas = command.assigned_replicas

    def stop(self, epoch: LeaderEpoch) -> None:
        """Give up the role; epoch is the command's, or the known one when it carried none."""
        self.role = Stopped()
        self.leader_epoch = epoch
        self.role_changed()

    def role_changed(self) -> None:
        """Report the change to the leader's other parts, then let waiting requests check again."""
        self._context.role_changed(self.topic_partition)
        self.changed()

    def changed(self) -> None:
        """Let requests that wait for this partition check again."""
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

    # ------------------------------------------------------------ follower

    def append_as_follower(
        self,
        records: memoryview | bytes,
        leader_high_watermark: Offset,
        leader_start: Offset,
        now_ms: int,
    ) -> ErrorCode:
        """Append the leader's records and adopt its high watermark and log start.

        Where fetches are fenced, a batch above this replica's leader epoch did not exist when the
        leader got the request: the leader was deposed since, and its answer is of another log. That
        batch and all after it are refused (KAFKA-18723). now_ms is wall-clock time.

        A log that must start over is emptied, also on the disk, before the next append: the
        leader's records are then fetched again. Later answers of this leader need no such look.
        """
        check(isinstance(self.role, Following), "only a follower appends a leader's batches")
        is_fenced = self._context.toggles.fence_fetch_by_leader_epoch
        highest_epoch = self.leader_epoch if is_fenced else None
        try:
            start, end = self.log_start_offset, self.log_end_offset
            if must_start_over(start, end, leader_start, agrees=self._agrees):
                self._start_over_at_end()
                return ErrorCode.NONE
            self._agrees = True
            if len(records) > 0:
                self._count_fetched(len(records))
                appended = self.log.append_as_follower(records, now_ms, highest_epoch)
                if appended.size_bytes < len(records):
                    self._refuse(
                        "append", ErrorCode.FENCED_LEADER_EPOCH, what="batches of a newer epoch"
                    )
                    return ErrorCode.FENCED_LEADER_EPOCH
            held = follower_high_watermark(leader_high_watermark, self.log_end_offset)
            self._high_watermark = Offset(max(self.log_start_offset, held))
            if leader_start > self.log_start_offset:
                with self._moving_log_start("as the leader's"):
                    self.log.advance_log_start(min(leader_start, self._high_watermark))
        except LogRefused as refused:
            self._refuse("append", refused.error, what=str(refused))
            return refused.error
        return ErrorCode.NONE

    def _count_fetched(self, size_bytes: int) -> None:
        if self.throttling.as_follower:
            self._context.quotas.follower.record(size_bytes)

    @property
    def is_held_back(self) -> bool:
        """Whether this follower fetches no records now, unless it is in sync (KIP-73)."""
        return self.throttling.as_follower and self._context.quotas.follower.is_exceeded()

    def truncate_to(self, offset: Offset, reason: str) -> None:
        """Truncate the log to [log_start_offset, offset), and its epochs with it.

        Raises:
            LogRefused: the disk refused.
        """
        self._truncate(lambda: self.log.truncate_to(offset), reason)

    def truncate_fully(self, start_offset: Offset, reason: str) -> None:
        """Drop the whole log and start over at start_offset, beyond its end.

        Raises:
            LogRefused: the disk refused.
        """
        self.need_checkpoint()
        self._truncate(lambda: self.log.start_over_at(start_offset), reason)

    def _truncate(self, truncate: Callable[[], object], reason: str) -> None:
        self._agrees = False
        start_offset = self.log_start_offset
        before = self.log_end_offset, self._high_watermark, self.log.recovery_point
        try:
            truncate()
        except LogRefused:
            self._context.disk_refused(self.topic_partition)
            raise
        finally:  # a refused truncation may have removed a part
            if (self.log_start_offset, self.log_end_offset) != (start_offset, before[0]):
                self._after_truncation(*before, reason)

    def _after_truncation(
        self, from_offset: Offset, high_watermark: Offset, recovery_point: Offset, reason: str
    ) -> None:
        self._high_watermark = Offset(
            max(self.log_start_offset, min(self._high_watermark, self.log_end_offset))
        )
        if self.log.recovery_point < recovery_point:
            self.need_checkpoint()
        self._trace(
            EventKind.LOG_TRUNCATED,
            self.log_end_offset,
            from_offset=from_offset,
            high_watermark=high_watermark,
            reason=reason,
        )
        self.changed()

    @property
    def must_checkpoint(self) -> bool:
        """Whether recovery points and log starts must be written before the next append."""
        return self._checkpoints_done < self.checkpoints_due

    def need_checkpoint(self) -> None:
        """Require a write of recovery point and log start before the next append.

        After a truncation that lowered the recovery point a power loss could leave unchecked bytes
        below the written one. After the log started over a kill could bring its removed records
        back.
        """
        self.checkpoints_due += 1

    def checkpointed(self, due: int) -> None:
        """Note that both are on the disk, at least as new as when so many were due."""
        self._checkpoints_done = max(self._checkpoints_done, due)

    # ------------------------------------------------------------ retention

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove old segments by retention; return their number. now_ms is wall clock.

        Raises:
            LogRefused: the disk refused a new segment; the last one stays.
        """
        with self._moving_log_start(BY_RETENTION):
            return self.log.delete_old_segments(now_ms, self._high_watermark)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget idempotent producers that have been idle for so long. now_ms is wall clock."""
        self.log.producers.expire(now_ms, expiration_ms)

    def _start_over_at_end(self) -> None:
        self.need_checkpoint()
        self.log.start_over_at(self.log_end_offset)
        self._high_watermark = self.log_end_offset
        self._trace(EventKind.LOG_START_MOVED, self.log_start_offset, reason="begun anew")
        self.changed()

    @contextmanager
    def _moving_log_start(self, reason: str) -> Iterator[None]:
        """Trace the move of the log start, if it moves."""
        start_offset = self.log_start_offset
        try:
            yield
        finally:  # it may have moved although the disk refused
            if self.log_start_offset > start_offset:
                self._trace(EventKind.LOG_START_MOVED, self.log_start_offset, reason=reason)
                self.changed()

    # ------------------------------------------------------------ traces

    def _trace(self, kind: EventKind, offset: Offset | None, **detail: object) -> None:
        self._context.trace.emit(
            kind,
            topic=self.topic_partition.topic,
            topic_id=self.topic_id,
            partition=self.topic_partition.partition,
            leader_epoch=self.leader_epoch,
            controller_epoch=self.controller_epoch,
            offset=offset,
            **detail,
        )

    def trace(self, kind: EventKind, **detail: object) -> None:
        """Trace an event of this partition, with its log end."""
        self._trace(kind, self.log_end_offset, **detail)

    def _refuse(self, request: str, error: ErrorCode, **detail: object) -> None:
        self._trace(EventKind.REQUEST_REFUSED, None, request=request, error=error.name, **detail)
        if error is ErrorCode.KAFKA_STORAGE_ERROR:
            self._context.disk_refused(self.topic_partition)
