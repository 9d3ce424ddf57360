"""Stories of brokers whose log folder fails while they serve: KIP-112.

A folder has failed once its disk refuses a few probes in a row. Its replicas lead no more and leave
the ISRs. The broker lives on, and hosts them again after a restart on a sound disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_broker.log_folders import LogFolders
from highwater_broker.node import BrokerNode
from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Step, Topic, Workload
from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_simulator.disk_tree import FolderNode
from highwater_simulator.runner import run_plan
from highwater_simulator.world import World
from tests.support.failover_story import create_orders
from tests.support.presets import each_preset

ORDERS = TopicPartition("orders", 0)
OFTEN = {"log_flush_interval_ms": 500, "high_watermark_checkpoint_interval_ms": 300}

Cluster = Any
"""conftest.Cluster."""


MakeCluster = Callable[..., Cluster]


def counters(world: World, broker: int) -> dict[str, int]:
    snapshot = world.snapshot(broker)
    return {} if snapshot is None else dict(snapshot.counters)


def isr(world: World) -> tuple[int, ...]:
    state = world.partition_state(ORDERS)
    return () if state is None else tuple(state.isr)


async def failed(c: Cluster, broker_id: int, others: tuple[int, ...]) -> None:
    """Have the broker's disk fail, and wait until others lead and are the whole ISR."""
    c.world.brokers[broker_id].disk.die()
    await c.world.eventually(
        lambda: sorted(isr(c.world)) == sorted(others) and c.leader() in others,
        30_000,
        "an ISR without the failed replica, and a leader in it",
    )


async def restarted(c: Cluster, broker_id: int) -> None:
    c.world.kill(broker_id)
    c.world.brokers[broker_id].disk.heal()
    c.world.start(broker_id)


@pytest.mark.parametrize("preset", each_preset())
@pytest.mark.parametrize("is_leader", [True, False])
def test_a_failed_folder_costs_its_replicas_and_not_the_broker(
    is_leader: bool, preset: Preset, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(preset=preset, broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.leader() if is_leader else c.follower()
        others = tuple(each for each in c.world.brokers if each != victim)
        await failed(c, victim, others)
        assert c.world.handle(victim).is_running
        assert c.world.hosted(victim, ORDERS) is None
        await c.send(5)
        announced = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/"
        assert [each for each in c.world.zookeeper.dump() if each.startswith(announced)] == []
        await restarted(c, victim)
        await c.full_isr()
        await c.send(5)
        await c.full_isr()

    cluster.run(story)
    told = cluster.world.trace.events(EventKind.LOG_FOLDER_FAILED, EventKind.REPLICAS_FAILED)
    assert [event.kind for event in told] == [
        EventKind.LOG_FOLDER_FAILED,
        EventKind.REPLICAS_FAILED,
    ]


def test_an_idle_folder_and_a_short_error_are_no_failure(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings={**OFTEN, "log_folder_probe_interval_ms": 2_000})

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.leader()
        c.world.brokers[victim].disk.die()
        await c.client.send("orders", 0, "refused", 1_000)
        await c.world.sleep(1_000)
        c.world.brokers[victim].disk.heal()
        await c.world.sleep(6_000)
        assert c.leader() == victim
        await c.send(5)
        await c.full_isr()

    cluster.run(story)
    assert cluster.world.trace.events(EventKind.LOG_FOLDER_FAILED) == []


def test_the_last_member_of_an_isr_leads_again_after_its_restart(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.leader()
        others = [each for each in c.world.brokers if each != victim]
        for each in others:
            c.world.kill(each)
        await c.world.eventually(lambda: isr(c.world) == (victim,), 30_000, "an ISR of one")
        await c.send(3)
        c.world.brokers[victim].disk.die()
        await c.world.eventually(lambda: c.leader() == -1, 30_000, "no leader")
        assert isr(c.world) == (victim,)
        await c.start_dead()
        await c.world.sleep(2_000)
        assert c.leader() == -1, "nobody else has the last records"
        await restarted(c, victim)
        await c.full_isr()
        await c.send(3)

    cluster.run(story)


def test_a_new_controller_learns_of_failed_folders(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.leader()
        others = tuple(each for each in c.world.brokers if each != victim)
        controller = c.controller()
        c.world.kill(controller)
        c.world.brokers[victim].disk.die()
        await c.client.send("orders", 0, "refused", 1_000)
        await failed(c, victim, others)
        c.world.start(controller)
        await c.world.eventually(lambda: c.world.active_controller() is not None, 30_000, "one")
        again = c.controller()
        c.world.kill(again)
        await c.world.eventually(
            lambda: c.world.active_controller() not in (None, again), 30_000, "the other"
        )
        await c.world.sleep(1_000)
        assert c.leader() in others
        await c.send(3)
        await restarted(c, victim)
        c.world.start(again)
        await c.full_isr()

    cluster.run(story)


def test_a_broker_that_stops_on_a_failed_folder_leaves_no_marker(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.follower()
        handle = c.world.brokers[victim]
        await failed(c, victim, tuple(each for each in c.world.brokers if each != victim))
        handle.disk.heal()
        checkpoint = bytes(handle.disk.content("replication-offset-checkpoint") or b"")
        c.world.request_stop(victim)
        await c.world.eventually(lambda: not handle.is_running, 30_000, "a stop")
        assert handle.disk.content(".kafka_cleanshutdown") is None
        assert bytes(handle.disk.content("replication-offset-checkpoint") or b"") == checkpoint
        c.world.start(victim)
        await c.full_isr()

    cluster.run(story)


# ---------------------------------------------------------------- several folders


TWO = {**OFTEN, "log_folders": "d0,d1"}


async def two_topics(c: Cluster) -> tuple[TopicPartition, TopicPartition]:
    """Start all, with a partition in each broker's first folder and one in its second."""
    await c.begin()
    other = TopicPartition("payments", 0)
    await c.client.create_topic("payments", 1, 3, 3_000)
    await c.world.eventually(
        lambda: c.world.is_replicated(other, c.world.brokers), 30_000, "all replicas"
    )
    return ORDERS, other


def folder_of(world: World, broker_id: int, at: TopicPartition) -> str:
    names = ("d0", "d1")
    return next(each for each in names if world.brokers[broker_id].disk.find(f"{each}/{at}"))


@pytest.mark.parametrize("preset", each_preset())
def test_one_of_two_folders_fails_and_the_other_goes_on(
    preset: Preset, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(preset=preset, broker_settings=TWO)

    async def story(c: Cluster) -> None:
        at, other = await two_topics(c)
        victim = c.leader()
        folder = folder_of(c.world, victim, at)
        assert folder_of(c.world, victim, other) != folder
        others = sorted(each for each in c.world.brokers if each != victim)
        c.world.brokers[victim].disk.die(folder)
        await c.client.send("orders", 0, "refused", 1_000)
        await c.world.eventually(
            lambda: sorted(isr(c.world)) == others and c.leader() in others, 30_000, "another"
        )
        assert c.world.is_replicated(other, c.world.brokers), "the other folder is sound"
        assert counters(c.world, victim)["offline_replicas"] == 1
        await c.send(5)
        later = TopicPartition("later", 0)
        await c.client.create_topic("later", 1, 3, 3_000)
        await c.world.eventually(
            lambda: c.world.is_replicated(later, c.world.brokers), 30_000, "a new replica"
        )
        assert folder_of(c.world, victim, later) != folder, "new replicas go to the sound folder"
        await restarted(c, victim)
        assert counters(c.world, victim)["offline_replicas"] == 0
        await c.full_isr()
        await c.send(5)

    cluster.run(story)


def give_up_all(self: LogFolders, name: str) -> list[TopicPartition]:
    for folder in self._folders:
        folder.is_failed = True
    return sorted(self._homes)


def test_a_broker_that_does_not_serve_its_sound_folder_any_more_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Plan(
        1,
        topology=PlanTopology(controllers=1, broker_settings=OFTEN, log_folders_per_broker=2),
        workload=Workload((Topic(partitions=2),)),
        steps=(Step(500, f.FailFolder("leader of t-0", folder=0)),),
        quiet_after_ms=4_000,
    )
    assert run_plan(plan).violation is None
    monkeypatch.setattr(LogFolders, "fail", give_up_all)
    monkeypatch.setattr(
        BrokerNode, "_announce_folders", lambda self: self._commander.folders_changed()
    )
    found = run_plan(plan).violation
    assert found is not None
    assert (found.invariant, found.topic, found.partition) == ("L11", "t", 1)
    assert "does not serve it" in found.message


def test_both_folders_of_a_broker_fail_and_it_is_started_again_in_the_end() -> None:
    both = tuple(Step(500, f.FailFolder("broker-1", folder=each)) for each in (0, 1))
    plan = Plan(
        1,
        topology=PlanTopology(controllers=1, broker_settings=OFTEN, log_folders_per_broker=2),
        workload=Workload((Topic(partitions=2),)),
        steps=both,
        quiet_after_ms=6_000,
    )
    result = run_plan(plan)
    assert (result.violation, len(result.outcome.fired)) == (None, 2)


def test_a_folder_that_is_broken_at_the_start_costs_its_replicas_only(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings=TWO)

    async def story(c: Cluster) -> None:
        at, other = await two_topics(c)
        victim = c.follower()
        c.world.kill(victim)
        c.world.brokers[victim].disk.die(folder_of(c.world, victim, at))
        c.world.start(victim)
        await c.world.eventually(
            lambda: c.world.is_replicated(other, c.world.brokers), 30_000, "the sound folder's"
        )
        await c.world.eventually(lambda: victim not in isr(c.world), 30_000, "an ISR without it")
        assert c.world.hosted(victim, at) is None
        await c.send(5)
        await restarted(c, victim)
        await c.full_isr()

    cluster.run(story)


def test_a_broker_all_of_whose_folders_failed_stops_and_returns(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(broker_settings=TWO)

    async def story(c: Cluster) -> None:
        _, other = await two_topics(c)
        victim = c.leader()
        handle = c.world.brokers[victim]
        handle.disk.die("d0")
        handle.disk.die("d1")
        await c.client.send("orders", 0, "refused", 1_000)
        await c.client.send("payments", 0, "refused", 1_000)
        await c.world.eventually(lambda: not handle.is_running, 60_000, "the broker's stop")
        await c.send(5)
        handle.disk.heal()
        c.world.start(victim)
        await c.full_isr()
        await c.world.eventually(
            lambda: c.world.is_replicated(other, c.world.brokers), 30_000, "all replicas"
        )

    cluster.run(story)


async def with_another_disk(c: Cluster, victim: int, disk: FolderNode) -> FolderNode:
    """Start the broker with this disk in place of its first log folder; return that one's."""
    c.world.kill(victim)
    root = c.world.brokers[victim].disk.root
    away = root.entries["d0"]
    root.assign(("d0", disk))
    root.mark_synced(root.change_count)
    c.world.start(victim)
    assert isinstance(away, FolderNode)
    return away


def storage_id(world: World, broker_id: int) -> str | None:
    found = world.zookeeper.data(znodes.broker_path(NodeId(broker_id)))
    return None if found is None else znodes.decode_storage_id(found[0], NodeId(broker_id))


def test_a_topic_created_again_while_a_disk_was_away_keeps_its_records(
    make_cluster: MakeCluster,
) -> None:
    """The old topic's log has the later leader epoch, and belongs to nobody any more."""
    cluster = make_cluster(preset=Preset.FENCED, broker_settings=TWO)

    async def story(c: Cluster) -> None:
        at, _ = await two_topics(c)
        first = c.leader()
        c.world.kill(first)
        await c.world.eventually(lambda: c.leader() not in (first, -1), 60_000, "another leader")
        c.world.start(first)
        await c.send(5)
        await c.full_isr()
        victim = c.follower()
        assert folder_of(c.world, victim, at) == "d0"
        disk = await with_another_disk(c, victim, FolderNode())
        await c.full_isr()
        assert await c.client.delete_topic("orders", 20_000) is ErrorCode.NONE
        c.client.history.clear()
        for filler in ("in d0", "in d0 too"):
            await c.client.create_topic(filler.replace(" ", "-"), 1, 3, 20_000)
        await create_orders(c.world, c.client)
        await c.send(10)
        await c.full_isr()
        assert folder_of(c.world, victim, at) == "d1"
        before = storage_id(c.world, victim)
        await with_another_disk(c, victim, disk)
        await c.world.eventually(
            lambda: storage_id(c.world, victim) not in (before, None), 60_000, "another storage id"
        )
        await c.full_isr()
        assert folder_of(c.world, victim, at) == "d1"
        await c.send(5)
        await c.full_isr()

    cluster.run(story)
    told = cluster.world.trace.events(EventKind.BAD_INPUT_MET)
    assert [each.detail["what"] for each in told if "another folder" in each.detail["what"]]
