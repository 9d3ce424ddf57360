"""A partition on this broker: the leader's side, on top of Replica.

It decides through logic/ and uses its log, the trace and the purgatory; it awaits nothing, so each
method is atomic. replica_manager knows which partitions exist, and fences commands.
"""

from __future__ import annotations

from dataclasses import replace

from highwater_broker.log.record_batch import KeyLook, LogRefused
from highwater_broker.log.time_lookup import Steps
from highwater_broker.logic.high_watermark import (
    is_frozen,
    needed_in_sync,
    next_high_watermark,
)
from highwater_broker.logic.isr import (
    NEVER_MS,
    FollowerProgress,
    after_fetch,
    is_caught_up,
    is_eligible,
    lagging_members,
    may_join,
    progress_of,
)
from highwater_broker.partition_context import AppendOutcome, ReadOutcome
from highwater_broker.replica import Replica
from highwater_broker.roles import CommittedIsr, IsrProposal, Leading
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_EPOCH,
    NO_OFFSET,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
)
from highwater_core.messages import IsrMember
from highwater_wire.kafka.messages import ACKS_ALL, Records

BAR_AFTER_INELIGIBLE_MS = 1_000
"""How long a follower that the controller called ineligible is not proposed again."""


class Partition(Replica):
    """A replica with the leader's work: appends, reads, followers, the ISR.

    Invariant: without the leader's role, every method here answers NOT_LEADER_OR_FOLLOWER or
    does nothing.
    """

    # ------------------------------------------------------------ leader: produce

    def append(
        self, records: bytes | memoryview, acks: int, now_ms: int, look: KeyLook | None = None
    ) -> AppendOutcome:
        """Append a client's batch as leader, unless it is there already; acks is 0, 1 or -1.

        now_ms is wall-clock time. look: see take_produced.
        Source: I17: with acks=-1 the ISR has at least min.insync.replicas members.
        """
        role = self.role
        if not isinstance(role, Leading) or not role.is_open:
            return AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and len(role.isr) < self._needed_in_sync(role):
            return AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS)
        if self.must_checkpoint:
            error = ErrorCode.KAFKA_STORAGE_ERROR
            self._refuse("produce", error, what="its recovery point is not yet written")
            return AppendOutcome(error)
        try:
            result = self.log.append_as_leader(records, self.leader_epoch, now_ms, look)
        except LogRefused as refused:
            self._refuse("produce", refused.error, what=str(refused))
            return AppendOutcome(refused.error)
        base_offset, end_offset, size_bytes = result
        is_repeated = size_bytes == 0
        kind = EventKind.PRODUCE_REPEATED if is_repeated else EventKind.LOG_APPENDED
        self._trace(kind, base_offset, end_offset=end_offset)
        if not is_repeated:
            self.maybe_advance_high_watermark()
            self.changed()
        return AppendOutcome(ErrorCode.NONE, base_offset, end_offset, self.log_start_offset)

    def acks_all_status(self, end_offset: Offset, leader_epoch: LeaderEpoch) -> ErrorCode | None:
        """Return the result of an acks=all append up to end_offset; None while it waits.

        leader_epoch is the epoch in which it was appended. It counts through later epochs as long
        as this broker led throughout: its log was then never truncated.
        """
        role = self.role
        if not isinstance(role, Leading) or leader_epoch < role.first_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._high_watermark < end_offset or not role.is_open:
            return None
        if len(role.isr) < self._needed_in_sync(role):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    @property
    def spare_in_sync(self) -> int | None:
        """How many members the ISR has beyond min.insync.replicas; None where it does not lead."""
        role = self.role
        if not isinstance(role, Leading):
            return None
        return len(role.isr) - self._needed_in_sync(role)

    def _needed_in_sync(self, role: Leading) -> int:
        return needed_in_sync(self.min_insync_replicas, 1 + len(role.followers))

    # ------------------------------------------------------------ leader: reads

    def read(self, fetch_offset: Offset, max_bytes: int, for_follower: bool) -> ReadOutcome:
        """Return whole batches from fetch_offset: followers see all, consumers below the HW.

        A consumer between high watermark and log end gets no records and no error: a new leader's
        high watermark may be below records that it has read already (V3 design, section C;
        KAFKA-725).
        It is sent no batch without records before one with records: librdkafka takes an answer
        without any record for one that was cut short.
        """
        error = ErrorCode.NONE
        records: Records = b""
        if not (self.is_leader if for_follower else self.serves_clients):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.log_start_offset <= fetch_offset <= self.log_end_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            visible_end = self.log_end_offset if for_follower else self._high_watermark
            if fetch_offset < visible_end:
                try:
                    if not for_follower:
                        fetch_offset = self.log.next_with_records(fetch_offset, visible_end)
                    records = self.log.read(fetch_offset, max_bytes, visible_end).records
                except LogRefused as refused:
                    error = refused.error
                    self._refuse("fetch", error, what=str(refused))
        return ReadOutcome(error, self._high_watermark, self.log_start_offset, records)

    def offset_for_leader_epoch(self, epoch: LeaderEpoch) -> tuple[ErrorCode, LeaderEpoch, Offset]:
        """Return the largest epoch here that is at most `epoch`, and its end.

        NO_EPOCH and NO_OFFSET when it is unknown. Source: KIP-101, KIP-279.
        """
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_EPOCH, NO_OFFSET
        answer = self.log.epoch_cache.end_offset_for(epoch, self.log_end_offset)
        return ErrorCode.NONE, answer.leader_epoch, answer.end_offset

    def latest_offset_for_clients(self) -> tuple[ErrorCode, Offset]:
        """Return the high watermark, once it has reached the start of the leader's epoch.

        Until then it may be below the previous leader's answers; without KIP-207 it is returned
        nevertheless. The API answers LEADER_NOT_AVAILABLE instead in versions without
        OFFSET_NOT_AVAILABLE.
        """
        role = self.role
        if not isinstance(role, Leading) or not role.is_open:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_OFFSET
        waits = self._context.toggles.latest_offset_waits_for_epoch_start
        if waits and self._high_watermark < role.epoch_start_offset:
            return ErrorCode.OFFSET_NOT_AVAILABLE, NO_OFFSET
        return ErrorCode.NONE, self._high_watermark

    def look_up_timestamp(
        self, timestamp_ms: int
    ) -> Steps[tuple[ErrorCode, tuple[int, Offset] | None]]:
        """Return time and offset of the first record at or after the timestamp, or None.

        Go on with the look-up only while the partition leads in the epoch in which it began.
        """
        if not self.serves_clients:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
        try:
            found = yield from self.log.look_up_timestamp(timestamp_ms)
        except LogRefused as refused:
            self._refuse("list offsets", refused.error, what=str(refused))
            return refused.error, None
        return ErrorCode.NONE, (found.timestamp, found.offset) if found else None

    # ------------------------------------------------------------ leader: followers

    def holds_back(self, replica_id: NodeId) -> bool:
        """Return whether the follower gets no records now: throttled ones are over their rate.

        Never true for a replica that must have a record before it is committed: clients would wait
        for it, and an ISR member would leave the ISR.
        Source: KIP-73. Deviation: Kafka makes no exception for one that is about to join the ISR.
        """
        role = self.role
        if not self.throttling.as_leader or not isinstance(role, Leading):
            return False
        progress = role.followers.get(replica_id, FollowerProgress())
        is_waited_for = self._must_have(role, replica_id, progress)
        return not is_waited_for and self._context.quotas.leader.is_exceeded()

    def count_sent(self, size_bytes: int) -> None:
        """Count records sent to a follower, for throttled replicas only."""
        if self.throttling.as_leader:
            self._context.quotas.leader.record(size_bytes)

    def record_follower_fetch(
        self, replica_id: NodeId, replica_epoch: BrokerEpoch, fetch_offset: Offset, now_ms: int
    ) -> ErrorCode:
        """Note that a follower has all records below fetch_offset.

        now_ms is monotonic. Refused: fetchers outside the assignment (KAFKA-1097) and an earlier
        incarnation's late fetch (KIP-903). May advance the high watermark and propose an ISR.
        """
        role = self.role
        if not isinstance(role, Leading):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        progress = progress_of(
            replica_id,
            role.followers,
            refuses_unassigned=self._context.toggles.refuse_unassigned_followers,
        )
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
        if fetch_offset != progress.log_end_offset and self.maybe_advance_high_watermark():
            self.changed()
        return ErrorCode.NONE

    def record_repeated_fetch(self, replica_id: NodeId, now_ms: int) -> bool:
        """Note the time of a fetch that repeats the follower's last, in an unchanged partition.

        Return False, and note nothing, unless an ISR member repeats a fetch at the log's end.
        """
        role = self.role
        if not isinstance(role, Leading) or replica_id not in role.isr:
            return False
        progress = role.followers.get(replica_id)
        if progress is None or progress.log_end_offset != self.log.log_end_offset:
            return False
        progress.last_caught_up_ms = progress.last_fetch_ms = now_ms
        return True

    def _maybe_propose_expansion(self, role: Leading, replica_id: NodeId, now_ms: int) -> None:
        if role.proposal is not None or replica_id in role.isr or not role.is_open:
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
        if not isinstance(role, Leading) or role.proposal is not None or not role.is_open:
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
            lagging = tuple(
                each for each in role.followers if each in role.isr and self._is_dropped(each)
            )
        if not lagging:
            return False
        remaining = tuple(member for member in role.isr if member not in lagging)
        self._propose(role, remaining, f"lagging: {', '.join(map(str, lagging))}")
        return True

    def _is_dropped(self, broker: NodeId) -> bool:
        """Return whether the leader itself drops the broker from the ISR: it is not registered."""
        drops = self._context.leaders_drop_the_dead
        return drops and self._context.registered_epoch(broker) is None

    # ------------------------------------------------------------ leader: taking over

    def begin_take_over(self) -> None:
        """Take the whole log as committed, before other replicas are known to have it.

        Source: the first design (V2), becomeLeader: r.hw = r.leo.
        """
        if self.is_leader and self._high_watermark < self.log_end_offset:
            self._high_watermark = self.log_end_offset
            self._trace(
                EventKind.HIGH_WATERMARK_ADVANCED,
                self._high_watermark,
                isr=(self.broker_id,),
                log_end_offset=self.log_end_offset,
                is_taken=True,
            )
            self.changed()

    def end_take_over(self, role: Leading, isr: tuple[NodeId, ...]) -> None:
        """Propose the ISR with which the leader opens, unless one is proposed.

        It opens once that is written.
        """
        if self.role is role and not role.is_open and role.proposal is None:
            for broker in [each for each in role.followers if each not in isr]:
                # It has fetched nothing in time: no record waits for it from here on.
                role.followers[broker] = replace(role.followers[broker], last_caught_up_ms=NEVER_MS)
            self._propose(role, isr, "took over")

    def take_assigned(self, replicas: tuple[NodeId, ...]) -> None:
        """Know these as the assigned replicas, in the same role and epoch.

        A leader takes added ones for followers at once.
        """
        self.assigned_replicas = replicas
        role = self.role
        if isinstance(role, Leading):
            role.take_followers([broker for broker in replicas if broker != self.broker_id])
            if self.maybe_advance_high_watermark():
                self.changed()

    def adopt_written_isr(self, isr: tuple[NodeId, ...], partition_epoch: PartitionEpoch) -> bool:
        """Adopt the ISR that the state has in this epoch; return whether it is news.

        A proposal that is pending was made on an earlier version of the state: it is the written
        one, or it will never be written.
        """
        role = self.role
        if not isinstance(role, Leading) or partition_epoch <= self.partition_epoch:
            return False
        self._take_written_isr(role, CommittedIsr(isr), partition_epoch)
        return True

    # ------------------------------------------------------------ leader: ISR proposals

    def take_min_insync_replicas(self, min_insync_replicas: int) -> None:
        """Commit with so many in sync from now on, at once where the new number allows it."""
        self.min_insync_replicas = min_insync_replicas
        self.maybe_propose_thaw()
        if self.maybe_advance_high_watermark():
            self.changed()

    def maybe_propose_thaw(self) -> None:
        """Propose the same ISR to the controller, since it is now large enough to commit.

        min.insync.replicas was lowered: in the next state no replica outside the ISR is eligible.
        """
        role = self.role
        if not isinstance(role, Leading) or role.proposal is not None or not role.elr:
            return
        if len(role.isr) >= self._needed_in_sync(role):
            self._propose(role, role.isr, "large enough by now")

    def _propose(self, role: Leading, isr: tuple[NodeId, ...], reason: str) -> None:
        role.propose(
            IsrProposal(
                members=tuple(self._member(role, broker) for broker in isr),
                leader_epoch=self.leader_epoch,
                partition_epoch=self.partition_epoch,
                reason=reason,
            )
        )
        self._trace(EventKind.ISR_CHANGE_PROPOSED, None, isr=isr, reason=reason)
        self._context.propose_isr(self)

    def _member(self, role: Leading, broker_id: NodeId) -> IsrMember:
        progress = role.followers.get(broker_id, FollowerProgress())
        return IsrMember(broker_id, progress.broker_epoch)

    def proposal(self) -> IsrProposal | None:
        return self.role.proposal if isinstance(self.role, Leading) else None

    def _leading_with(self, proposal: IsrProposal) -> Leading | None:
        """Return the leader's role if this proposal is still pending in it."""
        role = self.role
        return role if isinstance(role, Leading) and role.proposal is proposal else None

    def adopt_isr(
        self,
        proposal: IsrProposal,
        isr: tuple[NodeId, ...],
        partition_epoch: PartitionEpoch,
        elr: tuple[NodeId, ...],
    ) -> bool:
        """Adopt the written ISR; return False when the proposal is no longer pending."""
        role = self._leading_with(proposal)
        if role is None or partition_epoch < self.partition_epoch:
            return False
        self._take_written_isr(role, CommittedIsr(isr, elr), partition_epoch)
        return True

    def _take_written_isr(
        self, role: Leading, written: CommittedIsr, partition_epoch: PartitionEpoch
    ) -> None:
        isr = written.members
        self._context.isr_changes.count(role.isr, isr)
        role.settle(written)
        self.partition_epoch = partition_epoch
        self._trace(EventKind.ISR_CHANGED, None, isr=isr, partition_epoch=partition_epoch)
        if not role.is_open:
            role.is_open = True
            self._context.role_changed(self.topic_partition)
        # A smaller ISR may let the high watermark rise without any further fetch (KAFKA-13091).
        if self._context.toggles.raise_high_watermark_on_isr_answer:
            self.maybe_advance_high_watermark()
        self.changed()

    def withdraw_proposal(self, proposal: IsrProposal, *, ineligible: bool = False) -> None:
        """Return to the written ISR: the proposal was certainly not carried out."""
        role = self._leading_with(proposal)
        if role is None:
            return
        role.settle(role.committed)
        if ineligible:
            until_ms = self._context.runtime.now_ms() + BAR_AFTER_INELIGIBLE_MS
            for broker in proposal.isr:
                if broker in role.followers and broker not in role.isr:
                    barred = replace(role.followers[broker], barred_until_ms=until_ms)
                    role.followers[broker] = barred
        self.maybe_advance_high_watermark()
        self.changed()

    # ------------------------------------------------------------ leader: high watermark

    def maybe_raise_without_traffic(self) -> bool:
        """Raise the high watermark where time or the live brokers allow it, without any request.

        Return whether it rose. Before KAFKA-13091 nobody looked: the next record or fetch did it.
        """
        may_look = self._context.toggles.raise_high_watermark_on_isr_answer
        if not may_look or not self.maybe_advance_high_watermark():
            return False
        self.changed()
        return True

    def maybe_advance_high_watermark(self) -> bool:
        """Raise the high watermark as far as the replicas that must have a record have it."""
        role = self.role
        log_end_offset = self.log.log_end_offset
        if not isinstance(role, Leading) or self._high_watermark == log_end_offset:
            return False
        advanced = next_high_watermark(
            self._high_watermark,
            log_end_offset,
            [
                progress.log_end_offset
                for broker, progress in role.followers.items()
                if self._must_have(role, broker, progress)
            ],
            frozen=is_frozen(
                len(role.isr),
                self._needed_in_sync(role),
                len(role.elr),
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

    def _must_have(self, role: Leading, broker: NodeId, progress: FollowerProgress) -> bool:
        """Return whether a record must be on this follower before it is committed."""
        if role.is_in_maximal_isr(broker):
            return True
        if self._is_dropped(broker):
            return False
        # One that is about to join: otherwise under load it would never reach the high watermark.
        now_ms = self._context.runtime.now_ms()
        return (
            now_ms >= progress.barred_until_ms
            and is_caught_up(progress, self._context.replica_lag_time_max_ms, now_ms)
            and self._is_eligible(broker, progress)
        )
