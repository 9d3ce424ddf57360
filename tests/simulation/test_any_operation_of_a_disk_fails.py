"""Any one operation of a broker's disk fails: the broker lives on, or traces why it cannot."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_simulator.disk import Disk
from highwater_simulator.files import SimulatedFile, SimulatedFileSystem

VICTIM = 2
OPERATION_COUNT = 268
"""About the number of operations in a_busy_life."""

BUSY = {
    "log_flush_interval_ms": 300,
    "high_watermark_checkpoint_interval_ms": 300,
    "log_retention_check_interval_ms": 400,
    "replica_lag_time_max_ms": 1_000,
    "session_timeout_ms": 1_000,
    "segment_bytes": 400,
    "retention_bytes": 600,
    "index_interval_bytes": 100,
}
ASYNC = ("sync", "sync_folder", "sync_many")
OPERATIONS: dict[type, tuple[str, ...]] = {
    SimulatedFile: ("append", "pread", "truncate", "sync"),
    SimulatedFileSystem: (
        "open", "make_folder", "exists", "list", "rename", "remove", "sync_folder", "sync_many",
    ),
}  # fmt: skip


class FailingDisk:
    """Counts a disk's operations, and has one of them fail."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.disk: Disk | None = None
        self.fails_at: int | None = None
        self.count = 0
        for owner, names in OPERATIONS.items():
            for name in names:
                patch.setattr(owner, name, self._wrapped(owner, name))

    def _wrapped(self, owner: type, name: str) -> Callable[..., Any]:
        real = getattr(owner, name)

        def maybe_fail(port: Any, *args: Any, **named: Any) -> Any:
            self._meet(port, name, args)
            return real(port, *args, **named)

        async def maybe_fail_later(port: Any, *args: Any) -> None:
            self._meet(port, name, args)
            await real(port, *args)

        return maybe_fail_later if name in ASYNC else maybe_fail

    def _meet(self, port: Any, name: str, args: tuple[Any, ...]) -> None:
        if port._disk is not self.disk or not port._runtime.is_alive:
            return
        self.count += 1
        if self.count == self.fails_at:
            raise OSError(errno.EIO, "input/output error", f"{name} {args}")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    return FailingDisk(monkeypatch)


async def a_busy_life(c: Any, failing: FailingDisk) -> None:
    """Appends, retention, a kill, deletion and creation, a clean stop, all with the victim."""
    await c.begin(5)
    failing.disk = c.world.brokers[VICTIM].disk
    await c.send(4)
    await c.world.sleep(900)
    c.world.kill(VICTIM)
    await c.start_dead()
    await c.send(2)
    assert await c.client.delete_topic("orders", 20_000) is ErrorCode.NONE
    await c.world.sleep(300)
    c.client.history.clear()
    c.sent = 0
    if await c.client.create_topic("orders", 1, 3, 20_000) is not ErrorCode.NONE:
        # A replica that the disk did not delete is deleted once its broker has restarted.
        c.world.kill(VICTIM)
        await c.world.sleep(2_000)
        await c.start_dead()
        await c.world.sleep(2_000)
        assert await c.client.create_topic("orders", 1, 3, 20_000) is ErrorCode.NONE
    await c.send(4)
    c.world.request_stop(VICTIM)
    await c.world.eventually(lambda: not c.world.handle(VICTIM).is_running, 20_000, "a stop")
    await c.start_dead()
    await c.send(2)
    failing.disk = None
    # After a failed sync the file is never trusted again: only a new process opens that log.
    c.world.kill(VICTIM)
    await c.start_dead()
    await c.full_isr()


def live(make_cluster: Any, failing: FailingDisk, fails_at: int | None) -> None:
    failing.fails_at = fails_at
    cluster = make_cluster(preset=Preset.FENCED, broker_settings=BUSY)
    cluster.run(lambda c: a_busy_life(c, failing))


def test_a_busy_life_has_so_many_operations(make_cluster: Any, failing: FailingDisk) -> None:
    live(make_cluster, failing, None)
    assert abs(failing.count - OPERATION_COUNT) < 40


@pytest.mark.parametrize("fails_at", range(1, OPERATION_COUNT, 9))
def test_a_broker_outlives_a_failing_operation_or_says_that_it_cannot_start(
    fails_at: int, make_cluster: Any, failing: FailingDisk
) -> None:
    live(make_cluster, failing, fails_at)


@pytest.mark.full
@pytest.mark.parametrize("fails_at", range(1, OPERATION_COUNT))
def test_a_broker_outlives_each_failing_operation_or_says_that_it_cannot_start(
    fails_at: int, make_cluster: Any, failing: FailingDisk
) -> None:
    live(make_cluster, failing, fails_at)
