"""Moved replicas without a controller (preset v2): onPartitionsReassigned and what follows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from highwater_core.admin_messages import OngoingReassignment, ReassignmentItem
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.first_design_znodes import (
    REASSIGNED_PARTITIONS,
    encode_reassigned,
    reassigned_path,
    reassigned_topic_path,
)
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.topic_znode import Reassignment, encode_content, with_replicas
from highwater_core.znodes import topic_path
from highwater_simulator.liveness import Core, missing
from tests.support.first_design_cluster import AT, WITHIN_MS, Cluster

SOON_MS = 5_000


class Moves(Cluster):
    """Five brokers, with t-0 on three of them."""

    def __init__(self, seed: int = 1, **settings: int) -> None:
        super().__init__(5, seed, **settings)

    def spare(self) -> list[int]:
        return [each for each in self.world.brokers if each not in self.replicas()]

    def followers(self) -> list[int]:
        return [each for each in self.replicas() if each != self.leader()]

    def is_asked(self) -> bool:
        return self.world.zookeeper.data(reassigned_path(AT)) is not None

    def is_forgotten(self, broker: int) -> bool:
        """Return whether no running broker takes it for live."""
        seen = [self.world.snapshot(each) for each in self.world.brokers]
        return not any(each and broker in each.live_brokers for each in seen)

    async def ask(self, replicas: Sequence[int] | None, at: TopicPartition = AT) -> ErrorCode:
        target = None if replicas is None else tuple(NodeId(each) for each in replicas)
        answer = await self.client.alter_reassignments((ReassignmentItem(at, target),), WITHIN_MS)
        assert answer.error is ErrorCode.NONE
        return answer.partitions[0].error

    async def listed(self) -> list[OngoingReassignment]:
        answer = await self.client.list_reassignments(None, WITHIN_MS)
        return list(answer.partitions)

    async def moved(self, target: Sequence[int]) -> None:
        """Wait until the partition has these replicas, and nothing is left of the move."""

        def is_over() -> bool:
            has_them = self.replicas() == tuple(target) and not self.topic().reassignments
            return has_them and not self.is_asked() and self.world.is_replicated(AT, target)

        await self.until(is_over, f"t-0 has replicas {target}")
        core = Core(tuple(b for b, each in self.world.brokers.items() if each.is_running), ())
        await self.until(lambda: not list(missing(self.world, core)), "all is as it must be")

    async def ask_by_hand(self, data: bytes, at: TopicPartition = AT) -> None:
        await self.hand.ensure_path(reassigned_topic_path(at.topic))
        await self.hand.create(reassigned_path(at), data)


def test_replicas_are_moved_and_the_leader_goes_on_in_its_epoch() -> None:
    async def story(c: Moves) -> None:
        assert await c.send("a") == "NONE"
        leader, state = c.leader(), c.world.partition_state(AT)
        target = (leader, *c.spare())
        gone = c.followers()
        assert await c.ask(target) is ErrorCode.NONE
        await c.moved(target)
        after = c.world.partition_state(AT)
        assert state is not None
        assert after is not None
        assert (after.leader, after.leader_epoch) == (leader, state.leader_epoch)
        assert sorted(after.isr) == sorted(target)
        assert all(c.world.hosted(each, AT) is None for each in gone)
        assert not any(c.world.brokers[each].disk.replica_folders("t-0") for each in gone)
        assert await c.send("b") == "NONE"
        assert await c.values() == ["a", "b"]
        assert await c.listed() == []

    cluster = Moves()
    cluster.run(story)
    (begun,) = cluster.told(EventKind.REASSIGNMENT_BEGUN)
    (completed,) = cluster.told(EventKind.REASSIGNMENT_COMPLETED)
    assert len(begun.detail["replicas"]) == 5
    assert len(completed.detail["removed"]) == 2


def test_a_leader_that_is_moved_away_gives_its_path_up() -> None:
    async def story(c: Moves) -> None:
        assert await c.send("a") == "NONE"
        old = c.leader()
        target = (*c.spare(), c.followers()[0])
        assert await c.ask(target) is ErrorCode.NONE
        await c.moved(target)
        assert c.leader() in target
        assert c.world.hosted(old, AT) is None
        assert await c.send("b") == "NONE"
        assert await c.values() == ["a", "b"]

    cluster = Moves()
    cluster.run(story)
    elected = cluster.told(EventKind.LEADER_ELECTED)
    assert [each.leader_epoch for each in elected] == [0, 2]  # in epoch 1 nobody leads


def test_the_next_leader_goes_on_where_one_has_died() -> None:
    async def story(c: Moves) -> None:
        for number in range(5):
            assert await c.send(str(number)) == "NONE"
        old, target = c.leader(), (c.followers()[0], *c.spare())
        for broker in c.spare():
            c.world.pause(broker)
        assert await c.ask(target) is ErrorCode.NONE
        await c.until(lambda: AT in c.topic().reassignments, "the move has begun")
        await c.killed()
        for broker in target:
            c.world.resume(broker)
        await c.moved(target)
        c.world.start(old)
        await c.moved(target)
        assert c.world.hosted(old, AT) is None
        assert await c.values() == ["0", "1", "2", "3", "4"]

    Moves(session_timeout_ms=9_000, keep_in_sync_time_ms=500).run(story)


def test_a_move_is_given_up_while_an_added_replica_cannot_come() -> None:
    async def story(c: Moves) -> None:
        before, leader, followers = c.replicas(), c.leader(), tuple(c.followers())
        added = c.spare()[0]
        c.world.pause(added)
        assert await c.ask((leader, added)) is ErrorCode.NONE
        await c.until(lambda: AT in c.topic().reassignments, "the move has begun")
        (listed,) = await c.listed()
        assert (listed.adding, listed.removing) == ((added,), followers)
        assert await c.ask(None) is ErrorCode.NONE
        await c.until(lambda: not c.topic().reassignments, "the move is given up")
        assert sorted(c.replicas()) == sorted(before)
        assert await c.ask(None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        c.world.resume(added)
        await c.moved(c.replicas())
        assert c.world.hosted(added, AT) is None

    Moves(session_timeout_ms=9_000).run(story)


def test_another_target_takes_the_place_of_one_under_way() -> None:
    async def story(c: Moves) -> None:
        leader, (first, second) = c.leader(), c.spare()
        c.world.pause(first)
        assert await c.ask((leader, first)) is ErrorCode.NONE
        await c.until(lambda: AT in c.topic().reassignments, "the move has begun")
        assert await c.ask((leader, second)) is ErrorCode.NONE
        await c.until(lambda: c.replicas() == (leader, second), "the second target is there")
        c.world.resume(first)
        await c.moved((leader, second))

    Moves(session_timeout_ms=9_000).run(story)


@pytest.mark.parametrize("seed", range(1, 7))
def test_quick_moves_to_and_fro_leave_no_replica_behind(seed: int) -> None:
    async def story(c: Moves) -> None:
        sent = [str(number) for number in range(12)]
        for value in sent:
            number = int(value)
            target = [(number + each) % 5 for each in range(1 + number % 3)]
            assert await c.ask(target) is ErrorCode.NONE
            assert await c.send(value) == "NONE"
            await c.world.sleep(number * 7)
        await c.moved(target)
        assert await c.values() == sent

    Moves(seed).run(story)


def test_another_order_is_written_and_over() -> None:
    async def story(c: Moves) -> None:
        target = tuple(reversed(c.replicas()))
        assert await c.ask(target) is ErrorCode.NONE
        await c.moved(target)

    Moves().run(story)


def test_what_cannot_be_moved_is_refused() -> None:
    async def story(c: Moves) -> None:
        leader, spare = c.leader(), c.spare()[0]
        c.world.kill(spare)
        await c.until(lambda: c.is_forgotten(spare), "its session is over")
        assert await c.ask((leader, spare)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await c.ask((leader, 99)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await c.ask(()) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await c.ask(None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        for at in (TopicPartition("t", 7), TopicPartition("nowhere", 0)):
            assert await c.ask((leader,), at) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not c.is_asked()

    Moves().run(story)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b'{"version":1,"replicas":"no"}',
        encode_reassigned(()),
        encode_reassigned((NodeId(1), NodeId(99))),
        encode_reassigned((NodeId(1), NodeId(1))),
    ],
    ids=["empty", "garbage", "no list", "nobody", "an unknown broker", "twice"],
)
def test_bad_replicas_in_zookeeper_are_told_once_and_wait_for_their_repair(data: bytes) -> None:
    async def story(c: Moves) -> None:
        before = c.replicas()
        await c.ask_by_hand(data)
        await c.world.sleep(SOON_MS)
        assert c.all_run()
        assert c.replicas() == before
        assert await c.send("a") == "NONE"
        target = (c.leader(), c.spare()[0])
        await c.hand.set(reassigned_path(AT), encode_reassigned(target))  # type: ignore[arg-type]
        await c.moved(target)

    cluster = Moves()
    cluster.run(story)
    told = [each.detail["where"] for each in cluster.told(EventKind.BAD_INPUT_MET)]
    assert told == [reassigned_path(AT)]


def test_replicas_of_no_partition_are_told_when_they_are_listed() -> None:
    async def story(c: Moves) -> None:
        await c.ask_by_hand(encode_reassigned((NodeId(1),)), TopicPartition("t", 7))
        await c.ask_by_hand(encode_reassigned((NodeId(1),)), TopicPartition("nowhere", 0))
        await c.hand.create(f"{REASSIGNED_PARTITIONS}/t/nonsense", b"")
        assert await c.listed() == []
        assert c.all_run()

    cluster = Moves()
    cluster.run(story)
    told = [each.detail["where"] for each in cluster.told(EventKind.BAD_INPUT_MET)]
    assert len(told) == 3


def test_a_topic_is_deleted_with_what_is_asked_for_it() -> None:
    async def story(c: Moves) -> None:
        added = c.spare()[0]
        c.world.pause(added)
        assert await c.ask((c.leader(), added)) is ErrorCode.NONE
        await c.until(lambda: AT in c.topic().reassignments, "the move has begun")
        assert await c.client.delete_topic("t", WITHIN_MS) is ErrorCode.NONE
        assert c.world.zookeeper.data(reassigned_topic_path("t")) is None
        c.world.resume(added)

        def is_gone() -> bool:
            return not any(c.world.hosted(each, AT) for each in c.world.brokers)

        await c.until(is_gone, "all replicas are gone")

    Moves(session_timeout_ms=9_000).run(story)


def test_replicas_moved_by_hand_without_being_asked_for_go_back() -> None:
    """A move in the topic's znode for which there is no RAR counts as given up."""

    async def story(c: Moves) -> None:
        before, added = c.replicas(), NodeId(c.spare()[0])
        content = c.topic()
        assert content.reassignments == {}
        moved = Reassignment((added,), ())
        after = with_replicas(content, AT, (*content.assignment[AT], added), moved)
        await c.hand.set(topic_path("t"), encode_content(after))
        await c.moved(before)

    Moves().run(story)
