"""`python -m bench.pipeline.small_run`: from the command to the page, by each engine.

The demo's run in the simulator, 130,000 rows, is checked, measured and reported by `highwater
pipeline run` in a process of its own, into a store of its own, by the engines in turns, so that
other load on the machine disturbs both. Needs both extras and Java.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bench.command import result_name, run_command, write_result
from bench.machine import Machine, describe_machine, load_average
from bench.report import machine_line, markdown_table
from bench.summary import format_summary, summarize
from highwater.errors import HarnessError
from highwater.output import say
from highwater_pipeline.engines import Engine

WITHIN_S = 1_800
ENGINES = (Engine.LOCAL, Engine.SPARK)


@dataclass(frozen=True, slots=True)
class Reported:
    """One command of one round: its wall time, and the CPU time of it and its children."""

    engine: Engine
    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class SmallRun:
    """The measured commands; machine: its state during the rounds."""

    date: str
    machine: Machine
    reported: tuple[Reported, ...]


def _highwater(*words: str) -> tuple[float, float]:
    """Run the command; return its wall and CPU time, in seconds.

    Raises:
        HarnessError: its exit code is not 0.
    """
    began, before = time.perf_counter(), os.times()
    command = [sys.executable, "-c", "from highwater.cli import main; main()", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    after = os.times()
    if ended.returncode:
        raise HarnessError(f"{' '.join(words)} ended with {ended.returncode}: {ended.stderr}")
    cpu_s = after.children_user + after.children_system
    return time.perf_counter() - began, cpu_s - before.children_user - before.children_system


def measure_in_turns(run: Path, rounds: int, scratch: Path) -> list[Reported]:
    reported = []
    for number in range(rounds):
        for engine in ENGINES:
            place = scratch / f"{engine}-{number}"
            where = ("--store", str(place / "tables"), "--out", str(place / "page"))
            spent = _highwater("pipeline", "run", str(run), "--engine", engine, *where)
            reported.append(Reported(engine, *spent))
            say(f"{engine}: {spent[0]:.1f} s")
    return reported


def table_rows(reported: Sequence[Reported]) -> list[list[str]]:
    """Return a row an engine: seconds from the command to its end, and seconds of CPU."""
    rows = []
    for engine in dict.fromkeys(each.engine for each in reported):
        own = [each for each in reported if each.engine == engine]
        wall = summarize([each.seconds for each in own])
        cpu = summarize([each.cpu_s for each in own])
        rows.append([engine.value, format_summary(wall), format_summary(cpu)])
    return rows


def measure(
    rounds: Annotated[int, typer.Option(min=1, help="How often each engine does it.")] = 3,
) -> None:
    """Measure `highwater pipeline run` over one small run, by each engine."""
    load = load_average()
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as folder:
        scratch = Path(folder)
        _highwater("demo", "--world", "sim", "--runs", str(scratch / "runs"))
        run = (scratch / "runs" / "latest").resolve()
        reported = measure_in_turns(run, rounds, scratch)
    date = datetime.now(UTC)
    machine = describe_machine("none", "none", load)
    result = SmallRun(f"{date:%Y-%m-%d %H:%M} UTC", machine, tuple(reported))
    lines = [
        f"Measured {result.date}; min / median / max (n).",
        "",
        machine_line(machine),
        "",
        *markdown_table(["engine", "s", "s of CPU"], table_rows(reported)),
    ]
    print("\n".join(lines))
    say(str(write_result(result, f"small-run-{result_name(date)}")))


if __name__ == "__main__":
    run_command("bench.pipeline.small_run", measure)
