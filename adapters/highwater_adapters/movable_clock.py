"""A node whose wall clock faults can move, by a library that its process loads (libfaketime).

    python -m highwater_adapters.movable_clock LIBRARY OFFSET -- python -m MODULE ARGUMENTS...

OFFSET is a file with how far the clock is moved, in seconds ("+3600.000"); the library reads it
again once a second. Without it the clock is right. The monotonic clock is left alone, so timeouts
last as long as ever, and so are the times of files, which are the kernel's.

The node's traces are evidence. They are stamped by `true_time_ns`, which asks libc itself for the
machine's clock, and not the library before it.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import select
import sys
import time
from collections.abc import Callable

_OFFSET = "FAKETIME_TIMESTAMP_FILE"
_LIBC = "libc.so.6"
_REALTIME = 0
"""CLOCK_REALTIME of clock_gettime(2)."""
LOOKS = 5
NS_PER_MS = 1_000_000


def main(arguments: list[str]) -> None:
    """Run the command with a clock that can be moved; the process is the command's from then on."""
    if arguments[2:5] == ["--", "python", "-m"] and len(arguments) > 5:
        os.environ |= environment(*arguments[:2])
        # Again, and not the module itself: its process has to do without the library's sleep.
        os.execvp("python", ["python", "-m", "highwater_adapters.movable_clock", *arguments[5:]])  # noqa: S606, S607 (the container's own command)
    if _OFFSET not in os.environ or not arguments:
        raise SystemExit(
            "usage: python -m highwater_adapters.movable_clock LIBRARY OFFSET -- "
            "python -m MODULE ARGUMENTS..."
        )
    time.sleep = sleep  # type: ignore[assignment]  # (SupportsIndex is a float to it)
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def environment(library: str, offset: str) -> dict[str, str]:
    """Return the variables of a process whose clock the library moves, by the file's offset."""
    return {
        "LD_PRELOAD": library,
        _OFFSET: offset,
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }


def sleep(seconds: float) -> None:
    """Sleep by the monotonic clock, as time.sleep does.

    Source: issue 426 of wolfcw/libfaketime. Up to 0.9.10 it subtracts its own start from the
    absolute monotonic time that Python 3.11 sleeps until, and the kernel refuses the result.
    """
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        select.select((), (), (), left)


def moved_by_ms() -> int:
    """Return how far this process's wall clock is from the machine's; 0 where none can be moved.

    Of several looks the shortest counts: the machine may do other work in the middle of one.
    """
    if _OFFSET not in os.environ:
        return 0
    looks = []
    for _ in range(LOOKS):
        before_ns, own_ns, after_ns = true_time_ns(), time.time_ns(), true_time_ns()
        looks.append((after_ns - before_ns, own_ns - before_ns))
    return round(min(looks)[1] / NS_PER_MS)


def _machine_time_ns() -> Callable[[], int]:
    """Return the function that reads CLOCK_REALTIME past a library that is loaded before libc."""
    read = ctypes.CDLL(_LIBC).clock_gettime

    def time_ns() -> int:
        timespec = (ctypes.c_int64 * 2)()
        read(_REALTIME, timespec)
        return int(timespec[0]) * 1_000_000_000 + int(timespec[1])

    return time_ns


true_time_ns = _machine_time_ns() if _OFFSET in os.environ else time.time_ns
"""Returns nanoseconds since 1970 by the machine's clock, which no fault moves."""

if __name__ == "__main__":
    main(sys.argv[1:])
