"""The two clocks of a run: its own, from its start, and the wall clock of the nodes' traces."""

from __future__ import annotations

import time
from collections.abc import Callable

from highwater.run_folder import RunFolder
from highwater_checker.run_folder.documents import CLOCK, RunStart
from highwater_checker.verdict import Requirement

KEPT_TIME = "the machine's clock was not set while the run went on"
MOST_STEP_NS = 10_000_000
"""On Linux time servers slew both clocks alike; a step, or a sleep, moves the wall clock alone."""
_FIRST_READINGS = 10
"""One of them is close, unless the machine is very busy."""
READ_WITHIN_NS = 1_000_000
"""Clocks that were read further apart, since the thread had to wait, tell nothing."""


class RunClock:
    """A run's own clock, from its start: the clock of histories, looks, probes and intents.

    Traces of different nodes are ordered by the machine's wall clock. `now_ns`, which looks call
    many times a second, notices when somebody sets it.
    """

    def __init__(
        self,
        *,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Begin now."""
        self._monotonic_ns, self._wall_ns = monotonic_ns, wall_ns
        self.start_monotonic_ns = monotonic_ns()
        self.start_wall_ns = wall_ns()
        self._ahead_ns: int | None = None
        """The wall clock's reading less the monotonic one's, at the first close reading."""
        self._step_ns = 0
        for _ in range(_FIRST_READINGS):
            self.now_ns()

    @classmethod
    def begin(cls, folder: RunFolder) -> RunClock:
        """Begin the run now, and write clock.json."""
        clock = cls()
        folder.write(CLOCK, RunStart(clock.start_monotonic_ns, clock.start_wall_ns))
        return clock

    def now_ns(self) -> int:
        """Return how long ago the run began."""
        before_ns = self._monotonic_ns()
        wall_ns = self._wall_ns()
        if self._monotonic_ns() - before_ns <= READ_WITHIN_NS:
            self._compare(wall_ns - before_ns)
        return before_ns - self.start_monotonic_ns

    def kept_time(self) -> Requirement:
        """Return whether the wall clock went as the monotonic one did, so far.

        A machine that slept moves it, too: its monotonic clock stood still.
        """
        self.now_ns()
        told = (
            f"it was moved by {self._step_ns / 1e9:+.3f} s, or the machine slept: events of "
            "different nodes cannot be put in order"
        )
        met = abs(self._step_ns) <= MOST_STEP_NS
        return Requirement(KEPT_TIME, met, "" if met else told)

    def _compare(self, ahead_ns: int) -> None:
        """Keep the largest step. Threads may race: one that is lost is found by the next call."""
        if self._ahead_ns is None:
            self._ahead_ns = ahead_ns
        step_ns = ahead_ns - self._ahead_ns
        if abs(step_ns) > abs(self._step_ns):
            self._step_ns = step_ns
