"""I16 of followers: records that a leader counts as copied are in the follower's present log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.logic.isr import FollowerProgress
from highwater_broker.roles import CommittedIsr, Following, Leading, Offline
from highwater_core.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicPartition
from highwater_simulator.disk import Disk
from highwater_simulator.oracle.batches import Batch
from highwater_simulator.oracle.progress import ProgressChecks
from highwater_simulator.oracle.shadow import ReplicaShadow
from highwater_simulator.rng import SeededRng

AT = TopicPartition("t", 0)
LEADER, FOLLOWER = 0, 1
NOW, EARLIER = 20, 10
"""Registrations of the follower."""


class Pair:
    """A leader and a follower in leader epoch 4, with three records each."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int]] = []
        self.shadows = {b: ReplicaShadow(Disk(SeededRng(b)), str(AT)) for b in (LEADER, FOLLOWER)}
        for broker in self.shadows:
            self.give(broker, 0, 1, 2)
        self.role = Leading(LeaderEpoch(4), Offset(0), CommittedIsr((NodeId(0), NodeId(1))))
        self.leader = self.replica(LEADER, self.role)
        self.follower = self.replica(FOLLOWER, Following(NodeId(LEADER)))
        hosted = {LEADER: self.leader, FOLLOWER: self.follower}
        world: Any = SimpleNamespace(hosted=lambda broker, at: hosted.get(broker))
        self.checks = ProgressChecks(world, lambda broker: NOW, self._report)

    def _report(self, at: object, invariant: str, message: str, offset: int) -> None:
        assert (at, bool(message)) == (AT, True)
        self.reports.append((invariant, offset))

    def replica(self, broker: int, role: object) -> Any:
        return SimpleNamespace(
            topic_partition=AT, role=role, leader_epoch=4, topic_id="A",
            log_start_offset=0, log_end_offset=self.shadows[broker].end_offset,
        )  # fmt: skip

    def give(self, broker: int, *offsets: int, epoch: int = 4) -> None:
        for offset in offsets:
            batch = Batch(offset, offset + 1, epoch, offset, 0, 100)
            self.shadows[broker].chain.append(batch)

    def counts(self, end_offset: int, registration: int = NOW) -> list[tuple[str, int]]:
        """Have the leader count the follower's log to end_offset, and return the reports."""
        self.reports.clear()
        self.role.followers[NodeId(FOLLOWER)] = FollowerProgress(
            Offset(end_offset), broker_epoch=BrokerEpoch(registration)
        )
        self.checks.check(LEADER, self.leader, self.shadows)
        return list(self.reports)


def test_records_that_the_follower_has_may_be_counted() -> None:
    pair = Pair()
    assert [pair.counts(end) for end in (-1, 0, 2, 3)] == [[], [], [], []]


def test_records_that_the_follower_lacks_may_not_be_counted() -> None:
    pair = Pair()
    pair.give(LEADER, 3)
    assert pair.counts(4) == [("I16", 3)]


def test_other_records_at_the_same_offsets_do_not() -> None:
    pair = Pair()
    pair.shadows[FOLLOWER].chain.keep(1)
    pair.give(FOLLOWER, 1, 2, epoch=3)
    assert pair.counts(1) == []
    assert pair.counts(3) == [("I16", 1)]


def test_other_records_that_the_leader_has_let_go_of_do_no_harm() -> None:
    """The follower drops them too, with its next fetch; files may outlast the log's start."""
    pair = Pair()
    pair.shadows[FOLLOWER].chain.keep(1)
    pair.give(FOLLOWER, 1, 2, epoch=3)
    pair.leader.log_start_offset = 3
    assert pair.counts(3) == []
    pair.give(LEADER, 3)
    assert pair.counts(4) == [("I16", 1)]


def test_a_follower_that_truncates_counted_records_is_found() -> None:
    pair = Pair()
    pair.follower.leader_epoch = 3
    pair.counts(3)
    pair.shadows[FOLLOWER].chain.keep(2)
    pair.follower.leader_epoch = 4
    pair.checks.check(FOLLOWER, pair.follower, pair.shadows)
    assert pair.reports == [("I16", 2)]


@pytest.mark.parametrize(
    ("changes", "registration"),
    [
        ({"leader_epoch": 3}, NOW),
        ({"topic_id": "B"}, NOW),
        ({"role": Offline()}, NOW),
        ({"role": Following(NodeId(2))}, NOW),
        ({}, EARLIER),
        ({}, -1),
    ],
    ids=["another epoch", "another topic", "no role yet", "another leader",
         "an earlier registration", "fetches that name none"],
)  # fmt: skip
def test_nothing_is_asked_of_who_cannot_know(changes: dict[str, object], registration: int) -> None:
    pair = Pair()
    pair.shadows[FOLLOWER].chain.keep(1)
    for name, value in changes.items():
        setattr(pair.follower, name, value)
    assert pair.counts(3, registration) == []


def test_within_a_leadership_no_fetch_of_an_earlier_registration_counts() -> None:
    pair = Pair()
    assert pair.counts(3, EARLIER) == []
    assert pair.counts(3, NOW) == []
    assert pair.counts(2, EARLIER) == [("I16", 2)]
    pair.leader.role = pair.role = Leading(LeaderEpoch(5), Offset(0), CommittedIsr(()))
    assert pair.counts(2, EARLIER) == [], "a new leader knows of none"
