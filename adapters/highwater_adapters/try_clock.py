"""Tells whether a library moves this process's wall clock, and leaves its waits alone.

    python -m highwater_adapters.movable_clock LIBRARY OFFSET -- \
        python -m highwater_adapters.try_clock OFFSET

Versions of the library differ in what they do to waits. The program ends with 0, or with 1 and a
line that says which wait or which reading of the clock is wrong.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from highwater_adapters.movable_clock import moved_by_ms

MOVED_BY_S = 86_400
NOTICED_WITHIN_S = 5.0
WAIT_S = 0.05
TOO_LATE_S = 5.0


def main(offset: str) -> str:
    """Return what is wrong, "" when nothing is."""
    for moved_by_s in (MOVED_BY_S, -MOVED_BY_S):
        Path(offset).write_text(f"{moved_by_s:+}.000", encoding="ascii")
        until = time.monotonic() + NOTICED_WITHIN_S
        while abs(moved_by_ms() / 1000 - moved_by_s) > 1:
            if time.monotonic() > until:
                return f"a clock moved by {moved_by_s} s is off by {moved_by_ms()} ms"
            threading.Event().wait(WAIT_S)
        for name, wait in _WAITS.items():
            took_s = _seconds(wait)
            if not WAIT_S * 0.9 <= took_s < TOO_LATE_S:
                return f"a wait of {WAIT_S} s ({name}) took {took_s:.3f} s, clock {moved_by_s:+} s"
    return ""


def _seconds(wait: Callable[[], object]) -> float:
    begun = time.monotonic()
    wait()
    return time.monotonic() - begun


def _acquire() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=WAIT_S)


_WAITS: dict[str, Callable[[], object]] = {
    "time.sleep": lambda: time.sleep(WAIT_S),
    "threading.Event": lambda: threading.Event().wait(WAIT_S),
    "threading.Lock": _acquire,
    "asyncio": lambda: asyncio.run(asyncio.sleep(WAIT_S)),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) or 0)
