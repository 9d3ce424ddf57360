"""`python -m bench.pipeline.ingest_cost`: how fast run folders become tables, by how many workers.

One run in the simulator is copied so often: ways differ, the work is the same. This process alone
and two workers of Spark, which are warm, first judge all runs, and then take them into a store with
all tables, in turns, so that other load on the machine disturbs both. The ingestion itself judges
the runs one after the other in the driver, in both ways. Needs the extra.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace
from pyspark.sql import SparkSession

from bench.command import result_name, run_command, write_result
from bench.machine import Machine, describe_machine, load_average
from bench.report import machine_line, markdown_table
from bench.summary import format_summary, summarize
from highwater.errors import HarnessError
from highwater.output import say
from highwater.project import project_root
from highwater.report.pipeline_runs import bytes_below
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater_chaos.plan import decode_plan
from highwater_pipeline.ingest import ingest
from highwater_pipeline.ingest.documents import read_documents
from highwater_pipeline.ingest.inventory import take_inventory
from highwater_pipeline.session import spark_session

PLAN = project_root() / "tests" / "scenarios" / "leader_killed.json"
RATE_PER_S = 200
WORKERS = 2
ALONE = "judging, this process"


@dataclass(frozen=True, slots=True)
class Taken:
    """One way's ingestion in one round."""

    way: str
    seconds: float


@dataclass(frozen=True, slots=True)
class IngestCost:
    """The measured costs; machine: its state during the rounds."""

    date: str
    runs: int
    total_bytes: int
    machine: Machine
    taken: tuple[Taken, ...]


def make_runs(folder: Path, count: int, seconds: int) -> list[Path]:
    """Run a plan so long in virtual time, and return the folders of so many copies of the run."""
    plan = decode_plan(PLAN.read_bytes())
    producers = tuple(replace(each, rate_per_s=RATE_PER_S) for each in plan.workload.producers)
    workload = replace(plan.workload, producers=producers)
    first = RunFolder(folder / "run-0")
    with Screen() as screen:
        run_in_simulator(
            replace(plan, workload=workload, quiet_after_ms=seconds * 1000), first, screen
        )
    copies = [folder / f"run-{number}" for number in range(1, count)]
    return [first.path, *(shutil.copytree(first.path, copy) for copy in copies)]


def measure_judging(folders: Sequence[Path], rounds: int) -> list[Taken]:
    """Measure in turns how long this process and Spark's workers take to judge the runs."""
    taken = []
    with spark_session(f"local[{WORKERS}]") as spark:
        _judging(spark, folders[:1])
        for number in range(rounds):
            for way, session in ((f"judging, Spark, {WORKERS}", spark), (ALONE, None)):
                taken.append(_reported(number, Taken(way, _judging(session, folders))))
    return taken


def measure_taking_in(folders: Sequence[Path], rounds: int, scratch: Path) -> list[Taken]:
    """Measure in turns how long they take to write all tables; each run is judged as well."""
    taken = []
    with spark_session(f"local[{WORKERS}]") as spark:
        _timed(spark, folders[:1], scratch / "warm")
        for number in range(rounds):
            for way, session in ((f"all, Spark, {WORKERS}", spark), ("all, this process", None)):
                seconds = _timed(session, folders, scratch / f"store-{number}")
                taken.append(_reported(number, Taken(way, seconds)))
    return taken


def _reported(number: int, taken: Taken) -> Taken:
    say(f"round {number + 1}: {taken.way}: {taken.seconds:.1f} s")
    return taken


def _judging(spark: SparkSession | None, folders: Sequence[Path]) -> float:
    """Return how long it took to read and judge the runs' documents."""
    runs = [take_inventory(folder) for folder in folders]
    began = time.perf_counter()
    if spark is None:
        for run in runs:
            read_documents(run)
    else:
        spark.sparkContext.parallelize(runs, len(runs)).map(read_documents).collect()
    return time.perf_counter() - began


def _timed(spark: SparkSession | None, folders: Sequence[Path], store: Path) -> float:
    """Return how long the ingestion took.

    Raises:
        HarnessError: not every folder was taken in.
    """
    began = time.perf_counter()
    report = ingest(spark, folders, store)
    seconds = time.perf_counter() - began
    shutil.rmtree(store)
    if len(report.run_ids) != len(folders):
        raise HarnessError(str(report))
    return seconds


def table_rows(taken: Sequence[Taken], total_bytes: int) -> list[list[str]]:
    """Return a row a way: seconds, and MB a second."""
    rows = []
    measures: tuple[Callable[[float], float], ...] = (
        lambda seconds: seconds,
        lambda seconds: total_bytes / 1e6 / seconds,
    )
    for way in dict.fromkeys(each.way for each in taken):
        own = [each.seconds for each in taken if each.way == way]
        rows.append([way, *(format_summary(summarize(list(map(of, own)))) for of in measures)])
    return rows


def measure(
    runs: Annotated[int, typer.Option(min=2, help="How many folders are taken in.")] = 16,
    seconds: Annotated[int, typer.Option(min=1, help="Of each run, in virtual time.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="How often every way is measured.")] = 3,
    only_judging: Annotated[
        bool, typer.Option("--only-judging", help="Leave the tables out.")
    ] = False,
) -> None:
    """Measure how fast run folders are taken in, by this process and by Spark's workers."""
    load = load_average()
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as scratch:
        folders = make_runs(Path(scratch, "runs"), runs, seconds)
        total_bytes = bytes_below(folders)
        say(f"{runs} runs, {total_bytes / 1e6:.0f} MB")
        taken = measure_judging(folders, rounds)
        if not only_judging:
            taken += measure_taking_in(folders, rounds, Path(scratch))
    date = datetime.now(UTC)
    result = IngestCost(
        f"{date:%Y-%m-%d %H:%M} UTC",
        runs,
        total_bytes,
        describe_machine("none", "none", load),
        tuple(taken),
    )
    lines = [
        f"{runs} runs of {total_bytes / runs / 1e6:.1f} MB each, measured {result.date}; "
        "min / median / max (n).",
        "",
        machine_line(result.machine),
        "",
        *markdown_table(["way", "s", "MB/s"], table_rows(taken, total_bytes)),
    ]
    print("\n".join(lines))
    say(str(write_result(result, f"ingest-cost-{result_name(date)}")))


if __name__ == "__main__":
    run_command("bench.pipeline.ingest_cost", measure)
