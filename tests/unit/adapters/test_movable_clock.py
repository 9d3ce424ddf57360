"""A process whose wall clock a library moves. The library itself is tried in containers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from highwater_adapters import movable_clock
from highwater_adapters.movable_clock import moved_by_ms, sleep, true_time_ns

MOVABLE = ("-m", "highwater_adapters.movable_clock")
TOLD_BY = ("python", "-m", "told")
TOLD = """\
import os, sys, time
from highwater_adapters.movable_clock import sleep
print(__name__, sys.argv, os.environ["LD_PRELOAD"], os.environ["FAKETIME_TIMESTAMP_FILE"])
print(time.sleep is not sleep, time.sleep.__qualname__)
"""


def test_the_command_runs_with_the_library_and_its_file_and_another_sleep(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(TOLD, encoding="utf-8")
    (tmp_path / "python").symlink_to(sys.executable)
    path = os.pathsep.join((str(tmp_path), *sys.path))
    done = subprocess.run(
        [sys.executable, *MOVABLE, "none.so", "offset", "--", *TOLD_BY, "a bug", "a node"],
        env={"PATH": str(tmp_path), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    named, slept = done.stdout.splitlines()
    assert named.startswith("__main__ ['")
    assert named.endswith("/told.py', 'a bug', 'a node'] none.so offset")
    assert slept == "True sleep", "it is the sleep of the module that was run, as __main__"


@pytest.mark.parametrize("arguments", [[], ["told"], ["a", "b", "--", "python"], ["a", "b", "c"]])
def test_another_command_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"usage: python -m highwater_adapters\.movable_clock"):
        movable_clock.main(arguments)


def test_a_clock_that_cannot_be_moved_is_the_machines() -> None:
    assert moved_by_ms() == 0
    assert true_time_ns is time.time_ns


def test_a_moved_clock_is_read_beside_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look in whose middle the process waits for the processor does not count."""
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", "offset")
    machine = iter((0, 900, 1_000, 1_002, 2_000, 2_700, 3_000, 3_600, 4_000, 4_500))
    own = iter((9_900, 11_001, 12_690, 13_590, 14_490))
    for place, name, times in ((movable_clock, "true_time_ns", machine), (time, "time_ns", own)):
        monkeypatch.setattr(place, name, lambda times=times: next(times) * 1_000_000)
    assert moved_by_ms() == 10_001


def test_the_machines_clock_is_read_without_the_library() -> None:
    read = movable_clock._machine_time_ns()
    before_ns, read_ns, after_ns = time.time_ns(), read(), time.time_ns()
    assert before_ns <= read_ns <= after_ns


def test_sleep_lasts_as_long_as_asked_and_takes_no_negative_time() -> None:
    begun = time.monotonic()
    sleep(0.02)
    assert time.monotonic() - begun >= 0.02
    sleep(0)
    with pytest.raises(ValueError, match="must be non-negative"):
        sleep(-1)
