"""The oracle of a partition: each invariant broken once and held once, with small logs by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.roles import CommittedIsr, Following, IsrProposal, Leading, Offline
from highwater_core.ids import (
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import IsrMember
from highwater_core.znodes import PartitionLeadership
from highwater_simulator.disk import Disk
from highwater_simulator.oracle.batches import Batch, Chain
from highwater_simulator.oracle.losses import Excuse, is_excused
from highwater_simulator.oracle.partition_oracle import PartitionOracle
from highwater_simulator.oracle.shadow import ReplicaShadow
from highwater_simulator.rng import SeededRng

AT = TopicPartition("t", 0)
BROKERS = (0, 1, 2)
NOW_NS = 77


def record(offset: int, epoch: int = 0, crc: int = 0) -> Batch:
    return Batch(offset, offset + 1, epoch, crc or 1_000 * epoch + offset, 100 * offset, 100)


def records(end_offset: int, epoch: int = 0) -> list[Batch]:
    return [record(offset, epoch) for offset in range(end_offset)]


def written(
    leader: int, epoch: int, isr: tuple[int, ...], controller_epoch: int = 1, **more: Any
) -> PartitionLeadership:
    return PartitionLeadership(
        NodeId(leader),
        LeaderEpoch(epoch),
        ControllerEpoch(controller_epoch),
        tuple(NodeId(broker) for broker in isr),
        **more,
    )


@dataclass
class Judged:
    """Three replicas and their oracle, whose reports are collected."""

    ends: tuple[int, int, int] = (3, 3, 3)
    reports: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shadows = {
            broker: ReplicaShadow(Disk(SeededRng(broker)), str(AT)) for broker in BROKERS
        }
        for broker, end_offset in zip(BROKERS, self.ends, strict=True):
            self.give(broker, *records(end_offset))
        self.roles: dict[tuple[int, int], Leading] = {}
        self.returned: list[int] = []
        self.dead: list[int] = []
        self.oracle = PartitionOracle(
            AT, self.shadows, self._report, lambda: NOW_NS,
            lambda author, broker: author.startswith("controller") and broker in self.returned,
            registration=lambda broker: -1 if broker in self.dead else broker,
        )  # fmt: skip
        self.oracle.assigned_replicas = BROKERS
        self.write("controller-1000", written(0, 0, BROKERS))

    def _report(self, at: TopicPartition, invariant: str, message: str, offset: int) -> None:
        assert at == AT
        assert message
        self.reports.append((invariant, offset))

    def write(self, author: str, after: PartitionLeadership) -> None:
        self.oracle.leadership_written(author, self.oracle.leadership, after)

    def give(self, broker: int, *batches: Batch) -> None:
        for batch in batches:
            self.shadows[broker].chain.append(batch)

    def cut(self, broker: int, end_offset: int) -> None:
        """Have the broker cut its log."""
        self.shadows[broker].chain.keep(end_offset)
        self.oracle.log_changed(broker)

    def lose(self, broker: int, end_offset: int) -> None:
        """Have the broker's disk lose its log's end."""
        shadow = self.shadows[broker]
        before, shadow.chain = shadow.chain, Chain()
        self.give(broker, *before.batches[:end_offset])
        shadow.note_lost_by_disk(before)

    def hosted(self, broker: int, high_watermark: int, epoch: int = 0, **more: Any) -> Any:
        """Return the replica as its broker has it: it leads unless `role` says otherwise."""
        end_offset = self.shadows[broker].end_offset
        committed = CommittedIsr(tuple(map(NodeId, more.pop("isr", BROKERS))))
        new = Leading(LeaderEpoch(epoch), Offset(0), committed)
        leading = self.roles.setdefault((broker, epoch), new)
        leading.settle(committed)
        if (proposal := more.pop("proposal", None)) is not None:
            leading.propose(proposal)
        role = more.pop("role", leading)
        entries = more.pop("entries", ((epoch, 0),))
        values = {
            "high_watermark": high_watermark,
            "log_end_offset": end_offset,
            "log_start_offset": 0,
            "leader_epoch": epoch,
            "role": role,
            "is_leader": isinstance(role, Leading),
            "log": SimpleNamespace(epoch_cache=SimpleNamespace(entries=entries)),
        }
        return SimpleNamespace(**(values | more))

    def see(self, broker: int, high_watermark: int, epoch: int = 0, **more: Any) -> None:
        self.oracle.check_replica(broker, self.hosted(broker, high_watermark, epoch, **more))

    @property
    def broken(self) -> list[str]:
        return [invariant for invariant, _ in self.reports]


def committed(*ends: int, high_watermark: int | None = None) -> Judged:
    """Return replicas with logs of these ends, the leader's high watermark at their least."""
    found = ends or (3, 3, 3)
    judged = Judged((found[0], found[1], found[2]))
    judged.see(0, min(found) if high_watermark is None else high_watermark)
    return judged


# ---------------------------------------------------------------- nothing is wrong


def test_replicas_that_keep_to_the_rules_are_never_reported() -> None:
    judged = committed()
    for broker in BROKERS:
        judged.give(broker, record(3))
        judged.oracle.batch_added(broker, record(3), judged.shadows[broker].chain.chains[-1])
        judged.oracle.log_changed(broker)
    judged.see(1, 3, role=Following(NodeId(0)))
    judged.see(0, 4)
    judged.oracle.check_acknowledged(3, record(3).crc, 3)
    judged.oracle.check_consumed(3, record(3).crc)
    judged.write("broker-0", written(0, 0, (0, 1)))
    judged.write("controller-1000", written(1, 1, (1,)))
    judged.see(1, 4, 1, isr=(1,), entries=((0, 0), (1, 4)))
    assert judged.reports == []
    assert judged.oracle.committed.end_offset == 4


# ---------------------------------------------------------------- I1, I2, I3


def test_i1_an_acknowledged_record_is_committed_with_its_own_content() -> None:
    judged = committed(3, 3, 2)
    judged.oracle.check_acknowledged(1, record(1).crc, 3)
    assert judged.broken == []
    judged.oracle.check_acknowledged(2, record(2).crc, 3)
    judged.oracle.check_acknowledged(1, 5, 3)
    assert judged.reports == [("I1", 2), ("I1", 1)]


def test_i1_a_current_leader_holds_committed_records_below_its_high_watermark() -> None:
    judged = committed()
    judged.shadows[0].chain.keep(2)
    judged.give(0, record(2, crc=9))
    judged.see(0, 3)
    assert judged.reports == [("I1", 2)]


def test_i3_a_deposed_leader_holds_it_as_well() -> None:
    judged = committed()
    judged.write("controller-1000", written(1, 1, (1, 2)))
    judged.shadows[0].chain.keep(2)
    judged.give(0, record(2, crc=9))
    judged.see(0, 3, 0)
    assert judged.reports == [("I3", 2)]


def test_i2_an_isr_member_holds_committed_records() -> None:
    assert committed(3, 3, 3).broken == []
    judged = committed(3, 3, 2, high_watermark=3)
    assert judged.reports == [("I2", 2)]


def test_i2_a_joining_replica_holds_committed_records_by_content_not_by_length() -> None:
    judged = Judged((3, 3, 0))
    judged.write("broker-0", written(0, 0, (0, 1)))
    judged.see(0, 3, isr=(0, 1))
    judged.give(2, *records(2), record(2, crc=9))
    judged.write("broker-0", written(0, 0, BROKERS))
    assert judged.reports == [("I2", 2)]


@pytest.mark.parametrize(
    ("author", "returned", "broken"),
    [
        ("controller-1000", (), []),
        ("controller-1000", (2,), [("I2", 1)]),
        ("controller-1000", (1,), []),
        ("broker-0", (2,), []),
    ],
    ids=["it cannot know yet", "it commanded the broker since", "another broker", "a leader"],
)
def test_i2_a_joining_replica_may_lack_its_disks_loss_only_while_the_controller_cannot_know(
    author: str, returned: tuple[int, ...], broken: list[tuple[str, int]]
) -> None:
    judged = committed()
    judged.write("broker-0", written(0, 0, (0, 1)))
    judged.lose(2, 1)
    judged.returned.extend(returned)
    judged.write(author, written(0, 0, BROKERS))
    assert judged.reports == broken


def test_i2_a_remaining_isr_member_may_lack_its_disks_loss() -> None:
    judged = committed()
    judged.lose(2, 1)
    judged.returned.append(2)
    judged.write("controller-1000", written(0, 0, BROKERS))
    assert judged.reports == []


def test_i1_only_a_deposed_leader_may_lack_its_disks_loss() -> None:
    judged = committed()
    judged.lose(0, 1)
    judged.give(0, record(1, crc=9), record(2, crc=9))
    judged.write("controller-1000", written(1, 1, (1, 2)))
    judged.see(0, 3, 0)
    assert judged.reports == []
    judged.oracle.leadership = written(0, 0, (0,))
    judged.see(0, 3, 0, isr=(0,))
    assert judged.reports == [("I1", 1)]


def test_i4_who_leads_again_in_the_same_epoch_has_all_that_is_committed() -> None:
    judged = committed()
    judged.lose(0, 1)
    judged.roles.clear()
    judged.see(0, 1)
    assert judged.reports == [("I4", 1)]


def test_i2_is_no_ones_fault_where_the_disk_lost_it() -> None:
    judged = committed()
    judged.lose(2, 1)
    for broker in (0, 1):
        judged.give(broker, record(3))
    judged.see(0, 4)
    assert judged.broken == []


def test_i3_one_epoch_and_offset_is_one_record_with_one_past() -> None:
    judged = Judged()
    add = judged.oracle.batch_added
    add(0, record(3), 11)
    add(1, record(3), 11)
    add(2, record(3, epoch=1), 12)
    assert judged.broken == []
    add(2, record(3), 13)
    assert judged.reports == [("I3", 3)]


# ---------------------------------------------------------------- I4, I5


@pytest.mark.parametrize(
    ("high_watermark", "more", "broken"),
    [
        (3, {}, []),
        (0, {}, []),
        (4, {}, ["I4"]),
        (-1, {}, ["I4"]),
        (1, {"log_start_offset": 2}, ["I4"]),
        (3, {"log_end_offset": 4}, ["I4"]),
    ],
)
def test_i4_log_start_high_watermark_and_log_end_are_in_order_and_on_the_disk(
    high_watermark: int, more: dict[str, Any], broken: list[str]
) -> None:
    judged = committed()
    judged.see(1, high_watermark, role=Following(NodeId(0)), **more)
    assert judged.broken == broken


def test_i4_no_replica_starts_with_a_high_watermark_above_every_leaders() -> None:
    judged = committed(3, 3, 3, high_watermark=2)
    judged.see(1, 2, role=Offline())
    assert judged.broken == []
    judged.see(1, 3, role=Offline())
    assert judged.reports == [("I4", 3)]


def test_i4_a_high_watermark_may_be_above_the_committed_end_once_a_loss_was_excused() -> None:
    judged = _lost(committed(), 0, 1, 2)
    judged.write("controller-1000", written(1, 1, (1,)))
    judged.see(1, 1, 1, isr=(1,), entries=((0, 0), (1, 1)))
    assert judged.oracle.excuses
    judged.give(2, record(1), record(2))
    judged.see(2, 3, role=Following(NodeId(1)))
    assert judged.broken == []


def test_i4_a_leaders_high_watermark_does_not_fall_within_its_epoch() -> None:
    judged = committed()
    judged.see(0, 2)
    assert judged.reports == [("I4", 2)]
    judged = committed()
    judged.roles.clear()
    judged.see(0, 2)
    assert judged.broken == [], "it leads anew"


def test_i4_a_member_of_the_leaders_own_isr_has_records_below_the_high_watermark() -> None:
    judged = Judged((3, 3, 2))
    judged.write("broker-0", written(0, 0, (0, 1)))
    judged.see(0, 3, isr=BROKERS)
    assert judged.reports == [("I4", 2)]


def test_i4_a_new_leader_has_all_that_is_committed() -> None:
    judged = committed()
    judged.write("controller-1000", written(1, 1, (1, 2)))
    assert judged.broken == []
    judged.see(1, 3, 1, isr=(1, 2), entries=((0, 0), (1, 3)))
    assert judged.broken == []
    judged.shadows[2].chain.keep(1)
    judged.write("controller-1000", written(2, 2, (2,)))
    assert judged.broken == [], "it may be dead, and the controller not know yet"
    judged.see(2, 1, 2, isr=(2,), entries=((0, 0), (2, 1)))
    assert judged.reports == [("I4", 1)]


@pytest.mark.parametrize(
    ("isr", "proposed", "broken"),
    [((0, 1, 2), None, []), ((0, 1), (0, 1, 2), []), ((0, 1), None, ["I5"])],
    ids=["its own", "the proposed one", "neither"],
)
def test_i5_a_leader_waits_for_all_of_the_written_isr(
    isr: tuple[int, ...], proposed: tuple[int, ...] | None, broken: list[str]
) -> None:
    judged = Judged()
    proposal = None
    if proposed is not None:
        members = tuple(IsrMember(NodeId(broker), -1) for broker in proposed)  # type: ignore[arg-type]
        proposal = IsrProposal(members, LeaderEpoch(0), PartitionEpoch(0), "")
    judged.see(0, 0, isr=isr, proposal=proposal)
    assert judged.broken == broken


def test_i5_is_nothing_that_a_deposed_leader_can_know() -> None:
    judged = Judged()
    judged.write("controller-1000", written(1, 1, BROKERS))
    judged.see(0, 0, 0, isr=(0,))
    assert judged.broken == []


def test_i4_a_leader_that_missed_its_epoch_may_count_who_has_left_the_isr() -> None:
    """Records that its old ISR has committed are on the written ISR, which I2 checks."""
    judged = Judged((3, 3, 1))
    judged.write("controller-1000", written(0, 1, (0, 1)))
    judged.see(0, 3)
    assert judged.reports == []
    judged.give(0, record(3))
    judged.see(0, 4)
    assert judged.broken == ["I2"]


# ---------------------------------------------------------------- I6, I7, I8, I12


@pytest.mark.parametrize(
    ("author", "after", "broken"),
    [
        ("controller-1000", written(1, 3, (1, 2)), []),
        ("broker-0", written(0, 2, (0,)), []),
        ("controller-1000", written(-1, 3, (0,)), []),
        ("controller-1000", written(0, 3, (0, 3)), ["I6"]),
        ("controller-1000", written(0, 3, ()), ["I6", "I6"]),
        ("controller-1000", written(1, 3, (2,)), ["I6"]),
        ("controller-1000", written(1, 4, (1,)), ["I7"]),
        ("controller-1000", written(0, 1, (0,)), ["I7"]),
        ("controller-1000", written(1, 2, (1, 2)), ["I7"]),
        ("broker-0", written(0, 3, (0,)), ["I7"]),
        ("controller-1000", written(0, 3, (0,), controller_epoch=4), ["I8"]),
        ("broker-0", written(0, 2, (0,), controller_epoch=4), []),
    ],
    ids=[
        "an election", "a leader shrinks its ISR", "nobody leads", "outside the assignment",
        "empty", "a leader outside its ISR", "two epochs at once", "an epoch back",
        "another leader in one epoch", "a broker takes an epoch", "an older controller",
        "a leader that was told by an older controller",
    ],
)  # fmt: skip
def test_i6_i7_i8_a_written_state_follows_from_the_former_one(
    author: str, after: PartitionLeadership, broken: list[str]
) -> None:
    judged = Judged()
    judged.oracle.leadership = written(0, 2, BROKERS, controller_epoch=5)
    if author != "broker-0" and broken != ["I8"]:
        after = written(after.leader, after.leader_epoch, after.isr, controller_epoch=5)
    judged.shadows[3] = ReplicaShadow(Disk(SeededRng(3)), str(AT))
    judged.write(author, after)
    assert judged.broken == broken


def test_i7_one_epoch_has_one_leader() -> None:
    judged = committed()
    judged.see(0, 3)
    judged.see(1, 3, 0)
    assert judged.broken == ["I7"]


@pytest.mark.parametrize(
    ("leader", "elr", "broken"),
    [(1, (), []), (2, (), ["I12"]), (2, (2,), []), (-1, (), [])],
    ids=["of the ISR", "from outside", "of the ELR", "nobody"],
)
def test_i12_leaders_come_from_the_isr_or_are_eligible(
    leader: int, elr: tuple[int, ...], broken: list[str]
) -> None:
    judged = Judged()
    judged.oracle.leadership = written(0, 0, (0, 1), elr=tuple(map(NodeId, elr)))
    judged.write("controller-1000", written(leader, 1, (max(leader, 0),)))
    assert judged.broken == broken


# ---------------------------------------------------------------- I9, I10, I11


def test_i9_a_consumer_gets_committed_records_alone() -> None:
    judged = committed(3, 3, 2)
    judged.oracle.check_consumed(1, record(1).crc)
    assert judged.broken == []
    judged.oracle.check_consumed(2, record(2).crc)
    judged.oracle.check_consumed(1, 5)
    assert judged.reports == [("I9", 2), ("I9", 1)]


@pytest.mark.parametrize(
    ("entries", "leads", "broken"),
    [
        (((0, 0),), True, []),
        ((), False, []),
        (((0, 0), (0, 1)), False, ["I10"]),
        (((0, 2), (1, 2)), False, ["I10"]),
        (((0, 0),), False, []),
        (((0, 4),), False, ["I10"]),
        (((0, 3),), False, ["I10"]),
        ((), True, ["I10"]),
        (((0, 0), (1, 3)), True, ["I10"]),
        (((0, 0), (2, 1), (1, 2), (3, 3)), False, ["I10"]),
        (((0, 0), (1, 2), (2, 3)), False, ["I10"]),
    ],
    ids=[
        "one", "none known", "an epoch twice", "an offset twice", "a follower", "beyond the log",
        "behind its batches", "a leader without its epoch", "a leader with a later one",
        "a fall in the middle", "an epoch of no batch in the middle",
    ],
)  # fmt: skip
def test_i10_epochs_rise_and_fit_the_batches_and_the_leader(
    entries: tuple[tuple[int, int], ...], leads: bool, broken: list[str]
) -> None:
    judged = Judged()
    more = {} if leads else {"role": Following(NodeId(0))}
    judged.see(0, 0, entries=entries, **more)
    assert list(dict.fromkeys(judged.broken)) == broken


def test_i10_no_batch_is_of_an_epoch_that_the_cache_does_not_have() -> None:
    judged = Judged()
    judged.give(1, record(3, epoch=2))
    judged.see(1, 0, role=Following(NodeId(0)), entries=((0, 0),))
    assert judged.broken == ["I10"]


def test_i11_an_isr_member_cuts_off_nothing_that_is_committed() -> None:
    judged = committed(5, 5, 3)
    judged.cut(2, 3)
    judged.cut(1, 3)
    assert judged.broken == []
    judged.cut(1, 2)
    assert judged.reports == [("I11", 2)]


def test_i11_does_not_bind_who_is_outside_the_isr() -> None:
    judged = committed()
    judged.write("broker-0", written(0, 0, (0, 1)))
    judged.cut(2, 0)
    assert judged.broken == []
    assert judged.shadows[2].cut_from == 0


def test_i11_a_log_that_is_cut_and_filled_again_at_once_was_cut() -> None:
    judged = committed()
    judged.shadows[1].chain.keep(1)
    judged.give(1, record(1, epoch=1), record(2, epoch=1))
    judged.oracle.log_changed(1)
    assert judged.reports == [("I11", 1)]
    assert judged.shadows[1].cut_from == 1


# ---------------------------------------------------------------- I17


def test_i17_acks_all_needs_enough_in_sync() -> None:
    judged = Judged()
    judged.oracle.min_insync_replicas = 2
    judged.see(0, 3, isr=(0,))
    judged.oracle.check_acknowledged(0, record(0).crc, 2)
    judged.oracle.check_acknowledged(0, record(0).crc, None)
    judged.reports.clear()  # I5: the ISR of this leader is not the written one
    judged.oracle.check_acknowledged(0, record(0).crc, 1)
    assert judged.reports == [("I17", 0)]


def test_i17_holds_of_records_that_waited_for_others_since_they_were_committed() -> None:
    judged = committed()
    judged.oracle.min_insync_replicas = 2
    judged.oracle.check_acknowledged(0, record(0).crc, 1)
    assert judged.broken == []


# ---------------------------------------------------------------- excuses


def _lost(judged: Judged, *brokers: int, down_to: int = 1) -> Judged:
    for broker in brokers:
        judged.lose(broker, down_to)
    return judged


def _lost_before_the_others_had_it() -> Judged:
    judged = committed(3, 1, 1, high_watermark=1)
    judged.write("broker-0", written(0, 0, (0,)))
    judged.see(0, 3, isr=(0,))
    return _lost(judged, 0)


def _cut_by_one_on_the_leaders_word() -> Judged:
    judged = committed()
    judged.write("broker-0", written(0, 0, (0, 1)))
    judged.cut(2, 1)
    return _lost(judged, 0, 1)


def _fetched_again() -> Judged:
    judged = _lost(committed(), 0, 1, 2)
    judged.give(1, record(1), record(2))
    judged.oracle.log_changed(1)
    return judged


@pytest.mark.parametrize(
    ("judged", "elected", "excused"),
    [
        (_lost(committed(), 0, 1, 2), 0, True),
        (_lost(committed(), 0, 1), 0, False),
        (_lost(committed(), 0, 1), 2, False),
        (_lost_before_the_others_had_it(), 0, True),
        (_lost_before_the_others_had_it(), 1, False),
        (_cut_by_one_on_the_leaders_word(), 0, False),
        (_fetched_again(), 0, False),
        (_lost(committed(), 0, 1, 2, down_to=2), 0, False),
    ],
    ids=[
        "every disk lost it", "one replica holds it", "the one that holds it is elected",
        "no other had it", "elected is one that never had it", "one cut it off",
        "one has it again", "another record",
    ],
)  # fmt: skip
def test_a_loss_is_excused_if_all_who_held_it_lost_it_by_their_disks(
    judged: Judged, elected: int, excused: bool
) -> None:
    assert is_excused(1, elected, judged.shadows) is excused


def test_an_excused_loss_is_noted_and_no_longer_committed() -> None:
    judged = _lost(committed(), 0, 1, 2)
    judged.write("controller-1000", written(0, 1, (0,)))
    judged.see(0, 1, 1, isr=(0,), entries=((0, 0), (1, 1)))
    assert judged.broken == []
    assert judged.oracle.excuses == [Excuse(AT, 1, 3, NOW_NS)]
    assert judged.oracle.committed.end_offset == 1
    assert [shadow.held_end for shadow in judged.shadows.values()] == [1, 1, 1]
    assert [shadow.lost_from for shadow in judged.shadows.values()] == [None] * 3


def test_records_in_the_place_of_an_excused_loss_are_committed_as_others() -> None:
    judged = _lost(committed(), 0, 1, 2)
    judged.write("controller-1000", written(0, 1, (0,)))
    for broker in (0, 1):
        judged.give(broker, record(1, epoch=1))
    judged.see(0, 2, 1, isr=(0, 1), entries=((0, 0), (1, 1)))
    judged.write("controller-1000", written(0, 1, (0, 1)))
    judged.cut(1, 1)
    assert judged.reports == [("I11", 1)]


@pytest.mark.parametrize(
    ("at", "offset", "before_ns", "covers"),
    [
        (AT, 4, 9, True),
        (AT, 6, 8, True),
        (AT, 3, 9, False),
        (AT, 7, 9, False),
        (AT, 4, 10, False),
        (TopicPartition("t", 1), 4, 9, False),
    ],
)
def test_an_excuse_covers_its_offsets_until_its_time(
    at: TopicPartition, offset: int, before_ns: int, covers: bool
) -> None:
    assert Excuse(AT, 4, 7, 9).covers(at, offset, before_ns) is covers


@pytest.mark.parametrize(("is_dead", "reports"), [(True, []), (False, [("I18", -1)])])
def test_a_member_that_leaves_the_isr_before_it_is_removed_was_dead_or_taken_away(
    is_dead: bool, reports: list[tuple[str, int]]
) -> None:
    """Found: a dead broker that a cancelled reassignment removes counted as taken away."""
    judged = Judged()
    judged.oracle.min_insync_replicas = 2
    judged.dead += [2] if is_dead else []
    judged.write("controller-1000", written(0, 1, (0, 2)))
    judged.write("controller-1000", written(0, 2, (0,)))
    judged.oracle.assigned_replicas = (0, 1)
    judged.oracle.assignment_written((0, 1, 2))
    assert judged.reports == reports
