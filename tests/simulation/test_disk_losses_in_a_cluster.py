"""Stories of brokers whose disks lose power, are wiped, or flip a bit.

A kill may lose nothing; a power loss may lose unsynced data only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_broker.log.segment import Segment
from highwater_chaos.faults import FileKind
from highwater_checker.segments import Batch
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import Offset, TopicPartition
from highwater_simulator.files import Disk
from highwater_simulator.oracle.checkpoints import read_checkpoint
from highwater_simulator.power_loss import Loss
from highwater_simulator.replicas_on_disk import read_replica
from highwater_simulator.world import World

ORDERS = TopicPartition("orders", 0)
LOG = "orders-0/00000000000000000000.log"
OFTEN = {"log_flush_interval_ms": 500, "high_watermark_checkpoint_interval_ms": 300}
NEVER = {"log_flush_interval_ms": 10_000_000}


Cluster = Any
"""conftest.Cluster."""


MakeCluster = Callable[..., Cluster]


def lose_power(world: World, broker_id: int) -> tuple[Loss, ...]:
    world.kill(broker_id)
    return world.brokers[broker_id].disk.lose_power()


def batches(world: World, broker_id: int) -> tuple[Batch, ...]:
    return read_replica(world, broker_id, ORDERS).batches


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
def test_synced_records_survive_a_power_loss_of_all_nodes_and_nothing_torn_is_served(
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
        c.client.history.clear()  # later records that no disk had may be gone

    cluster.run(story)


def test_acknowledged_unsynced_records_survive_a_kill_of_all_nodes(
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


def test_acknowledged_unsynced_records_are_lost_by_a_power_loss_of_all_nodes(
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
        assert batches(c.world, 0) == ()
        c.client.history.clear()

    cluster.run(story)


def test_power_is_lost_again_and_again_during_recovery(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(seed=5, broker_settings=OFTEN)

    async def story(c: Cluster) -> None:
        await c.begin()
        victim = c.follower()
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


# ---------------------------------------------------------------- flipped bits


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [kind for kind in FileKind if "log" not in kind])
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
    """A start does not read below the recovery point; a follower refuses the batch it fetches."""
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
        await c.start_dead()
        await c.world.eventually(lambda: len(refusals(c.world)) > 4, 30_000, "refused batches")
        wanted = {broker_id: 20 if broker_id == leader else 0 for broker_id in c.world.brokers}
        assert ends(c.world) == wanted

    cluster.world.run(story(cluster), 100_000)


def refusals(world: World) -> list[TraceEvent]:
    refused = world.trace.events(EventKind.REQUEST_REFUSED)
    return [event for event in refused if event.detail["error"] == "CORRUPT_MESSAGE"]


def isr(world: World) -> tuple[int, ...]:
    state = world.partition_state(ORDERS)
    return () if state is None else tuple(state.isr)


def ends(world: World) -> dict[int, int | None]:
    replicas = {broker_id: world.replica(broker_id, ORDERS) for broker_id in world.brokers}
    return {key: None if each is None else each.log_end_offset for key, each in replicas.items()}


# ---------------------------------------------------------------- retention

RETAINING = {
    **OFTEN,
    "segment_bytes": 400,
    "retention_bytes": 500,
    "log_retention_check_interval_ms": 200,
}
LOG_STARTS = "log-start-offset-checkpoint"


def durable_log_start(disk: Disk) -> int:
    """Return the checkpointed log start; the file's content must be durable."""
    node = disk.root.files()[LOG_STARTS]
    assert node.synced_size == len(node.content)
    return read_checkpoint(bytes(node.content))[ORDERS]


def test_a_segment_is_removed_only_once_the_log_start_is_on_the_disk(
    make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster(broker_settings=RETAINING)
    removed: list[Offset] = []
    remove = Segment.remove

    def checked_remove(segment: Segment) -> None:
        disk = segment._files._disk  # type: ignore[attr-defined]
        assert segment.next_offset <= durable_log_start(disk)
        removed.append(Offset(segment.next_offset))
        remove(segment)

    monkeypatch.setattr(Segment, "remove", checked_remove)

    async def story(c: Cluster) -> None:
        await c.begin(10)
        for _ in range(4):
            await c.send(5)
            await c.world.sleep(300)
        await c.full_isr()
        c.client.history.clear()  # of records that retention removed

    cluster.run(story)
    assert len(removed) > 9, "of each of three brokers"


def logs(c: Cluster) -> list[tuple[str, ...]]:
    """Return each broker's files of the partition."""
    return [
        tuple(sorted(path for path in broker.disk.files() if path.startswith(f"{ORDERS}/")))
        for broker in c.world.brokers.values()
    ]


def test_a_full_disk_gets_room_by_retention_though_no_checkpoint_can_be_written(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings={**RETAINING, "log_retention_check_interval_ms": 2_000})

    async def story(c: Cluster) -> None:
        await c.begin(30)
        disk = c.world.brokers[0].disk
        assert LOG in disk.files()
        disk.fill()
        await c.world.eventually(lambda: LOG not in disk.files(), 5_000, "room")
        disk.make_room()
        await c.full_isr()
        await c.world.eventually(lambda: len(set(logs(c))) == 1, 5_000, "retention everywhere")
        c.client.history.clear()

    cluster.run(story)


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("end", ["kill", "power loss", "reboot after a stop"])
def test_a_broker_starts_on_a_full_disk_and_retention_makes_room(
    end: str, victim: int, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(
        preset=Preset.FENCED,
        broker_settings={**RETAINING, "log_retention_check_interval_ms": 10_000},
    )

    async def story(c: Cluster) -> None:
        await c.begin(30)
        await c.world.sleep(1_000)  # the log is flushed
        broker, disk = c.world.brokers[victim], c.world.brokers[victim].disk
        if end == "reboot after a stop":
            c.world.request_stop(victim)
            await c.world.eventually(lambda: not broker.is_running, 9_000, "a clean stop")
        else:
            c.world.kill(victim)
        if end != "kill":
            disk.lose_power()
        disk.fill()
        assert LOG in disk.files()
        c.world.start(victim)
        await c.world.eventually(
            lambda: c.world.replica(victim, ORDERS) is not None, 9_000, "a replica with its log"
        )
        assert LOG in disk.files()
        await c.world.eventually(lambda: LOG not in disk.files(), 15_000, "room")
        disk.make_room()
        await c.full_isr()
        c.client.history.clear()

    cluster.run(story, retention=True)


@pytest.mark.parametrize("seed", [0, 3, 6, 11])
def test_a_power_loss_around_retention_loses_nothing_that_was_on_the_disk(
    seed: int, make_cluster: MakeCluster
) -> None:
    """All brokers lose power at once, so that none can copy records from another."""
    cluster = make_cluster(
        seed=seed, broker_settings={**RETAINING, "log_flush_interval_ms": 100 + 60 * seed}
    )

    async def story(c: Cluster) -> None:
        await c.begin(10)
        for _ in range(3):
            await c.send(6)
            await c.world.sleep(90 * (seed % 5))
            points = {each: recovery_point(c.world, each) for each in c.world.brokers}
            starts = len(recovered_ends(c.world, 0))
            for broker_id in c.world.brokers:
                lose_power(c.world, broker_id)
            for broker_id in c.world.brokers:
                c.world.start(broker_id)
            for broker_id, point in points.items():
                await c.world.eventually(
                    lambda at=broker_id, n=starts: len(recovered_ends(c.world, at)) > n,
                    5_000,
                    "a log",
                )
                assert recovered_ends(c.world, broker_id)[starts] >= point
            await c.full_isr()
        c.client.history.clear()  # later records that no disk had may be gone

    cluster.run(story, retention=True)


def recovery_point(world: World, broker_id: int) -> int:
    content = world.brokers[broker_id].disk.content("recovery-point-offset-checkpoint")
    return read_checkpoint(bytes(content or b"")).get(ORDERS, 0)


def recovered_ends(world: World, broker_id: int) -> list[int]:
    """Return the log's end at each time it was opened."""
    events = world.trace.events(EventKind.LOG_RECOVERED)
    return [int(event.offset or 0) for event in events if event.node == broker_id]


# ---------------------------------------------------------------- an earlier topic's checkpoints


def test_topic_that_is_created_again_starts_without_its_predecessors_checkpoints(
    make_cluster: MakeCluster,
) -> None:
    """A kill before the next checkpoint must not make uncommitted records look committed."""
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
