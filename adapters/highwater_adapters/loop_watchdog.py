"""Ends the process when its event loop does not turn, so that ZooKeeper drops its session.

kazoo's thread keeps a session alive even while the event loop hangs: the node would keep its
leaderships, and no other would take them over. The watchdog's own thread asks the loop to take a
step again and again, and counts its own ticks while the loop does not. So time in which the whole
process stands still (SIGSTOP, a paused container, a suspended machine) does not count, nor most of
the time that a busy machine withholds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable

from highwater_core.ports import Coordination, CoordinationFactory

LOOP_STALLED_EXIT_CODE = 75
"""EX_TEMPFAIL of sysexits.h: the event loop did not turn; the node may be started again."""
TICKS = 20
"""Ticks in a row without a turn of the loop, after which the process ends."""
_LOG_WITHIN_S = 1.0

_LOGGER = logging.getLogger("highwater")


class LoopWatchdog:
    """Watches the running loop, from `start` to `stop`. Made in the loop's own thread."""

    def __init__(self, stall_max_ms: int, end: Callable[[str], None] | None = None) -> None:
        """end: called with the stack of the loop's thread; without it the process ends."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stall_max_ms = stall_max_ms
        self._end = end or self._end_process
        self._has_turned = True
        self._silent_ticks = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def tick(self) -> None:
        """Check whether the loop has turned since the last tick, and ask it to turn again."""
        if self._has_turned:
            self._has_turned = False
            self._silent_ticks = 0
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                self._loop.call_soon_threadsafe(self._turn)
            return
        self._silent_ticks += 1
        if self._silent_ticks >= TICKS:
            frame = sys._current_frames().get(self._loop_thread)
            self._end("".join(traceback.format_stack(frame)))

    def _turn(self) -> None:
        self._has_turned = True

    def _run(self) -> None:
        while not self._stopping.wait(self._stall_max_ms / 1000 / TICKS):
            self.tick()

    def _end_process(self, stack: str) -> None:
        """Write the loop's stack, if possible, and end the process; hanging code may hold locks."""
        message = "the event loop has not turned for %d ms: the process ends"
        teller = threading.Thread(
            target=lambda: _LOGGER.critical(
                message, self._stall_max_ms, extra={"traceback": stack}
            ),
            daemon=True,
        )
        teller.start()
        teller.join(_LOG_WITHIN_S)
        os._exit(LOOP_STALLED_EXIT_CODE)


class WatchedSessions:
    """A CoordinationFactory whose first session starts the watchdog.

    Before that a node leads no partition, and may take long to recover its logs.
    """

    def __init__(self, factory: CoordinationFactory, watchdog: LoopWatchdog) -> None:
        self._factory = factory
        self._watchdog = watchdog

    async def open(self, session_timeout_ms: int) -> Coordination:
        session = await self._factory.open(session_timeout_ms)
        self._watchdog.start()
        return session
