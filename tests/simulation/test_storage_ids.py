"""The storage id that a broker registers after each way in which it may have ended."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from highwater_broker.log.checkpoints import CLEAN_SHUTDOWN_MARKER
from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.ids import NodeId
from highwater_simulator.files import SimulatedFile
from highwater_simulator.world import World

VICTIM = 2


def registered(world: World) -> str | None:
    """Return the storage id that the victim has registered, None while it is not registered."""
    found = world.zookeeper.data(znodes.broker_path(NodeId(VICTIM)))
    return None if found is None else znodes.decode_storage_id(found[0], NodeId(VICTIM))


async def stop(world: World) -> None:
    world.request_stop(VICTIM)
    await world.eventually(lambda: not world.handle(VICTIM).is_running, 10_000, "a clean stop")


async def end_by_kill(world: World) -> None:
    world.kill(VICTIM)


async def end_by_power_loss(world: World) -> None:
    world.kill(VICTIM)
    world.brokers[VICTIM].disk.lose_power()


async def end_by_wiping(world: World) -> None:
    await stop(world)
    world.brokers[VICTIM].disk.wipe()


async def end_by_stop(world: World) -> None:
    await stop(world)


async def end_by_power_loss_after_a_stop(world: World) -> None:
    await stop(world)
    world.brokers[VICTIM].disk.lose_power()


async def end_by_stop_whose_flush_failed_and_power_loss(world: World) -> None:
    """Unflushed data may be lost, so that the stop must not count as clean."""
    disk = world.brokers[VICTIM].disk
    sync = SimulatedFile.sync

    async def refuse_the_logs(file: SimulatedFile) -> None:
        if file._disk is disk and file.path.endswith(".log"):
            raise OSError(errno.EIO, "input/output error", file.path)
        await sync(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedFile, "sync", refuse_the_logs)
        await stop(world)
    assert disk.content(CLEAN_SHUTDOWN_MARKER) is None
    disk.lose_power()


async def end_by_kill_with_a_damaged_log(world: World) -> None:
    world.kill(VICTIM)
    content = world.brokers[VICTIM].disk.content(f"orders-0/{0:020d}.log")
    assert content
    content[70] ^= 1


async def end_by_kill_with_a_damaged_length(world: World) -> None:
    world.kill(VICTIM)
    content = world.brokers[VICTIM].disk.content(f"orders-0/{0:020d}.log")
    assert content
    content[9] ^= 1


async def end_by_session_expiry(world: World) -> None:
    world.zookeeper.expire(world.zookeeper.session_ids("broker-2")[-1])


@pytest.mark.parametrize(
    ("end", "is_kept"),
    [
        (end_by_kill, True),
        (end_by_stop, True),
        (end_by_power_loss_after_a_stop, True),
        (end_by_session_expiry, True),
        (end_by_power_loss, False),
        (end_by_wiping, False),
        (end_by_stop_whose_flush_failed_and_power_loss, False),
        (end_by_kill_with_a_damaged_log, False),
        (end_by_kill_with_a_damaged_length, False),
    ],
)
def test_a_broker_names_other_contents_only_when_something_may_be_lost(
    end: Callable[[World], Any], is_kept: bool, make_cluster: Callable[..., Any]
) -> None:
    cluster = make_cluster(
        preset=Preset.FENCED, broker_settings={"log_flush_interval_ms": 10_000_000}
    )

    async def story(c: Any) -> None:
        await c.begin(5)
        before = registered(c.world)
        await end(c.world)
        await c.world.eventually(lambda: registered(c.world) is None, 20_000, "its session's end")
        if not c.world.handle(VICTIM).is_running:
            c.world.start(VICTIM)
        await c.world.eventually(lambda: registered(c.world) is not None, 20_000, "its return")
        assert before
        assert (registered(c.world) == before) == is_kept
        await c.full_isr()

    cluster.run(story)


def test_v3_brokers_name_no_contents(make_cluster: Callable[..., Any]) -> None:
    cluster = make_cluster(preset=Preset.V3)

    async def story(c: Any) -> None:
        await c.begin(5)
        assert registered(c.world) == ""

    cluster.run(story)
    assert "storage.properties" not in cluster.world.brokers[VICTIM].disk.files()
