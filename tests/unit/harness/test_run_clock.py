"""A run's start is recorded by both clocks; one that is set while the run goes on is noticed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.run_folder import RunFolder
from highwater.runs.clock import KEPT_TIME, MOST_STEP_NS, READ_WITHIN_NS, RunClock
from highwater_checker.run_folder.documents import CLOCK


def test_a_runs_start_is_on_disk_by_both_clocks(tmp_path: Path) -> None:
    before_ns = time.time_ns()
    clock = RunClock.begin(RunFolder(tmp_path / "run"))
    start = CLOCK.read(tmp_path / "run")
    assert start is not None
    assert start.start_monotonic_ns == clock.start_monotonic_ns
    assert start.start_wall_ns is not None
    assert before_ns <= start.start_wall_ns <= time.time_ns()
    assert 0 <= clock.now_ns() <= time.monotonic_ns() - clock.start_monotonic_ns


class Machine:
    """Two clocks that go alike until somebody sets one, and a thread that may wait between them."""

    def __init__(self) -> None:
        self.monotonic_ns, self.wall_ns, self.waits_ns = 5_000, 1_700_000_000_000_000_000, 0

    def clock(self) -> RunClock:
        return RunClock(monotonic_ns=lambda: self.monotonic_ns, wall_ns=self._read_wall)

    def _read_wall(self) -> int:
        self.pass_ns(self.waits_ns)
        return self.wall_ns

    def pass_ns(self, ns: int) -> None:
        self.monotonic_ns += ns
        self.wall_ns += ns


def _is_set(machine: Machine, clock: RunClock) -> None:
    machine.wall_ns -= 3_000_000_000


def _is_set_and_set_back(machine: Machine, clock: RunClock) -> None:
    machine.wall_ns += 3_600_000_000_000
    clock.now_ns()
    machine.wall_ns -= 3_600_000_000_000


def _sleeps(machine: Machine, clock: RunClock) -> None:
    machine.wall_ns += 60_000_000_000


def _goes_on(machine: Machine, clock: RunClock) -> None:
    machine.pass_ns(60_000_000_000)


def _is_corrected_a_little(machine: Machine, clock: RunClock) -> None:
    machine.wall_ns += MOST_STEP_NS


def _is_busy(machine: Machine, clock: RunClock) -> None:
    machine.waits_ns = 30 * READ_WITHIN_NS


@pytest.mark.parametrize(
    ("happen", "told"),
    [
        (_is_set, "moved by -3.000 s"),
        (_is_set_and_set_back, "moved by +3600.000 s"),
        (_sleeps, "moved by +60.000 s"),
        (_goes_on, ""),
        (_is_corrected_a_little, ""),
        (_is_busy, ""),
    ],
)
def test_a_run_whose_machine_had_its_clock_set_is_told(
    happen: Callable[[Machine, RunClock], None], told: str
) -> None:
    machine = Machine()
    clock = machine.clock()
    clock.now_ns()
    happen(machine, clock)
    kept = clock.kept_time()
    assert (kept.name, kept.met) == (KEPT_TIME, not told)
    assert told in kept.evidence
