"""Checks one partition after every event: I1-I5, I7, I9-I12, I17 and I19, by its state.

A record is committed once any leader's high watermark has been above it. It must then be on every
ISR member and stay, unchanged, on every later leader.
Source: docs/reference/invariants.md; docs/explanation/simulator.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from highwater_broker.logic.epoch_cache import EpochStart
from highwater_broker.partition import Partition
from highwater_broker.roles import Leading
from highwater_core.ids import NO_TOPIC_ID, NodeId, TopicPartition, node_name
from highwater_core.znodes import MAX_REPLICAS, PartitionLeadership
from highwater_simulator.oracle.batches import Batch, Chain, is_sound
from highwater_simulator.oracle.compaction import CommittedRecords, originals_of
from highwater_simulator.oracle.losses import Excuse, is_excused, lost_too
from highwater_simulator.oracle.offsets_told import OffsetsTold
from highwater_simulator.oracle.shadow import ReplicaShadow

Report = Callable[[str, str, int], None]
"""Called with the invariant, what is wrong, and the offset."""


class PartitionOracle:
    """One partition of one incarnation of its topic; a recreated topic gets a new one."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        shadows: Mapping[int, ReplicaShadow],
        report: Callable[[TopicPartition, str, str, int], None],
        stamp_ns: Callable[[], int],
        knows_of_return: Callable[[str, int], bool],
        may_elect_anyone: Callable[[], bool] = lambda: False,
        registration: Callable[[int], int] = lambda _: 0,
        *,
        has_controllers: bool = True,
    ) -> None:
        """registration: returns a broker's epoch in ZooKeeper, -1 where it is not registered.

        has_controllers: whether there are any; else a broker may elect itself.
        """
        self._has_controllers = has_controllers
        self.topic_partition = topic_partition
        self.committed = Chain()
        self.leadership: PartitionLeadership | None = None
        self.assigned_replicas: tuple[int, ...] = ()
        self._assigned_count_before = MAX_REPLICAS
        """How many replicas were assigned before the last change."""
        self._last_isr: tuple[int, ...] = ()
        """The ISR before its last change, if that came after the last one of the assignment. A
        member that left it was registered then: else it was not taken away, but dead."""
        self.topic_id = NO_TOPIC_ID
        self.min_insync_replicas = 1
        self.excuses: list[Excuse] = []
        self._shadows = shadows
        self._report_at = report
        self._stamp_ns = stamp_ns
        self._knows_of_return = knows_of_return
        self._may_elect_anyone = may_elect_anyone
        self._registration = registration
        self._was_anyone_elected = False
        """By an election from outside the ISR that was allowed; until that leader begins."""
        self._committed_by: list[int] = []
        """The size of the leader's ISR when each batch became committed."""
        self._leaders: dict[int, int] = {}
        self._leads_as: dict[int, Leading] = {}
        """Each broker's role object when it was last seen as leader."""
        self._led_to: dict[int, int] = {}
        """The highest high watermark of each broker's leadership."""
        self._caches: dict[int, tuple[EpochStart, ...]] = {}
        """Each broker's epoch cache at its last full check."""
        self._excused_in = -1
        """The latest leader epoch that began without records that were lost lawfully."""
        self._told = OffsetsTold()
        self._chains: dict[tuple[int, int], tuple[int, int]] = {}
        self._records: CommittedRecords | None = None
        """Of a topic that was ever compacted."""

    def _report(self, invariant: str, message: str, offset: int = -1) -> None:
        self._report_at(self.topic_partition, invariant, message, offset)

    # ------------------------------------------------------------ logs

    def batch_added(self, broker: int, batch: Batch, chain: int) -> None:
        """I3: batches of one epoch and offset, and all before them, are equal on all replicas."""
        key = batch.leader_epoch, batch.base_offset
        known, holder = self._chains.setdefault(key, (chain, broker))
        if known != chain:
            self._report(
                "I3",
                f"brokers {holder} and {broker} differ at or below a record of leader epoch "
                f"{batch.leader_epoch}",
                batch.base_offset,
            )

    def log_changed(self, broker: int) -> None:
        """Check a log that its broker has truncated or appended to."""
        shadow = self._shadows[broker]
        held_before = shadow.held_end
        shadow.note_held(self.committed)
        if shadow.held_end < held_before:
            self._check_cut(broker, shadow, held_before)
            shadow.note_cut()

    def _check_cut(self, broker: int, shadow: ReplicaShadow, held_before: int) -> None:
        """I11: an ISR member does not truncate committed records."""
        leadership = self.leadership
        if leadership is not None and broker in leadership.isr:
            self._report(
                "I11",
                f"broker {broker}, in the ISR, cut its log from {held_before} to "
                f"{shadow.held_end}; committed up to {self.committed.end_offset}",
                shadow.held_end,
            )

    def take_as_compacted(self) -> None:
        """Take note that the topic's logs may be compacted from now on."""
        if self._records is not None:
            return
        self._records = CommittedRecords()
        holder = max(self._shadows.values(), key=lambda each: each.held_end)
        for index, batch in enumerate(holder.chain.batches):
            if batch.next_offset <= self.committed.end_offset:
                self._records.add(*holder.data_of(index))

    def stands_for(
        self, batch: Batch, data: bytes, report: Callable[[str, str, int], None]
    ) -> Sequence[Batch]:
        """Return the committed batches that a compacted one stands for, else the batch itself."""
        if self._records is None:
            return (batch,)
        originals = originals_of(batch, self.committed)
        if not originals or [each.crc for each in originals] == [batch.crc]:
            return (batch,)
        if not is_sound(data, batch._replace(position=0)):
            return (batch,)
        wrong = self._records.what_is_wrong(batch, data)
        if wrong is not None:
            report("I19", wrong[1], wrong[0])
        return originals

    # ------------------------------------------------------------ replicas

    def check_replica(self, broker: int, partition: Partition) -> None:
        """Check one hosted replica."""
        shadow = self._shadows[broker]
        high_watermark, end_offset = partition.high_watermark, partition.log_end_offset
        if not partition.log_start_offset <= high_watermark <= end_offset:
            known = f"log start {partition.log_start_offset}, high watermark {high_watermark}"
            what = f"broker {broker}: {known}, log end {end_offset} are not in order"
            self._report("I4", what, high_watermark)
        if shadow.log_end_offset not in (end_offset, None):
            on_disk = shadow.log_end_offset
            what = f"broker {broker} takes {end_offset} for its log end; its disk says {on_disk}"
            self._report("I4", what, end_offset)
        self._check_epochs(broker, partition, shadow)
        if isinstance(partition.role, Leading):
            self._check_leader(broker, partition, partition.role, shadow)
        elif self.committed.end_offset < high_watermark <= end_offset:
            self._check_beyond_committed(broker, high_watermark)

    def _check_beyond_committed(self, broker: int, high_watermark: int) -> None:
        """I4: a high watermark above what is committed is of records that were lost lawfully."""
        if self.excuses:
            lost_too(self.excuses, high_watermark, self._stamp_ns())
            return
        most = f"no leader had more than {self.committed.end_offset}"
        what = f"broker {broker} has high watermark {high_watermark}; {most}"
        self._report("I4", what, high_watermark)

    def _check_epochs(self, broker: int, partition: Partition, shadow: ReplicaShadow) -> None:
        """I10: the epoch cache fits the batches."""
        entries = partition.log.epoch_cache.entries
        if self._caches.get(broker) is not entries:
            self._caches[broker] = entries
            self._check_all_epochs(broker, entries, shadow.chain)
        if partition.is_leader and (not entries or entries[-1][0] != partition.leader_epoch):
            self._report(
                "I10",
                f"broker {broker} leads in epoch {partition.leader_epoch}; its last is "
                f"{entries[-1:]}",
            )
        if not shadow.chain.batches or not entries:
            return
        if shadow.chain.batches[-1].next_offset <= partition.log_start_offset:
            return  # all batches lie below the log's start
        last, (epoch, start) = shadow.chain.batches[-1], entries[-1]
        if (
            last.leader_epoch > epoch
            or start > partition.log_end_offset
            or (last.leader_epoch == epoch and last.base_offset < start)
        ):
            self._report(
                "I10",
                f"broker {broker}: the last epoch is {epoch} from {start} on, the last batch of "
                f"epoch {last.leader_epoch}",
                last.base_offset,
            )

    def _check_all_epochs(self, broker: int, entries: tuple[EpochStart, ...], chain: Chain) -> None:
        """I10: epochs rise with their starts; batches from one start to the next have its epoch."""
        for (epoch, start), (next_epoch, next_start) in pairwise(entries):
            if next_epoch <= epoch or next_start <= start:
                found = (epoch, start), (next_epoch, next_start)
                self._report("I10", f"broker {broker}: epochs do not rise: {found}", next_start)
            first, last = chain.index_below(start) + 1, chain.index_below(next_start)
            for index in (first, last) if first <= last else ():
                batch = chain.batches[index]
                if batch.base_offset >= start and batch.leader_epoch != epoch:
                    self._report(
                        "I10",
                        f"broker {broker}: from {start} to {next_start} is epoch {epoch}, by its "
                        f"cache; there is a batch of {batch.leader_epoch}",
                        batch.base_offset,
                    )

    def _check_leader(
        self, broker: int, partition: Partition, role: Leading, shadow: ReplicaShadow
    ) -> None:
        leadership, high_watermark = self.leadership, partition.high_watermark
        is_current = leadership is not None and leadership.leader_epoch == partition.leader_epoch
        known = self._leaders.setdefault(partition.leader_epoch, broker)
        if known != broker:
            self._report("I7", f"{known} and {broker} both lead epoch {partition.leader_epoch}")
        if self._leads_as.get(broker) is not role:  # perhaps the same epoch after a restart
            self._leads_as[broker] = role
            self._led_to[broker] = high_watermark
            if is_current:
                self._check_new_leader(broker)
                self._told.epoch_begun(partition.leader_epoch, self.committed.end_offset)
        if high_watermark < self._led_to[broker]:
            fell = f"fell from {self._led_to[broker]} to {high_watermark}"
            what = (
                f"leader {broker}: its high watermark {fell} within epoch {partition.leader_epoch}"
            )
            self._report("I4", what, high_watermark)
        self._led_to[broker] = high_watermark
        if is_current and leadership is not None:
            outside = [b for b in leadership.isr if b != broker and not role.is_in_maximal_isr(b)]
            if outside:
                self._report("I5", f"leader {broker} does not wait for {outside}, in the ISR")
        if self.is_outlived(partition.leader_epoch):
            lost_too(self.excuses, high_watermark, self._stamp_ns())
            return
        self._check_committed_prefix(broker, shadow, high_watermark, is_current=is_current)
        if high_watermark > self.committed.end_offset:
            isr = role.isr if is_current else ()
            self._commit(broker, role, isr, shadow, high_watermark)

    def _check_committed_prefix(
        self, broker: int, shadow: ReplicaShadow, high_watermark: int, *, is_current: bool
    ) -> None:
        """I1, I3: below its high watermark a leader holds the committed records.

        A deposed leader may lack records that its disk lost: it may not know of the loss. The
        current leader may not: when it began to lead its loss was excused, and the records it
        lacked are no longer committed, or it was reported.
        """
        end_offset = min(high_watermark, self.committed.end_offset)
        if not shadow.holds(self.committed, end_offset):
            at = shadow.chain.first_difference(self.committed, end_offset)
            if is_current or not shadow.lost_by_disk(at):
                self._report(
                    "I1" if is_current else "I3",
                    f"leader {broker} holds other records below its high watermark "
                    f"{high_watermark} than were committed",
                    at,
                )

    def _commit(
        self,
        leader: int,
        role: Leading,
        known_isr: tuple[NodeId, ...],
        shadow: ReplicaShadow,
        high_watermark: int,
    ) -> None:
        """Commit the records below the leader's high watermark; check that members hold them.

        known_isr: the ISR as the leader knows it; () if the leader has not heard of its partition's
        epoch yet. Such a leader may count brokers that have left the ISR since, and perhaps lost
        their replicas. The ISR in ZooKeeper must hold the records that it commits all the same,
        unless anybody could be elected there.
        """
        first = shadow.chain.index_below(self.committed.end_offset) + 1
        for index, batch in enumerate(shadow.chain.batches[first:], first):
            if batch.base_offset >= high_watermark:
                break
            self.committed.append(batch)
            if self._records is not None:
                self._records.add(*shadow.data_of(index))
            self._committed_by.append(len(role.isr))
        written = None if self._was_anyone_elected else self.leadership
        isr = () if written is None else written.isr
        members = dict.fromkeys((leader, *isr, *known_isr))
        for member in members:
            self._check_member(member, "I2" if member in isr else "I4")
        for broker, each in self._shadows.items():
            if broker not in members:
                each.note_held(self.committed)

    def _check_member(self, broker: int, invariant: str, *, may_have_lost: bool = True) -> None:
        """I2, I4: an ISR member holds the committed records, or its disk lost them.

        A member whose disk lost records stays in the ISR until the controller hears that it has
        registered again; until then its leader counts the offset that it had fetched. The last
        member always stays. Whether the loss is excused is decided when a new leader begins.
        """
        shadow = self._shadows[broker]
        if shadow.holds(self.committed, self.committed.end_offset):
            shadow.note_held(self.committed)
            return
        at = shadow.chain.first_difference(self.committed, self.committed.end_offset)
        if not (may_have_lost and shadow.lost_by_disk(at)):
            self._report(
                invariant,
                f"broker {broker}, in the ISR, does not hold what is committed up to "
                f"{self.committed.end_offset}",
                at,
            )

    # ------------------------------------------------------------ leadership

    def leadership_written(
        self, author: str, before: PartitionLeadership | None, after: PartitionLeadership
    ) -> None:
        """I6, I7, I12 for the written state; I2 and I4 for its leader and its ISR.

        A replica that joins the ISR holds the committed records. Its disk may have lost them since
        it fetched, as long as the controller that writes the ISR cannot know that: until it has
        commanded the broker's next registration (KIP-903). A leader that writes the ISR itself, as
        before AlterPartition, never knows of a registration.
        """
        self.leadership = after
        if before is not None and set(before.isr) != set(after.isr):
            self._last_isr = tuple(
                each for each in before.isr if each in after.isr or self._registration(each) >= 0
            )
        self._check_written(after)
        if before is not None:
            self._check_step(author, before, after)
        if self._was_anyone_elected:
            return  # that one may never lead; the loss is excused when another begins to
        for member in (*after.isr, *after.elr):
            if member != after.leader:
                joins = before is not None and member not in (*before.isr, *before.elr)
                knew = joins and self._knows_of_return(author, member)
                self._check_member(member, "I2", may_have_lost=not knew)

    def assignment_written(self, before: tuple[int, ...]) -> None:
        """I18: replicas are removed only once the remaining ones have the committed records.

        All of the remaining replicas must have them. For a cancelled reassignment it is enough that
        the ISR loses no member, or keeps enough members for acknowledgements.
        """
        last_isr, self._last_isr = self._last_isr, ()
        self._assigned_count_before = len(before)
        removed = [broker for broker in before if broker not in self.assigned_replicas]
        if not removed or self.leadership is None:
            return
        isr = self.leadership.isr
        left = [broker for broker in isr if broker in self.assigned_replicas]
        lagging = [broker for broker in self.assigned_replicas if broker not in isr]
        needed = min(self.min_insync_replicas, len(self.assigned_replicas))
        is_less = bool(set(removed) & {*isr, *last_isr})
        if not left or (lagging and is_less and len(left) < needed):
            self._report("I18", f"{removed} were taken away; of those that stay {lagging} lag")

    def _check_written(self, after: PartitionLeadership) -> None:
        outside = [broker for broker in after.isr if broker not in self.assigned_replicas]
        if outside and self.assigned_replicas:
            self._report("I6", f"{outside} in the ISR, not in {list(self.assigned_replicas)}")
        if not after.isr:
            self._report("I6", "the ISR is empty")
        if after.leader >= 0 and after.leader not in after.isr:
            self._report("I6", f"leader {after.leader} is not in the ISR {list(after.isr)}")

    def _check_step(
        self, author: str, before: PartitionLeadership, after: PartitionLeadership
    ) -> None:
        epochs = f"{before.leader_epoch} -> {after.leader_epoch}"
        if after.leader_epoch not in (before.leader_epoch, before.leader_epoch + 1):
            self._report("I7", f"{author} took the leader epoch {epochs}")
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            self._report("I7", f"{author} changed the leader within epoch {after.leader_epoch}")
        if author.startswith("broker") and after.leader_epoch != before.leader_epoch:
            if self._has_controllers:
                self._report("I7", f"{author}, no controller, took the leader epoch {epochs}")
            elif author != node_name((before if after.leader < 0 else after).leader):  # gives up
                self._report("I7", f"{author} took the leader epoch {epochs} for {after.leader}")
        if after.controller_epoch < before.controller_epoch and author.startswith("controller"):
            self._report(
                "I8",
                f"{author} wrote with controller epoch {after.controller_epoch} after "
                f"{before.controller_epoch}",
            )
        eligible = (-1, before.leader, *before.isr, *before.elr)  # the ELR: KIP-966
        if after.leader not in eligible and self._may_elect_anyone():
            self._was_anyone_elected = True
        elif after.leader not in eligible:
            self._report("I12", f"{after.leader} was elected from outside {list(before.isr)}")

    def _check_new_leader(self, leader: int) -> None:
        """I4: a leader holds all committed records when it begins to lead, or the loss is excused.

        Not checked at its election: the controller may elect a broker that has just died.
        """
        is_unclean, self._was_anyone_elected = self._was_anyone_elected, False
        shadow, end_offset = self._shadows[leader], self.committed.end_offset
        if shadow.holds(self.committed, end_offset):
            shadow.note_held(self.committed)
            return
        at = shadow.chain.first_difference(self.committed, end_offset)
        if is_unclean or is_excused(at, leader, self._shadows):
            self.excuses.append(Excuse(self.topic_partition, at, end_offset, self._stamp_ns()))
            self._excused_in = -1 if self.leadership is None else self.leadership.leader_epoch
            kept = self.committed.index_below(at) + 1
            self.committed.keep(kept)
            del self._committed_by[kept:]
            self._told.forget_beyond(at)
            if self._records is not None:
                self._records.forget_beyond(at)
            for each in self._shadows.values():
                each.forget_beyond(at)
            return
        self._report(
            "I4",
            f"broker {leader} leads without what is committed from {at} to {end_offset}",
            at,
        )

    def is_outlived(self, leader_epoch: int) -> bool:
        """Return whether records were lost lawfully after that epoch.

        A leader of it that has not heard of its end has them still, and may commit more.
        """
        return leader_epoch < self._excused_in

    # ------------------------------------------------------------ answers to clients

    def check_acknowledged(self, base_offset: int, crc: int, isr_size: int | None) -> None:
        """I1, I17: acks=all is acknowledged only for committed records, with enough in sync.

        isr_size: now. A request waits for its other partitions too, so the ISR may have shrunk
        since this one's records were committed. No more are needed than are assigned; a leader may
        not have heard yet that a move adds some.
        """
        batch = self.committed.at(base_offset)
        if batch is None or batch.crc != crc:
            what = "nothing" if batch is None else f"a batch with CRC {batch.crc:08x}"
            self._report(
                "I1",
                f"acknowledged to a client with CRC {crc:08x}; committed there: {what}",
                base_offset,
            )
        assigned_count = min(len(self.assigned_replicas), self._assigned_count_before)
        needed = min(self.min_insync_replicas, assigned_count)
        if isr_size is None or isr_size >= needed:
            return
        isr_size = max(isr_size, self._committed_by[self.committed.index_below(base_offset + 1)])
        if isr_size < needed:
            self._report(
                "I17",
                f"acknowledged with {isr_size} in sync, of {needed} needed",
                base_offset,
            )

    def check_consumed(self, base_offset: int, crc: int) -> None:
        """I9: a consumer gets committed records only, and the same ones each time."""
        batch = self.committed.at(base_offset)
        if batch is None or batch.crc != crc:
            self._report("I9", "a consumer got a record that is not committed", base_offset)

    def check_latest(self, offset: int, leader_epoch: int, high_watermark: int) -> None:
        """I9: the latest offset that a leader answers is committed, and does not fall.

        leader_epoch and high_watermark: of the answering replica at that moment.
        """
        if offset > high_watermark:
            self._report(
                "I9",
                f"a client was told {offset} as the latest offset; the high watermark is "
                f"{high_watermark}",
                offset,
            )
        least = self._told.told(leader_epoch, offset)
        if offset < least:
            self._report(
                "I9",
                f"a client was told {offset} as the latest offset in leader epoch "
                f"{leader_epoch}; clients knew of {least} before",
                offset,
            )
