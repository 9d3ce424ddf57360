"""Stories of the whole cluster: nodes killed, stopped, paused and cut off, topics deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from highwater_checker.history import HistoryEvent, sends_of
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition, node_name
from highwater_core.messages import ReplicaSnapshot
from highwater_simulator.network import Plane
from highwater_simulator.world import World
from highwater_simulator.zookeeper import HOST as ZOOKEEPER
from tests.support.presets import CONTROLLED

ORDERS = TopicPartition("orders", 0)


Cluster = Any
"""conftest.Cluster."""


def acknowledged(history: Sequence[HistoryEvent]) -> int:
    return len(sends_of(history).acknowledged)


def replica(world: World, broker_id: int) -> ReplicaSnapshot:
    found = world.replica(broker_id, ORDERS)
    assert found is not None
    return found


def test_another_controller_takes_over_when_the_active_one_is_killed(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        first = c.controller()
        c.world.kill(first)
        await c.send(10)
        await c.world.eventually(
            lambda: c.world.active_controller() not in (None, first), 20_000, "a new controller"
        )
        c.world.kill(c.leader())
        await c.send(10)
        assert acknowledged(c.client.history) == 40
        for node_id in (*c.world.controllers, *c.world.brokers):
            if not c.world.handle(node_id).is_running:
                c.world.start(node_id)
        await c.full_isr()

    cluster.run(story)
    elected = [e.controller_epoch for e in cluster.world.trace.events(EventKind.CONTROLLER_ELECTED)]
    assert elected == [1, 2]


def test_controller_and_leader_killed_at_once(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        dead = (c.controller(), c.leader())
        for node_id in dead:
            c.world.kill(node_id)
        await c.send(10)
        for node_id in dead:
            c.world.start(node_id)
        await c.full_isr()
        assert acknowledged(c.client.history) == 30

    cluster.run(story)


def test_all_brokers_are_killed_at_once_and_return(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        for broker_id in c.world.brokers:
            c.world.kill(broker_id)
        await c.world.sleep(20_000)
        for broker_id in c.world.brokers:
            c.world.start(broker_id)
        await c.full_isr()
        await c.send(10)
        await c.full_isr()
        assert acknowledged(c.client.history) == 30

    cluster.run(story)


def test_every_node_is_killed_at_once_and_returns_within_its_session_timeout(
    cluster: Cluster,
) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        nodes = (*c.world.controllers, *c.world.brokers)
        for node_id in nodes:
            c.world.kill(node_id)
        await c.world.sleep(1_000)
        for node_id in nodes:
            c.world.start(node_id)
        await c.full_isr()
        await c.send(10)
        await c.full_isr()
        assert acknowledged(c.client.history) == 30

    cluster.run(story)


def test_brokers_stop_cleanly_one_after_another_without_an_error_to_a_client(
    cluster: Cluster,
) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        for broker_id in c.world.brokers:
            c.world.request_stop(broker_id)
            stopped = c.world.handle(broker_id)
            await c.world.eventually(lambda h=stopped: not h.is_running, 30_000, "a clean stop")  # type: ignore[misc]
            await c.send(5)
            c.world.start(broker_id)
            await c.full_isr()
        assert acknowledged(c.client.history) == 35

    cluster.run(story)
    unclean = [
        e for e in cluster.world.trace.events(EventKind.LEADER_ELECTED) if e.detail["unclean"]
    ]
    assert unclean == []


def test_controller_that_stops_cleanly_leaves_at_once(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        first = c.controller()
        c.world.request_stop(first)
        await c.world.eventually(
            lambda: c.world.active_controller() not in (None, first), 1_000, "a new controller"
        )
        await c.send(5)
        await c.full_isr()

    cluster.run(story)


def test_slow_follower_leaves_the_isr_and_joins_again(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        leader = c.leader()
        follower = next(b for b in c.world.brokers if b != leader)
        c.world.cut(node_name(follower), node_name(leader), Plane.REPLICATION)
        await c.send(5)
        state = c.world.partition_state(ORDERS)
        assert state is not None
        assert follower not in state.isr
        assert c.leader() == leader
        c.world.heal_all()
        await c.full_isr()
        assert acknowledged(c.client.history) == 25

    cluster.run(story)


@pytest.mark.parametrize("preset", CONTROLLED)
def test_deposed_leader_truncates_the_tail_that_nobody_else_has(
    preset: Preset, make_cluster: Callable[..., Cluster]
) -> None:
    cluster = make_cluster(preset=preset)

    async def story(c: Cluster) -> None:
        await c.begin()
        await c.world.sleep(6_000)  # every high watermark is in its checkpoint
        leader = c.leader()
        for other in c.world.brokers:
            if other != leader:
                c.world.cut(node_name(leader), node_name(other), Plane.REPLICATION)
        lonely = await c.client.send("orders", 0, "tail", 2_000, acks=1)
        assert lonely.offset == 20
        assert replica(c.world, leader).log_end_offset == 21
        await c.world.sleep(10)  # the cut holds messages that were under way to other nodes
        await c.world.sleep(10)  # the leader's messages to its followers have reached the cut
        c.world.kill(leader)
        c.world.heal_all()
        await c.send(3)
        c.world.start(leader)
        await c.full_isr()
        records = await c.client.read_all("orders", 0, 10_000)
        assert [record.value for record in records[20:]] == [
            b"order-0020",
            b"order-0021",
            b"order-0022",
        ]
        c.client.history[:] = [e for e in c.client.history if e.value != "tail"]

    cluster.run(story)
    truncated = cluster.world.trace.events(EventKind.LOG_TRUNCATED)
    assert (20, 21) in [(event.offset, event.detail["from_offset"]) for event in truncated]


def test_leader_that_was_paused_past_its_session_gives_way_and_follows(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        leader = c.leader()
        c.world.pause(leader)
        await c.world.eventually(lambda: c.leader() not in (leader, -1), 20_000, "another leader")
        await c.send(5)
        c.world.resume(leader)
        await c.full_isr()
        await c.send(5)
        await c.full_isr()
        assert acknowledged(c.client.history) == 30

    cluster.run(story)


def test_leader_cut_off_from_zookeeper_gives_way_and_registers_anew(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        leader = c.leader()
        c.world.cut(node_name(leader), ZOOKEEPER, Plane.ZOOKEEPER)
        await c.world.eventually(lambda: c.leader() not in (leader, -1), 20_000, "another leader")
        await c.send(5)
        c.world.heal_all()
        await c.full_isr()
        assert acknowledged(c.client.history) == 25

    cluster.run(story)


def test_controller_cut_off_from_zookeeper_is_replaced_and_stays_quiet(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        first = c.controller()
        c.world.cut(node_name(first), ZOOKEEPER, Plane.ZOOKEEPER)
        await c.world.eventually(
            lambda: len(c.world.trace.events(EventKind.CONTROLLER_ELECTED)) == 2,
            20_000,
            "a second election",
        )
        await c.send(5)
        c.world.heal_all()
        await c.world.eventually(
            lambda: c.world.active_controller() not in (None, first), 20_000, "one controller"
        )
        c.world.kill(c.leader())
        await c.send(5)
        for broker_id in c.world.brokers:
            if not c.world.handle(broker_id).is_running:
                c.world.start(broker_id)
        await c.full_isr()
        assert acknowledged(c.client.history) == 30

    cluster.run(story)


def test_every_connection_to_zookeeper_is_lost_and_comes_back(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        for node_id in (*c.world.controllers, *c.world.brokers):
            for session_id in c.world.zookeeper.session_ids(c.world.handle(node_id).name):
                c.world.zookeeper.lose_connection(session_id)
        await c.send(5)
        c.world.kill(c.leader())
        await c.send(5)
        for broker_id in c.world.brokers:
            if not c.world.handle(broker_id).is_running:
                c.world.start(broker_id)
        await c.full_isr()
        assert acknowledged(c.client.history) == 30

    cluster.run(story)


def test_bounced_broker_gets_its_replicas_again(cluster: Cluster) -> None:
    """The new registration replaces the old one between two reads. Source: KAFKA-7235."""

    async def story(c: Cluster) -> None:
        await c.begin()
        follower = next(b for b in c.world.brokers if b != c.leader())
        c.world.pause(c.controller())
        c.world.kill(follower)
        c.world.start(follower)
        await c.world.sleep(1_000)
        c.world.resume(c.controller())
        await c.full_isr()
        await c.send(5)
        await c.full_isr()
        assert acknowledged(c.client.history) == 25

    cluster.run(story)


def test_deleted_topic_leaves_no_znode_and_no_log(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        assert await c.client.delete_topic("orders", 30_000) is ErrorCode.NONE
        await c.world.eventually(
            lambda: not any("orders" in path for path in c.world.zookeeper.dump()),
            30_000,
            "no znode of the topic",
        )
        await c.world.eventually(
            lambda: not any(hosted_files(c.world, broker_id) for broker_id in c.world.brokers),
            120_000,
            "no file of the topic",
        )
        assert all(c.world.replica(broker_id, ORDERS) is None for broker_id in c.world.brokers)
        c.client.history.clear()

    cluster.run(story)


def hosted_files(world: World, broker_id: int) -> list[str]:
    files = world.brokers[broker_id].disk.files()
    return [
        path for path in files if path.startswith(("orders-0/", "orders-0-delete", "orders-0."))
    ]


def test_topic_is_created_again_after_its_deletion_and_starts_empty(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        assert await c.client.delete_topic("orders", 30_000) is ErrorCode.NONE
        c.client.history.clear()
        assert await c.client.create_topic("orders", 1, 3, 30_000) is ErrorCode.NONE
        await c.full_isr()
        await c.send(5)
        await c.full_isr()
        records = await c.client.read_all("orders", 0, 10_000)
        assert [record.offset for record in records] == list(range(5))

    cluster.run(story)
    elected = cluster.world.trace.events(EventKind.LEADER_ELECTED)
    began = cluster.world.trace.events(EventKind.BECAME_LEADER)
    lives = {event.topic_id for event in (*elected, *began) if event.topic == "orders"}
    assert len(lives) == (2 if cluster.world.topology.preset is Preset.FENCED else 1)


def test_every_topic_gets_an_id_of_its_own(make_cluster: Callable[..., Cluster]) -> None:
    """An id distinguishes a topic from a later one of the same name. Source: KIP-516."""
    cluster = make_cluster(preset=Preset.FENCED)

    async def story(c: Cluster) -> None:
        await c.begin()
        for name in ("payments", "refunds"):
            assert await c.client.create_topic(name, 2, 3, 30_000) is ErrorCode.NONE
        c.world.kill(c.controller())
        await c.world.eventually(lambda: c.world.active_controller() is not None, 20_000, "one")
        assert await c.client.create_topic("returns", 1, 3, 30_000) is ErrorCode.NONE

    cluster.run(story)
    created = cluster.world.trace.events(EventKind.TOPIC_CREATED)
    assert len({event.topic_id for event in created}) == len(created) == 4
