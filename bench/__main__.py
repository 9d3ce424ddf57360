"""`python -m bench`: measures Highwater; with --kafka also Apache Kafka, in the same run.

Progress goes to stderr, the tables to stdout, everything as JSON to bench/results/.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bench.apache_kafka.jars import KafkaMissing
from bench.apache_kafka.system import ApacheKafkaSystem
from bench.command import result_name, run_command, write_result
from bench.in_turns import measured
from bench.report import markdown, print_result, replace_between
from bench.rounds import measure_all
from bench.systems import HighwaterSystem, System
from bench.targets import Part, judge_targets, make_repetitions, rows
from bench.trend import add_line, line_of
from highwater.checkout import commit_here
from highwater.errors import HarnessError
from highwater.output import RESULTS, say

BEGIN_MARK = "<!-- bench: begin -->"
END_MARK = "<!-- bench: end -->"


def bench(
    kafka: Annotated[bool, typer.Option("--kafka", help="Apache Kafka too, in turns.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions.")] = False,
    only: Annotated[
        list[Part] | None, typer.Option("--only", help="This part alone, or several.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the tables between this file's bench marks."),
    ] = None,
    trend: Annotated[
        Path | None,
        typer.Option("--trend", help="Add the medians to this file, a line a bench."),
    ] = None,
) -> None:
    """Measure bring-up, failover, throughput, latency and memory."""
    if only and (into or trend):
        raise HarnessError("--markdown and --trend are of a whole bench: not with --only")
    for path in (into, trend):
        if path is not None and not path.parent.is_dir():
            raise HarnessError(f"{path.parent} is no folder")
    repetitions = make_repetitions(quick=quick)
    parts = frozenset(only or Part)
    systems, notes = _systems(kafka)
    fast = HighwaterSystem(toggles={"fast_failure_detection": True})
    date, began_s = datetime.now(UTC), time.monotonic()
    result = measured(
        systems,
        date,
        lambda: measure_all(systems, repetitions, partial(_say_since, began_s), parts, fast).values,
        quick=quick,
        notes=notes,
    )
    path = write_result(result, result_name(date))
    outcomes = judge_targets(
        result.summaries(systems[0].name),
        result.summaries(systems[1].name) if len(systems) > 1 else None,
        repetitions,
    )
    if only:
        outcomes = [each for each in outcomes if each.met is not None]
    print_result(RESULTS, result, rows(repetitions), outcomes)
    say(f"all samples: {path}")
    if into is not None:
        _write_markdown(into, markdown(result, rows(repetitions), outcomes))
        say(f"tables written into {into}")
    if trend is not None:
        add_line(trend, line_of(result, commit_here()))
        say(f"a line added to {trend}")


def _systems(kafka: bool) -> tuple[list[System], list[str]]:
    systems: list[System] = [HighwaterSystem()]
    notes: list[str] = []
    if kafka:
        try:
            systems.append(ApacheKafkaSystem(say))
        except KafkaMissing as missing:
            notes.append(str(missing))
            say(str(missing))
    return systems, notes


def _say_since(began_s: float, text: str) -> None:
    say(f"{time.monotonic() - began_s:6.1f} s  {text}")


def _write_markdown(path: Path, content: str) -> None:
    """Write the content between the file's marker lines; create a missing file."""
    text = path.read_text(encoding="utf-8") if path.exists() else f"{BEGIN_MARK}\n{END_MARK}\n"
    path.write_text(replace_between(text, BEGIN_MARK, END_MARK, content), encoding="utf-8")


if __name__ == "__main__":
    run_command("bench", bench)
