"""The two clocks of a run: its own, from its start, and the wall clock of the nodes' traces."""

from __future__ import annotations

import time
from dataclasses import dataclass

from highwater.run_folder import RunFolder
from highwater_checker.run_folder.documents import CLOCK, RunStart


@dataclass(frozen=True, slots=True)
class RunClock:
    """A run's own clock, from its start: the clock of histories, looks, probes and intents."""

    start_monotonic_ns: int

    @classmethod
    def begin(cls, folder: RunFolder) -> RunClock:
        """Begin the run now, and write clock.json."""
        start_ns = time.monotonic_ns()
        folder.write(CLOCK, RunStart(start_ns, start_wall_ns=time.time_ns()))
        return cls(start_ns)

    def now_ns(self) -> int:
        """Return how long ago the run began."""
        return time.monotonic_ns() - self.start_monotonic_ns
