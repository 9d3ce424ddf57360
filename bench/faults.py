"""`python -m bench.faults`: how long each fault takes on containers, and the cost of a run.

Progress goes to stderr, the tables to stdout, everything as JSON to bench/results/.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import confluent_kafka
import msgspec
import typer

from bench.command import result_name, run_command, write_result
from bench.fault_report import FaultResult, joined, markdown, print_result
from bench.fault_times import BARE, measure_faults
from bench.machine import describe_machine, load_average
from bench.report import replace_between
from bench.run_cost import measure_run
from bench.suite_time import read_suite_time
from bench.systems import require_reachable_containers
from highwater.cluster.engine import connect_engine
from highwater.cluster.images import ensure_faults_image, ensure_images
from highwater.errors import HarnessError
from highwater.faults.examples import EXAMPLES, example_name
from highwater.output import RESULTS, say
from highwater_chaos import faults as f

BEGIN_MARK = "<!-- bench faults: begin -->"
END_MARK = "<!-- bench faults: end -->"


NAMES = [example_name(each) for each in EXAMPLES]


def bench_faults(
    repeat: Annotated[int, typer.Option(min=1, help="How often each fault is done.")] = 5,
    runs: Annotated[int, typer.Option(min=0, help="How many runs without steps.")] = 3,
    only: Annotated[
        str, typer.Option(help=f"These faults, with commas between: {', '.join(NAMES)}.")
    ] = "",
    earlier: Annotated[
        Path | None,
        typer.Option("--with", help="The JSON of an earlier part, to be told with this one."),
    ] = None,
    suite: Annotated[
        Path | None,
        typer.Option(help="The JUnit file of a run of tests, to tell its times too."),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the tables between this file's marks for them."),
    ] = None,
) -> None:
    """Measure how long each fault takes to act, to be proven and to be gone, and a run's cost."""
    names = only.split(",") if only else NAMES
    if unknown := set(names) - set(NAMES):
        raise HarnessError(f"no such faults: {', '.join(sorted(unknown))}")
    suite_time = None if suite is None else read_suite_time(suite)
    date = datetime.now(UTC)
    result = _measure([each for each in EXAMPLES if example_name(each) in names], repeat, runs)
    result = replace(result, date=date.strftime("%Y-%m-%d %H:%M UTC"), suite=suite_time)
    if earlier is not None:
        result = joined(msgspec.json.decode(earlier.read_bytes(), type=FaultResult), result)
    _tell(result, date, into)


def _measure(examples: Sequence[f.Fault], repeat: int, runs: int) -> FaultResult:
    load_average_start, started = load_average(), time.monotonic()
    engine = connect_engine()
    require_reachable_containers(engine)
    say("making sure of the images")
    ensure_images(engine, say)
    ensure_faults_image(engine, say)
    with TemporaryDirectory(prefix="highwater-bench-") as folder:
        samples = measure_faults(examples, Path(folder), repeat, say)
        costs = [measure_run(Path(folder)) for _ in range(runs)]
    return FaultResult(
        date="",
        duration_s=time.monotonic() - started,
        machine=describe_machine(
            str(engine.version()["Version"]), confluent_kafka.libversion()[0], load_average_start
        ),
        ours=samples.ours,
        bare=samples.bare,
        bare_calls={
            example_name(fault): BARE[type(fault)].what for fault in examples if type(fault) in BARE
        },
        run={phase: [cost[phase] for cost in costs] for phase in (costs[0] if costs else ())},
    )


def _tell(result: FaultResult, date: datetime, into: Path | None) -> None:
    path = write_result(result, f"faults-{result_name(date)}")
    print_result(RESULTS, result)
    say(f"all samples: {path}")
    if into is not None:
        text = replace_between(into.read_text("utf-8"), BEGIN_MARK, END_MARK, markdown(result))
        into.write_text(text, encoding="utf-8")
        say(f"tables written into {into}")


if __name__ == "__main__":
    run_command("bench.faults", bench_faults)
