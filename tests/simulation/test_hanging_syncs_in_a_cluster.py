"""Stories of brokers whose disk lets no sync return, while everything else goes on in the cache.

Found: such a broker led for ever and carried out no command; with two log folders the one that hung
held up the other's flushes, checkpoints and retention; a stop did not end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from tests.support.presets import each_preset

Cluster = Any
"""conftest.Cluster."""

MakeCluster = Callable[..., Cluster]

ORDERS = TopicPartition("orders", 0)
TIMEOUT_MS = 10_000
ONE = {
    "log_flush_interval_ms": 500,
    "high_watermark_checkpoint_interval_ms": 300,
    "log_retention_check_interval_ms": 700,
    "log_folder_sync_timeout_ms": TIMEOUT_MS,
}
TWO = {**ONE, "log_folders": "d0,d1"}


def others_than(c: Cluster, broker_id: int) -> list[int]:
    return [each for each in c.world.brokers if each != broker_id]


async def led_by_others(c: Cluster, victim: int) -> None:
    """Wait until the other brokers lead and are the whole ISR."""

    def has_left() -> bool:
        state = c.world.partition_state(ORDERS)
        return state is not None and state.leader != victim and victim not in state.isr

    await c.world.eventually(has_left, TIMEOUT_MS + 20_000, "another leader, an ISR without it")


async def new_topic(c: Cluster, name: str, brokers: list[int]) -> None:
    """Create a topic, and wait until the brokers have its replicas."""
    at = TopicPartition(name, 0)
    await c.client.create_topic(name, 1, 3, 30_000)
    await c.world.eventually(
        lambda: all(c.world.hosted(each, at) is not None for each in brokers), 30_000, "replicas"
    )


async def restarted(c: Cluster, broker_id: int) -> None:
    c.world.kill(broker_id)
    c.world.brokers[broker_id].disk.heal()
    c.world.start(broker_id)


def failures(c: Cluster) -> list[TraceEvent]:
    return list(c.world.trace.events(EventKind.LOG_FOLDER_FAILED))


@pytest.mark.parametrize("preset", each_preset())
@pytest.mark.parametrize("is_leader", [True, False])
def test_a_sync_that_does_not_return_costs_the_folders_replicas(
    is_leader: bool, preset: Preset, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(preset=preset, broker_settings=ONE)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.leader() if is_leader else c.follower()
        c.world.brokers[victim].disk.hang()
        await c.send(5)
        await led_by_others(c, victim)
        await c.send(5)
        await new_topic(c, "later", others_than(c, victim))
        assert c.world.hosted(victim, TopicPartition("later", 0)) is None
        assert c.world.handle(victim).is_running
        (failure,) = failures(c)
        assert (failure.node, failure.detail["folder"]) == (victim, "")
        assert f"a sync has not returned for {TIMEOUT_MS} ms" in failure.detail["what"]
        files = c.world.brokers[victim].disk.files()
        assert "probe.tmp" not in files, "a probe might hang the broker itself"
        await restarted(c, victim)
        await c.full_isr()
        await c.send(5)

    cluster.run(story)


def test_a_command_whose_sync_hangs_is_answered_and_the_next_ones_carried_out(
    make_cluster: MakeCluster,
) -> None:
    """No log is flushed meanwhile: the command itself finds out that the disk hangs."""
    settings = {**TWO, "log_flush_interval_ms": 10**9, "log_retention_check_interval_ms": 10**9}
    settings["high_watermark_checkpoint_interval_ms"] = 10**9
    cluster = make_cluster(broker_settings=settings)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim, at = c.leader(), TopicPartition("first", 0)
        c.world.brokers[victim].disk.hang("d1")
        await c.client.create_topic("first", 1, 3, 30_000)
        await led_or_left(c, victim, at)
        assert [each.detail["folder"] for each in failures(c)] == ["d1"]
        assert c.leader() == victim, "its other folder is sound"
        await new_topic(c, "second", list(c.world.brokers))
        await restarted(c, victim)
        await c.full_isr()

    cluster.run(story)


async def led_or_left(c: Cluster, victim: int, at: TopicPartition) -> None:
    def is_elsewhere() -> bool:
        state = c.world.partition_state(at)
        return state is not None and state.leader in others_than(c, victim)

    await c.world.eventually(is_elsewhere, TIMEOUT_MS + 20_000, "a leader whose disk works")


def test_a_folder_that_hangs_does_not_hold_up_the_other_ones_work(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings=TWO)

    async def story(c: Cluster) -> None:
        await c.begin()
        await new_topic(c, "payments", list(c.world.brokers))
        other = TopicPartition("payments", 0)
        victim = c.leader()
        disk = c.world.brokers[victim].disk
        hanging = next(each for each in ("d0", "d1") if disk.find(f"{each}/{ORDERS}"))
        sound = "d1" if hanging == "d0" else "d0"
        disk.hang(hanging)
        for number in range(3):
            await c.client.send("payments", 0, f"record {number}", 3_000)
        await c.world.sleep(2_000)
        assert failures(c) == []
        log = c.world.hosted(victim, other).log
        assert log.recovery_point == log.log_end_offset == 3
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            assert f"{other.topic} {other.partition} 3" in disk.content(f"{sound}/{name}").decode()
        await led_by_others(c, victim)
        assert [each.detail["folder"] for each in failures(c)] == [hanging]
        assert c.world.is_replicated(other, c.world.brokers), "the other folder is sound"
        await restarted(c, victim)
        await c.full_isr()

    cluster.run(story)


def test_a_broker_all_of_whose_folders_hang_stops(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(broker_settings=TWO)

    async def story(c: Cluster) -> None:
        await c.begin()
        await new_topic(c, "payments", list(c.world.brokers))
        victim = c.leader()
        c.world.brokers[victim].disk.hang()
        for topic in ("orders", "payments"):
            await c.client.send(topic, 0, "a record", 3_000)
        handle = c.world.handle(victim)
        await c.world.eventually(lambda: not handle.is_running, 2 * TIMEOUT_MS + 20_000, "its stop")
        handle.disk.heal()
        c.world.start(victim)
        await c.full_isr()

    cluster.run(story)


@pytest.mark.parametrize("settings", [ONE, TWO])
@pytest.mark.parametrize("after_ms", [0, 2_000, TIMEOUT_MS + 2_000])
def test_a_broker_whose_disk_hangs_stops_when_it_is_asked_to_and_leaves_no_marker(
    after_ms: int, settings: dict[str, object], make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(broker_settings=settings)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.leader()
        handle = c.world.handle(victim)
        handle.disk.hang()
        await c.client.send("orders", 0, "a record", 3_000)
        await c.world.sleep(after_ms)
        if handle.is_running:
            c.world.request_stop(victim)
        await c.world.eventually(lambda: not handle.is_running, 2 * TIMEOUT_MS + 10_000, "a stop")
        files = handle.disk.files()
        assert [each for each in files if each.endswith(".kafka_cleanshutdown")] == []
        handle.disk.heal()
        c.world.start(victim)
        await c.full_isr()

    cluster.run(story)


def test_a_slow_disk_is_no_hanging_one(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(broker_settings=ONE)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.leader()
        c.world.brokers[victim].disk.slow_down(delay_ms=TIMEOUT_MS - 1_000)
        await c.send(5)
        await c.world.sleep(4 * TIMEOUT_MS)
        assert (failures(c), c.leader()) == ([], victim)
        c.world.brokers[victim].disk.heal()
        await c.full_isr()

    cluster.run(story)


def test_a_folder_that_hangs_at_the_start_costs_its_replicas_only(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings=TWO)

    async def story(c: Cluster) -> None:
        await c.begin()
        await new_topic(c, "payments", list(c.world.brokers))
        victim, other = c.follower(), TopicPartition("payments", 0)
        disk = c.world.brokers[victim].disk
        c.world.kill(victim)
        disk.hang(next(each for each in ("d0", "d1") if disk.find(f"{each}/{ORDERS}")))
        c.world.start(victim)
        await led_by_others(c, victim)
        await c.world.eventually(
            lambda: c.world.is_replicated(other, c.world.brokers), 30_000, "the sound folder's"
        )
        assert c.world.hosted(victim, ORDERS) is None
        await restarted(c, victim)
        await c.full_isr()

    cluster.run(story)
