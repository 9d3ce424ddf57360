"""Syncs that do not return, on threads: late ends, a process that stood still, a process's end."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater_adapters.files import RealFileSystem
from highwater_adapters.syncs import TICKS
from highwater_core.ports import CannotStart
from tests.unit.adapters.node_process import run_to_the_end
from tests.unit.adapters.node_settings import Settings
from tests.unit.adapters.test_process import NodeThatWaits

WITHIN_S = 60
HOUR_S = 3_600.0


@pytest.fixture
def end_syncs(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let every sync return only once the event is set."""
    event = threading.Event()

    def sync(descriptor: int) -> None:
        assert event.wait(WITHIN_S)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync)
    return event


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 (nothing tells it)
            await asyncio.sleep(0)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_sync_that_returns_after_it_was_given_up_changes_nothing_any_more(
    tmp_path: Path, end_syncs: threading.Event
) -> None:
    hung: list[str] = []

    async def main() -> None:
        files = RealFileSystem(tmp_path)
        files.bound_syncs("", 20, lambda: hung.append("it hangs"))
        file = files.open("log")
        with pytest.raises(OSError, match="did not return"):
            await file.sync()
        file.close()
        assert is_open(file.fileno()), "a sync is under way, and the number may not be another's"
        end_syncs.set()
        await until(lambda: not is_open(file.fileno()))
        with pytest.raises(OSError, match="did not return"):
            await files.sync_folder("")
        files.close()

    asyncio.run(main())
    assert hung == ["it hangs"]


def test_a_sync_that_returns_when_the_loop_is_closed_is_forgotten(
    tmp_path: Path, end_syncs: threading.Event
) -> None:
    async def main() -> None:
        files = RealFileSystem(tmp_path)
        files.bound_syncs("", 20, lambda: None)
        with pytest.raises(OSError, match="did not return"):
            await files.sync_folder("")
        files.close()

    before = set(threading.enumerate())
    asyncio.run(main())
    (thread,) = set(threading.enumerate()) - before
    end_syncs.set()
    thread.join(WITHIN_S)
    assert not thread.is_alive()


def test_time_in_which_the_process_stands_still_does_not_count(
    tmp_path: Path, end_syncs: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop's clock jumps, as it does while a process is stopped; then the sync returns."""
    stood_still_s = [0.0]

    async def main() -> None:
        loop = asyncio.get_running_loop()
        real_time = loop.time
        monkeypatch.setattr(loop, "time", lambda: real_time() + stood_still_s[0])
        files = RealFileSystem(tmp_path)
        files.bound_syncs("", 600_000, lambda: pytest.fail("it hangs"))
        sync = asyncio.ensure_future(files.sync_folder(""))
        for _ in range(TICKS // 2):
            await asyncio.sleep(0)
            stood_still_s[0] += HOUR_S
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not sync.done()
        end_syncs.set()
        await sync
        files.close()

    asyncio.run(main())


def test_a_sync_whose_waiter_was_cancelled_hangs_the_next_one_of_the_file(
    tmp_path: Path, end_syncs: threading.Event
) -> None:
    async def main() -> None:
        files = RealFileSystem(tmp_path)
        files.bound_syncs("", 20, lambda: None)
        file = files.open("log")
        cancelled = asyncio.ensure_future(file.sync())
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(OSError, match="did not return"):
            await file.sync()
        file.close()
        end_syncs.set()
        await until(lambda: not is_open(file.fileno()))
        files.close()

    asyncio.run(main())


class NodeOnADiskThatHangs(NodeThatWaits):
    """Its syncs do not return; it stops, or does not start, in spite of it."""

    async def run(self) -> None:
        os.fsync = lambda descriptor: time.sleep(HOUR_S)  # type: ignore[assignment]
        self.ports.files.bound_syncs("", 50, lambda: None)
        try:
            await self.ports.files.sync_folder("")
        except OSError as error:
            if error.errno != errno.ETIMEDOUT:
                raise
            if self.settings.node_id == 8:
                raise CannotStart(str(error)) from error


@pytest.mark.parametrize(("node_id", "code"), [(7, 0), (8, 1)])
def test_a_process_ends_although_a_sync_does_not_return(
    tmp_path: Path, node_id: int, code: int
) -> None:
    settings = Settings(str(tmp_path), node_id=node_id)
    assert run_to_the_end(NodeOnADiskThatHangs, settings) == code
