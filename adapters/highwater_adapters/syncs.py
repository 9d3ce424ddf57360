"""Runs syncs on threads, and gives up those that do not return.

A disk that is dying, or a network's volume that is cut off, may keep a sync in the kernel for ever.
Nothing ends that thread: its waiters are released with an error, and the process can end without
it. A sync counts ticks of the event loop while it waits, as the loop's watchdog does. So time in
which the whole process stands still (SIGSTOP, a paused container, a suspended machine) is one tick
at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

TICKS = 20
"""Ticks during which a sync does not return, after which it counts as hanging."""

Work = Callable[[], None]


class SyncThreads:
    """Up to so many threads for one disk; the process does not wait for any of them to end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._works: SimpleQueue[Work | None] = SimpleQueue()
        self._started = 0
        self._unfinished = 0

    def run(self, work: Work) -> asyncio.Future[None]:
        """Have a thread do the work; its exception is the future's."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def settle(error: BaseException | None) -> None:
            self._unfinished -= 1
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(None)

        def on_thread() -> None:
            error = None
            try:
                work()
            except BaseException as met:  # noqa: BLE001 (handed on whole)
                error = met
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, error)

        self._unfinished += 1
        self._works.put(on_thread)
        if self._started < min(self._most, self._unfinished):
            self._started += 1
            threading.Thread(target=self._serve, name="sync", daemon=True).start()
        return future

    def close(self) -> None:
        """Let every thread end once it has no more work."""
        for _ in range(self._started):
            self._works.put(None)

    def _serve(self) -> None:
        while (work := self._works.get()) is not None:
            work()


class Disk:
    """The syncs in one folder: what they wait for, and whether one of them hangs."""

    def __init__(self, most_threads: int) -> None:
        self.threads = SyncThreads(most_threads)
        self._timeout_ms: int | None = None
        self._hangs: Callable[[], None] = lambda: None
        self._is_hanging = False
        self._waiting: dict[asyncio.Future[None], None] = {}
        """Set for each sync under way, to release its waiter."""

    def bound(self, timeout_ms: int, hangs: Callable[[], None]) -> None:
        """See `highwater_core.ports.FileSystem.bound_syncs`."""
        self._timeout_ms, self._hangs = timeout_ms, hangs

    def check(self) -> None:
        """Return unless a sync hangs.

        Raises:
            OSError: ETIMEDOUT.
        """
        if self._is_hanging:
            raise OSError(errno.ETIMEDOUT, f"a sync did not return: {os.strerror(errno.ETIMEDOUT)}")

    async def wait(self, work: asyncio.Future[None]) -> None:
        """Return once the work is done.

        Raises:
            OSError: the work's; ETIMEDOUT when it, or another sync of the disk, hangs.
        """
        if self._timeout_ms is None:
            await asyncio.shield(work)
            return
        release: asyncio.Future[None] = work.get_loop().create_future()
        self._waiting[release] = None
        either, tick_s = (work, release), self._timeout_ms / 1000 / TICKS
        try:
            for _ in range(TICKS):
                await asyncio.wait(either, timeout=tick_s, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
                    return
                if release.done():
                    break
        finally:
            del self._waiting[release]
        self._give_up()
        self.check()

    def _give_up(self) -> None:
        if self._is_hanging:
            return
        self._is_hanging = True
        self._hangs()
        for release in self._waiting:
            release.set_result(None)


class Syncs:
    """A file's syncs, or folders'. The next one raises the error of one whose waiter was cancelled.

    The kernel reports a failed write to one sync alone: a later sync of the same file succeeds.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._unheard: list[asyncio.Future[None]] = []
        self.in_flight = 0

    async def run(self, sync: Work, ended: Callable[[], None] | None = None) -> None:
        """Return once the sync is done, and every earlier one whose waiter was cancelled.

        ended: called when the sync ends, also without a waiter.

        Raises:
            OSError: one of them failed, or does not return.
        """
        self._disk.check()
        self.in_flight += 1
        works, self._unheard = [*self._unheard, self._disk.threads.run(sync)], []
        works[-1].add_done_callback(lambda work: self._ended(work, ended))
        try:
            while works:
                await self._disk.wait(works[0])
                works.pop(0)
        except OSError:
            works.pop(0)
            raise
        finally:
            self._unheard += works

    def _ended(self, work: asyncio.Future[None], ended: Callable[[], None] | None) -> None:
        self.in_flight -= 1
        work.exception()  # otherwise asyncio logs it where no sync follows
        if ended is not None:
            ended()
