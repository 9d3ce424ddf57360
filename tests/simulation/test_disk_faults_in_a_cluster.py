"""Stories of brokers whose disks lose power, fill up, fail, or flip a bit.

What may be lost: by a kill nothing; by a power loss what was not synced; by a bad disk nothing
that another replica has.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import pytest

from highwater_chaos.faults import DiskOperation, FileKind
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_simulator.client import SimulatedClient
from highwater_simulator.disk_faults import DiskFaults
from highwater_simulator.power_loss import Loss
from highwater_simulator.rng import SeededRng
from highwater_simulator.verification import ReplicaBatch, read_replica
from highwater_simulator.world import World

ORDERS = TopicPartition("orders", 0)
LOG = "orders-0/00000000000000000000.log"
OFTEN = {"log_flush_interval_ms": 500, "high_watermark_checkpoint_interval_ms": 300}
NEVER = {"log_flush_interval_ms": 10_000_000}


class Cluster(Protocol):
    world: World
    client: SimulatedClient
    sent: int

    def run(self, story: Callable[[Any], Coroutine[Any, Any, None]]) -> None: ...
    async def begin(self, records: int = 20) -> None: ...
    async def send(self, count: int) -> None: ...
    async def full_isr(self) -> None: ...
    def leader(self) -> int: ...


MakeCluster = Callable[..., Cluster]


def lose_power(world: World, broker_id: int) -> tuple[Loss, ...]:
    world.kill(broker_id)
    return world.brokers[broker_id].disk.lose_power()


def follower(c: Cluster) -> int:
    return next(broker for broker in c.world.brokers if broker != c.leader())


def batches(world: World, broker_id: int) -> list[ReplicaBatch]:
    return read_replica(world, broker_id, ORDERS)


async def start_dead(world: World) -> None:
    """Start whoever does not run, also those that cannot start at once."""

    def all_run() -> bool:
        for broker_id, handle in world.brokers.items():
            if not handle.is_running:
                world.start(broker_id)
        return all(handle.is_running for handle in world.brokers.values())

    await world.sleep(100)
    await world.eventually(all_run, 10_000, "all brokers run")
    await world.sleep(100)
    await world.eventually(all_run, 10_000, "all brokers stay")


# ---------------------------------------------------------------- kills and power losses


@pytest.mark.parametrize("seed", range(4))
def test_broker_that_lost_power_comes_back_with_a_whole_log_and_catches_up(
    seed: int, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(seed=seed, broker_settings={"log_flush_interval_ms": 700})

    async def story(c: Cluster) -> None:
        await c.begin()
        for _ in range(3):
            victim = c.leader()
            lose_power(c.world, victim)
            await c.send(7)
            c.world.start(victim)
            await c.full_isr()

    cluster.run(story)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_synced_survives_a_power_loss_of_all_nodes_and_nothing_torn_is_served(
    seed: int, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(seed=seed, broker_settings={"log_flush_interval_ms": 2_000})

    async def story(c: Cluster) -> None:
        await c.begin()
        await c.world.sleep(2_500)
        await c.send(15)
        for broker_id in c.world.brokers:
            lose_power(c.world, broker_id)
        for broker_id in c.world.brokers:
            c.world.start(broker_id)
        await c.full_isr()
        records = await c.client.read_all("orders", 0, 20_000)
        assert [record.value for record in records[:20]] == [b"order-%04d" % n for n in range(20)]
        c.client.history.clear()  # of the rest, what no disk had may be gone

    cluster.run(story)


def test_what_was_acknowledged_but_not_synced_survives_a_kill_of_all_nodes(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings=NEVER)

    async def story(c: Cluster) -> None:
        await c.begin()
        for broker_id in c.world.brokers:
            disk = c.world.brokers[broker_id].disk
            node = disk.root.files()[LOG]
            assert (node.synced_size, len(node.content) > 0) == (0, True)
            c.world.kill(broker_id)
        for broker_id in c.world.brokers:
            c.world.start(broker_id)
        await c.full_isr()

    cluster.run(story)


def test_what_was_acknowledged_but_not_synced_is_lost_by_a_power_loss_of_all_nodes(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings=NEVER)

    async def story(c: Cluster) -> None:
        await c.begin()
        held = batches(c.world, 0)
        assert len(held) == 20
        for broker_id in c.world.brokers:
            c.world.kill(broker_id)
            losses = c.world.brokers[broker_id].disk.lose_power(spares_nothing=True)
            lost = {loss.path.rpartition("/")[2]: loss.lost_bytes for loss in losses}
            assert lost[LOG.rpartition("/")[2]] == sum(len(batch.data) for batch in held)
        for broker_id in c.world.brokers:
            c.world.start(broker_id)
        await c.full_isr()
        assert batches(c.world, 0) == []
        c.client.history.clear()

    cluster.run(story)


def test_power_is_lost_again_and_again_during_recovery(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(seed=5, broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = follower(c)
        for pause_ms in (0, 1, 2, 4, 8, 30, 200):
            lose_power(c.world, victim)
            c.world.start(victim)
            await c.world.sleep(pause_ms)
        await c.send(5)
        await c.full_isr()

    cluster.run(story)


def test_wiped_broker_copies_everything_again(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.leader()
        c.world.kill(victim)
        assert LOG in [loss.path for loss in c.world.brokers[victim].disk.wipe()]
        await c.send(3)
        c.world.start(victim)
        await c.full_isr()

    cluster.run(story)


# ---------------------------------------------------------------- full and failing disks


@pytest.mark.parametrize("preset", list(Preset))
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
        victim = follower(c)
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


@pytest.mark.parametrize("preset", list(Preset))
@pytest.mark.parametrize("operation", list(DiskOperation))
def test_disks_that_answer_with_errors_end_no_broker_and_all_recovers_with_them(
    operation: DiskOperation, preset: Preset, make_cluster: MakeCluster
) -> None:
    """Every second operation of one kind fails, on all disks but one, while leaders change."""
    cluster = make_cluster(seed=2, preset=preset, broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        await c.world.sleep(1_000)
        failing = [c.leader(), follower(c)]
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
        await start_dead(c.world)
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
        victim = follower(c)
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
        victim = follower(c)
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
    """The controller does not repeat its command; the broker carries it out again itself."""
    cluster = make_cluster()

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
    """A disk that reads everything but the partition's folder."""

    def meet(self, operation: DiskOperation, path: str) -> None:
        if operation is DiskOperation.READ and path.startswith("orders-0/"):
            raise OSError(errno.EIO, "input/output error", path)


def test_log_that_could_not_be_read_at_the_start_keeps_its_high_watermark(
    make_cluster: MakeCluster,
) -> None:
    """Source: I15; KAFKA-1647: a checkpoint must not forget a replica that is not open."""
    cluster = make_cluster(broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        await c.world.sleep(1_000)
        victim = follower(c)
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


# ---------------------------------------------------------------- flipped bits


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [FileKind.INDEX, FileKind.CHECKPOINT, FileKind.EPOCHS])
def test_flipped_bit_beside_the_log_loses_nothing(
    kind: FileKind, seed: int, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(
        seed=seed, broker_settings={**OFTEN, "index_interval_bytes": 100, "segment_bytes": 1_000}
    )

    async def story(c: Cluster) -> None:
        await c.begin()
        await c.world.sleep(1_200)
        for broker_id in c.world.brokers:
            c.world.kill(broker_id)
        for broker_id in c.world.brokers:
            assert c.world.brokers[broker_id].disk.flip_bit(kind) is not None
            c.world.start(broker_id)
        await c.full_isr()
        await c.send(5)
        await c.full_isr()
        records = await c.client.read_all("orders", 0, 20_000)
        assert [record.offset for record in records] == list(range(25))

    cluster.run(story)


def test_flipped_bit_in_a_log_is_taken_by_no_follower(make_cluster: MakeCluster) -> None:
    """What lies below the recovery point is not read at the start; who fetches it refuses it."""
    cluster = make_cluster(broker_settings={**OFTEN, "index_interval_bytes": 100})

    async def story(c: Cluster) -> None:
        await c.begin()
        await c.world.sleep(1_200)
        leader = c.leader()
        for broker_id, handle in c.world.brokers.items():
            if broker_id != leader:
                c.world.kill(broker_id)
                handle.disk.wipe()
        await c.world.eventually(lambda: isr(c.world) == (leader,), 30_000, "an ISR of the leader")
        c.world.kill(leader)
        content = c.world.brokers[leader].disk.content(LOG)
        assert content is not None
        content[200] ^= 4
        c.world.start(leader)
        await c.world.eventually(lambda: c.leader() == leader, 30_000, "the old leader")
        await start_dead(c.world)
        wanted = {broker_id: 20 if broker_id == leader else 0 for broker_id in c.world.brokers}
        await c.world.eventually(lambda: ends(c.world) == wanted, 30_000, "that none takes it")
        await c.world.sleep(3_000)
        assert ends(c.world) == wanted

    cluster.world.run(story(cluster), 100_000)
    refused = cluster.world.trace.events(EventKind.REQUEST_REFUSED)
    assert any(event.detail["error"] == "CORRUPT_MESSAGE" for event in refused)


def isr(world: World) -> tuple[int, ...]:
    state = world.partition_state(ORDERS)
    return () if state is None else tuple(state.isr)


def ends(world: World) -> dict[int, int | None]:
    replicas = {broker_id: world.replica(broker_id, ORDERS) for broker_id in world.brokers}
    return {key: None if each is None else each.log_end_offset for key, each in replicas.items()}


# ---------------------------------------------------------------- an earlier topic's checkpoints


def test_topic_that_is_created_again_starts_without_its_predecessors_checkpoints(
    make_cluster: MakeCluster,
) -> None:
    """A kill before the next checkpoint must not turn what nobody committed into committed."""
    cluster = make_cluster(
        broker_settings={
            "log_flush_interval_ms": 3_600_000,
            "high_watermark_checkpoint_interval_ms": 5_000,
        }
    )

    async def story(c: Cluster) -> None:
        await c.begin()
        await c.world.sleep(5_100)
        assert await c.client.delete_topic("orders", 3_000) is ErrorCode.NONE
        await c.world.eventually(
            lambda: all(c.world.replica(b, ORDERS) is None for b in c.world.brokers), 3_000, "gone"
        )
        c.client.history.clear()
        assert await c.client.create_topic("orders", 1, 3, 3_000) is ErrorCode.NONE
        await c.world.eventually(
            lambda: all(c.world.replica(b, ORDERS) is not None for b in c.world.brokers), 900, "new"
        )
        for handle in c.world.brokers.values():
            listed = bytes(handle.disk.content("replication-offset-checkpoint") or b"")
            assert b"orders 0 20\n" not in listed
        await c.full_isr()

    cluster.run(story)
