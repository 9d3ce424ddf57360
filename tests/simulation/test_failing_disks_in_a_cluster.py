"""Stories of brokers whose disks fill up or answer with errors: they refuse, and recover."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from highwater_chaos.faults import DiskOperation
from highwater_core.config import Preset
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_simulator.disk_faults import DiskFaults
from highwater_simulator.rng import SeededRng
from highwater_simulator.world import World
from tests.support.presets import CONTROLLED

ORDERS = TopicPartition("orders", 0)
OFTEN = {"log_flush_interval_ms": 500, "high_watermark_checkpoint_interval_ms": 300}


Cluster = Any
"""conftest.Cluster."""


MakeCluster = Callable[..., Cluster]


def isr(world: World) -> tuple[int, ...]:
    state = world.partition_state(ORDERS)
    return () if state is None else tuple(state.isr)


# ---------------------------------------------------------------- full and failing disks


@pytest.mark.parametrize("preset", CONTROLLED)
def test_full_disk_of_a_leader_refuses_records_until_there_is_room(
    preset: Preset, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(preset=preset, broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        disk = c.world.brokers[c.leader()].disk
        disk.fill()
        outcome = await c.client.send("orders", 0, "refused", 2_000)
        assert outcome.error == "KAFKA_STORAGE_ERROR"
        disk.make_room()
        await c.send(5)
        await c.full_isr()

    cluster.run(story)


def test_follower_with_a_full_disk_leaves_the_isr_and_returns_when_there_is_room(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.follower()
        c.world.brokers[victim].disk.fill()
        await c.send(5)
        assert victim not in isr(c.world)
        c.world.brokers[victim].disk.make_room()
        await c.full_isr()

    cluster.run(story)


def test_recovery_points_advance_again_once_a_full_disk_has_room(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings={**OFTEN, "index_interval_bytes": 100})

    async def story(c: Cluster) -> None:
        await c.begin()
        handle = c.world.brokers[c.leader()]
        handle.disk.fill(free_bytes=300)
        await c.client.send("orders", 0, "order-0020", 1_000)
        await c.world.sleep(2_000)
        handle.disk.make_room()
        await c.send(5)
        await c.full_isr()
        await c.world.sleep(2_000)
        hosted = c.world.hosted(int(handle.node_id), ORDERS)
        assert hosted is not None
        assert hosted.log.recovery_point == hosted.log.log_end_offset
        c.client.history[:] = [e for e in c.client.history if e.operation_id != 20]

    cluster.run(story)


@pytest.mark.parametrize("is_full", [False, True])
def test_retention_on_a_disk_that_refuses_to_write_is_no_loss_after_a_kill(
    is_full: bool, make_cluster: MakeCluster
) -> None:
    """A log that begins above its checkpointed start has lost records. Seed 1000525, disks."""
    settings = {"segment_bytes": 300, "retention_bytes": 900}
    seldom = {"log_retention_check_interval_ms": 5_000}
    cluster = make_cluster(broker_settings=OFTEN | settings | seldom)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.follower()
        handle = c.world.brokers[victim]
        segments = [path for path in handle.disk.files() if path.endswith(".log")]
        await c.send(20)
        if is_full:
            handle.disk.fill()
        else:
            handle.disk.fail(DiskOperation.TRUNCATE)
        await c.world.sleep(6_000)
        remaining = [path for path in segments if path in handle.disk.files()]
        assert len(remaining) == (0 if is_full else len(segments)), "a full disk gets room"
        c.world.kill(victim)
        handle.disk.heal()
        c.world.start(victim)
        await c.full_isr()
        met = [event.detail["what"] for event in c.world.trace.events(EventKind.BAD_INPUT_MET)]
        assert not [what for what in met if "log begins" in what]

    cluster.world.run(story(cluster), 60_000)


@pytest.mark.parametrize("preset", CONTROLLED)
@pytest.mark.parametrize("operation", list(DiskOperation))
def test_disks_that_answer_with_errors_end_no_broker_and_all_recovers_with_them(
    operation: DiskOperation, preset: Preset, make_cluster: MakeCluster
) -> None:
    """Every second operation of one kind fails, on all disks but one, while leaders change."""
    cluster = make_cluster(seed=2, preset=preset, broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        await c.world.sleep(1_000)
        failing = [c.leader(), c.follower()]
        for broker_id in failing:
            c.world.brokers[broker_id].disk.fail(operation, percent=50)
        for number in range(6):
            await c.client.send("orders", 0, f"maybe-{number}", 1_500)
        first = c.leader()
        c.world.kill(first)
        await c.world.eventually(lambda: c.leader() not in (first, -1), 30_000, "a leader")
        for number in range(6, 9):
            await c.client.send("orders", 0, f"maybe-{number}", 1_500)
        c.world.start(first)
        await c.world.sleep(1_000)
        for broker_id in failing:
            c.world.brokers[broker_id].disk.heal()
        await c.start_dead()
        await c.full_isr()
        await c.send(3)
        await c.full_isr()

    cluster.run(story)


@pytest.mark.parametrize("fault", ["full", "sync", "rename", "read"])
def test_broker_that_cannot_start_on_its_disk_stops_and_starts_when_it_is_well(
    fault: str, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster()

    async def story(c: Cluster) -> None:
        await c.begin(5)
        victim = c.follower()
        disk = c.world.brokers[victim].disk
        c.world.kill(victim)
        disk.wipe() if fault != "read" else None
        disk.fill() if fault == "full" else disk.fail(DiskOperation(fault))
        c.world.start(victim)
        await c.world.eventually(
            lambda: not c.world.handle(victim).is_running, 5_000, "the broker's stop"
        )
        await c.send(3)
        disk.heal()
        c.world.start(victim)
        await c.full_isr()

    cluster.run(story)


def test_broker_on_a_failing_disk_stops_cleanly_but_leaves_no_marker(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster()

    async def story(c: Cluster) -> None:
        await c.begin(5)
        victim = c.follower()
        handle = c.world.brokers[victim]
        handle.disk.fail(DiskOperation.RENAME)
        c.world.request_stop(victim)
        await c.world.eventually(lambda: not handle.is_running, 30_000, "a stop")
        assert handle.disk.content(".kafka_cleanshutdown") is None
        handle.disk.heal()
        c.world.start(victim)
        await c.full_isr()

    cluster.run(story)


@pytest.mark.parametrize("fault", ["full", "append"])
def test_replica_that_the_disk_refused_to_create_is_created_when_it_is_well(
    fault: str, make_cluster: MakeCluster
) -> None:
    """The broker gets the controller to send the command again; its folder is not failed yet."""
    cluster = make_cluster(broker_settings={"log_folder_probe_attempts": 100})

    async def story(c: Cluster) -> None:
        await c.begin(5)
        for handle in c.world.brokers.values():
            handle.disk.fill() if fault == "full" else handle.disk.fail(DiskOperation.APPEND)
        await c.client.create_topic("payments", 1, 3, 3_000)
        payments = TopicPartition("payments", 0)
        assert all(c.world.replica(broker_id, payments) is None for broker_id in c.world.brokers)
        for handle in c.world.brokers.values():
            handle.disk.heal()
        await c.world.eventually(
            lambda: c.world.is_replicated(payments, c.world.brokers), 30_000, "all replicas"
        )

    cluster.run(story)


class FailsToReadLogs(DiskFaults):
    """A disk that cannot read the partition's folder."""

    def meet(self, operation: DiskOperation, path: str) -> None:
        if operation is DiskOperation.READ and path.startswith("orders-0/"):
            raise OSError(errno.EIO, "input/output error", path)


def test_log_that_could_not_be_read_at_the_start_keeps_its_high_watermark(
    make_cluster: MakeCluster,
) -> None:
    """A checkpoint must keep a replica whose log is not open. Source: I15; KAFKA-1647."""
    cluster = make_cluster(broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        await c.world.sleep(1_000)
        victim = c.follower()
        disk = c.world.brokers[victim].disk
        c.world.kill(victim)
        disk.faults = FailsToReadLogs(SeededRng(0))
        c.world.start(victim)
        await c.world.sleep(8_000)
        assert c.world.replica(victim, ORDERS) is None
        assert b"orders 0 20\n" in bytes(disk.content("replication-offset-checkpoint") or b"")
        disk.heal()
        await c.full_isr()

    cluster.run(story)
    started = cluster.world.trace.events(EventKind.REPLICA_STARTED)
    assert [event.detail["high_watermark"] for event in started] == [0, 0, 0, 20]
