"""A run's start is recorded by both clocks, so that traces and histories share an axis."""

from __future__ import annotations

import time
from pathlib import Path

from highwater.run_folder import RunFolder
from highwater.runs.clock import RunClock
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
