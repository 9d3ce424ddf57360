"""The two clocks of a run: its own, from its start, and the wall clock that nodes trace by."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from highwater.run_folder import RunFolder
from highwater_checker.run_folder.names import CLOCK


class RunClock(msgspec.Struct, frozen=True):
    """When a run began, by the machine's monotonic clock and by its wall clock since 1970.

    Histories, looks, probes and intents count from the first; containers have the second, so that
    ts_ns - start_wall_ns is a trace event's time in the run.
    """

    start_monotonic_ns: int
    start_wall_ns: int

    @classmethod
    def begin(cls, folder: RunFolder) -> RunClock:
        """Let the run begin now, and write down when that was."""
        clock = cls(time.monotonic_ns(), time.time_ns())
        folder.write_json(CLOCK, clock)
        return clock

    def now_ns(self) -> int:
        """Return how long ago the run began."""
        return time.monotonic_ns() - self.start_monotonic_ns


def read_run_clock(folder: Path) -> RunClock:
    """Return what the run's folder says.

    Raises:
        OSError, msgspec.DecodeError: it does not say.
    """
    return msgspec.json.decode((folder / CLOCK).read_bytes(), type=RunClock)
