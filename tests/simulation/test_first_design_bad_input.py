"""What others write into a v2 cluster's znodes, well-formed and wrong: told; nothing is lost."""

from __future__ import annotations

import pytest

from highwater_broker.first_design.queues import StateChangeQueues
from highwater_core.events import EventKind
from highwater_core.first_design_znodes import (
    LeaderPath,
    StateChange,
    StateChangeRequest,
    encode_leader,
    encode_request,
    leader_path,
    queue_path,
    request_prefix,
)
from highwater_core.ids import (
    NO_LEADER,
    NO_TOPIC_ID,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    TopicPartition,
)
from highwater_core.ports import ANY_VERSION, CreateOp, DeleteOp, SetOp
from highwater_core.topic_znode import encode_topic
from highwater_core.znodes import (
    MAX_LEADER_EPOCH,
    PartitionLeadership,
    encode_partition_state,
    partition_state_path,
    topic_path,
)
from tests.support.first_design_cluster import AT, Cluster

CLOSE = StateChange.CLOSE_REPLICA
STATE = partition_state_path(AT)


def closing(leader_epoch: int, topic: str = "t") -> bytes:
    at = TopicPartition(topic, 0)
    return encode_request(StateChangeRequest(CLOSE, at, LeaderEpoch(leader_epoch)))


def led(leader: int, leader_epoch: int, *isr: int) -> PartitionLeadership:
    return PartitionLeadership(
        NodeId(leader),
        LeaderEpoch(leader_epoch),
        ControllerEpoch(1),
        tuple(map(NodeId, isr)),
    )


def refusals(c: Cluster) -> list[tuple[str, str]]:
    told = c.told(EventKind.REQUEST_REFUSED)
    return [(each.detail["request"], each.detail["error"]) for each in told]


def bad_input(c: Cluster) -> list[str]:
    return [each.detail["what"] for each in c.told(EventKind.BAD_INPUT_MET)]


@pytest.mark.parametrize("leader_epoch", [0, 7], ids=["its epoch", "a later epoch"])
@pytest.mark.parametrize("of_leader", [True, False], ids=["leader", "follower"])
def test_no_replica_is_closed_while_it_is_assigned(of_leader: bool, leader_epoch: int) -> None:
    """Found: one such request to the leader, and every replica lost all acknowledged records."""

    async def story(c: Cluster) -> None:
        assert await c.send("a") == "NONE"
        broker = next(each for each in c.world.brokers if (each == c.leader()) is of_leader)
        await c.hand.create(request_prefix(broker), closing(leader_epoch), sequential=True)
        await c.until(lambda: c.queue(broker) == [], "the request is taken")
        await c.in_sync()
        assert await c.send("b") == "NONE"
        assert await c.values() == ["a", "b"]

    cluster = Cluster()
    cluster.run(story)
    assert refusals(cluster) == [("close-replica", "ReplicaIsAssigned")]
    assert cluster.told(EventKind.REPLICA_STOPPED) == []


@pytest.mark.parametrize("is_written_again", [False, True], ids=["as it was", "written again"])
def test_nor_by_requests_that_wait_for_brokers_that_are_down(is_written_again: bool) -> None:
    """Found: once the topic's znode was written again, each broker deleted its replica."""

    async def story(c: Cluster) -> None:
        assert await c.send("a") == "NONE"
        await c.world.sleep(1_000)
        for broker in c.world.brokers:
            c.world.kill(broker)
        await c.world.sleep(10_000)
        for broker in c.world.brokers:
            await c.hand.create(request_prefix(broker), closing(7), sequential=True)
        if is_written_again:
            data, _ = await c.hand.get(topic_path("t"))
            await c.hand.set(topic_path("t"), data, ANY_VERSION)
        for broker in c.world.brokers:
            c.world.start(broker)
        await c.until(lambda: not any(map(c.queue, c.world.brokers)), "the queues are read")
        await c.in_sync()
        assert await c.values() == ["a"]

    Cluster().run(story)


def test_a_request_that_cannot_be_removed_is_carried_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found: one with a child, and its broker took it again and again for ever."""
    taken: list[None] = []
    pending = StateChangeQueues.pending

    async def counted(self: StateChangeQueues, broker_id: NodeId) -> list[str]:
        taken.append(None)
        return await pending(self, broker_id)

    monkeypatch.setattr(StateChangeQueues, "pending", counted)

    async def story(c: Cluster) -> None:
        broker = next(each for each in c.world.brokers if each != c.leader())
        path = f"{queue_path(broker)}/request-0009999999"
        await c.hand.multi([CreateOp(path, closing(0, "u")), CreateOp(f"{path}/child", b"")])
        await c.until(lambda: "a request has children" in bad_input(c), "it is told")
        await c.client.create_topic("u", 1, 3, within_ms=30_000)
        replicated = TopicPartition("u", 0), tuple(c.world.brokers)
        await c.until(lambda: c.world.is_replicated(*replicated), "u-0 is in sync")
        await c.world.sleep(1_000)
        before = len(taken)
        await c.world.sleep(10_000)
        assert len(taken) == before
        assert c.queue(broker) == [path, f"{path}/child"], "later requests were taken"

    Cluster().run(story)


def test_a_leader_that_is_not_assigned_is_told_and_leaves_the_isr_with_the_next_one() -> None:
    async def story(c: Cluster) -> None:
        assert await c.send("a") == "NONE"
        await c.world.sleep(1_000)  # all know the high watermark, to which v2 truncates
        isr = c.world.partition_state(AT).isr
        await c.hand.multi(
            [
                DeleteOp(leader_path(AT), ANY_VERSION),
                CreateOp(
                    leader_path(AT),
                    encode_leader(LeaderPath(NodeId(99), LeaderEpoch(5))),
                    ephemeral=True,
                ),
                SetOp(STATE, encode_partition_state(led(99, 5, 99, *isr)), ANY_VERSION),
            ]
        )
        await c.until(lambda: any("not assigned: 99" in each for each in bad_input(c)), "told")
        await c.hand.delete(leader_path(AT))
        await c.until(lambda: c.leader() in c.world.brokers, "an assigned replica leads")
        assert 99 not in c.world.partition_state(AT).isr
        assert await c.send("b") == "NONE"
        assert await c.values() == ["a", "b"]

    Cluster().run(story)


def test_a_leader_path_that_another_session_made_for_a_broker_is_told() -> None:
    async def story(c: Cluster) -> None:
        isr = c.world.partition_state(AT).isr
        named = next(each for each in isr if each != c.leader())
        leader = encode_leader(LeaderPath(named, LeaderEpoch(5)))
        await c.hand.multi(
            [
                DeleteOp(leader_path(AT), ANY_VERSION),
                CreateOp(leader_path(AT), leader, ephemeral=True),
                SetOp(STATE, encode_partition_state(led(named, 5, *isr)), ANY_VERSION),
            ]
        )
        told = "another session says that this broker leads"
        await c.until(lambda: told in bad_input(c), "it is told")
        await c.hand.delete(leader_path(AT))
        await c.until(lambda: c.leader() in c.world.brokers, "a broker leads")
        assert await c.send("a") == "NONE"

    Cluster().run(story)


def test_a_leader_whose_session_is_lost_tells_nothing_of_its_own_path() -> None:
    async def story(c: Cluster) -> None:
        for _ in range(4):
            c.world.pause(c.leader())
            await c.world.sleep(2_500)
            for broker in c.world.brokers:
                c.world.resume(broker)
            await c.in_sync()

    cluster = Cluster()
    cluster.run(story)
    assert bad_input(cluster) == []


def test_an_isr_without_an_assigned_replica_is_told() -> None:
    async def story(c: Cluster) -> None:
        await c.hand.multi(
            [
                DeleteOp(leader_path(AT), ANY_VERSION),
                SetOp(STATE, encode_partition_state(led(NO_LEADER, 3, 77)), ANY_VERSION),
            ]
        )
        await c.until(lambda: any("not assigned: 77" in each for each in bad_input(c)), "told")
        assert c.leader() == NO_LEADER

    Cluster().run(story)


@pytest.mark.parametrize("is_last", [False, True], ids=["the last one", "none is left"])
def test_no_broker_leads_in_an_epoch_that_cannot_be_raised(is_last: bool) -> None:
    """Found: the next leader wrote an epoch that no broker could read, and nobody led any more."""
    written = MAX_LEADER_EPOCH - (1 if is_last else 2)

    async def story(c: Cluster) -> None:
        isr = c.world.partition_state(AT).isr
        await c.hand.multi(
            [
                DeleteOp(leader_path(AT), ANY_VERSION),
                SetOp(STATE, encode_partition_state(led(NO_LEADER, written, *isr)), ANY_VERSION),
            ]
        )
        if is_last:
            told = f"no epoch is left after {written}"
            await c.until(lambda: told in bad_input(c), "it is told")
            assert c.leader() == NO_LEADER
        else:
            await c.until(lambda: c.leader() in c.world.brokers, "a broker leads")
            assert await c.send("a") == "NONE"
        assert c.all_run()

    Cluster().run(story)


def test_a_replica_of_an_earlier_topic_is_closed_though_a_later_one_is_assigned() -> None:
    async def story(c: Cluster) -> None:
        assert await c.send("of the first topic") == "NONE"
        old = await c.killed()
        everybody = c.replicas()
        await c.client.delete_topic("t", 30_000)
        content = encode_topic({0: everybody}, NO_TOPIC_ID)
        await c.hand.create(topic_path("t"), content)
        await c.until(lambda: c.leader() in everybody, "the second topic is led")
        assert await c.send("of the second topic") == "NONE"
        assert len(c.queue(old)) == 1
        c.world.start(old)
        await c.in_sync()
        await c.until(lambda: c.queue(old) == [], "its queue is read")
        stopped = [each.node for each in cluster.told(EventKind.REPLICA_STOPPED)]
        assert old in stopped
        assert await c.values() == ["of the second topic"]

    cluster = Cluster()
    cluster.run(story)


def test_a_damaged_state_is_told_with_its_own_path() -> None:
    async def story(c: Cluster) -> None:
        await c.hand.set(STATE, b"{", ANY_VERSION)
        await c.until(lambda: bad_input(c) != [], "it is told")

    cluster = Cluster()
    cluster.run(story)
    assert {each.detail["where"] for each in cluster.told(EventKind.BAD_INPUT_MET)} == {STATE}


def test_a_request_that_stays_in_another_brokers_queue_hides_none_of_its_own() -> None:
    """Found: a broker that could not shrink another's queue passed over its own request of that
    number for ever."""
    number = "request-0000009000"

    async def story(c: Cluster) -> None:
        down = next(each for each in c.world.brokers if each != c.leader())
        c.world.kill(down)
        path = f"{queue_path(NodeId(down))}/{number}"
        start = encode_request(StateChangeRequest(StateChange.START_REPLICA, AT, LeaderEpoch(0)))
        await c.hand.multi([CreateOp(path, start), CreateOp(f"{path}/child", b"")])
        for topic in "vwxyz":  # these must stay: the queue takes no more, and nothing is sent
            await c.hand.create(request_prefix(NodeId(down)), closing(0, topic), sequential=True)
        await c.client.delete_topic("t", 30_000)
        told = {each.node for each in cluster.told(EventKind.BAD_INPUT_MET)}
        assert told, "a broker has met the request that it cannot remove"
        for broker in told:
            own = f"{queue_path(NodeId(broker))}/{number}"
            await c.hand.create(own, closing(0, "v"))
            await c.until(lambda own=own, b=broker: own not in c.queue(b), "it is taken")

    cluster = Cluster(state_change_queue_max_requests=4)
    cluster.run(story)
