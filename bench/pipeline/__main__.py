"""`python -m bench.pipeline`: what the checks cost at each size, in Spark and in DuckDB.

Makes tables of each size, lets each engine check them in a process of its own, compares what they
found, and prints seconds, rows a second and memory a check. Progress goes to stderr, the table to
stdout, everything as JSON to bench/results/.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import duckdb
import msgspec
import pyspark
import typer
from rich.table import Table

from bench.command import result_name, run_command, write_result
from bench.machine import Machine, describe_machine, load_average
from bench.pipeline.checks_cost import ENGINES, START, Cost
from bench.pipeline.made_tables import Shape, make_tables
from bench.report import markdown_table, replace_between
from bench.summary import format_number
from highwater.errors import HarnessError
from highwater.output import RESULTS, say
from highwater_pipeline.checks.acknowledged_records import CHECK as LOSSES
from highwater_pipeline.session import spark_session

BEGIN_MARK = "<!-- bench pipeline: begin -->"
END_MARK = "<!-- bench pipeline: end -->"
WITHIN_S = 3600
SIZES = (100_000, 1_000_000, 10_000_000)


@dataclass(frozen=True, slots=True)
class Measured:
    """What an engine's checks cost over tables of a shape; whole_s: its process's life."""

    shape: Shape
    engine: str
    whole_s: float
    costs: tuple[Cost, ...]


@dataclass(frozen=True, slots=True)
class PipelineResult:
    date: str
    machine: Machine
    measured: tuple[Measured, ...]


def bench_pipeline(
    rows: Annotated[
        list[int] | None,
        typer.Option(help=f"Of all tables. [default: {', '.join(map(str, SIZES))}]"),
    ] = None,
    hot: Annotated[
        bool, typer.Option(help="Once more at the largest size, with half of it in one partition.")
    ] = True,
    into: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the tables between this file's marks for them."),
    ] = None,
) -> None:
    """Measure what the pipeline's checks cost, in Spark and in DuckDB."""
    sizes = sorted(rows or SIZES)
    load_average_start, date = load_average(), datetime.now(UTC)
    shapes = [Shape(size) for size in sizes]
    if hot:
        shapes.append(Shape(sizes[-1], is_hot=True))
    measured: list[Measured] = []
    for shape in shapes:
        measured += _measure(shape)
    machine = describe_machine("none", f"PySpark {pyspark.__version__}", load_average_start)
    result = PipelineResult(date.strftime("%Y-%m-%d %H:%M UTC"), machine, tuple(measured))
    path = write_result(result, f"pipeline-{result_name(date)}")
    for of_shape in _by_shape(result.measured):
        RESULTS.print(_table(of_shape))
    say(f"everything: {path}")
    if into is not None:
        content = "\n".join(_markdown(result))
        into.write_text(replace_between(into.read_text(), BEGIN_MARK, END_MARK, content))


def _measure(shape: Shape) -> list[Measured]:
    with TemporaryDirectory(prefix="highwater-bench-") as folder:
        store = Path(folder)
        say(f"making {shape}")
        with spark_session(memory="4g") as spark:
            make_tables(spark, shape, store)
        found = [_engine(name, shape, store) for name in ENGINES]
    _compare(shape, found)
    return found


def _engine(name: str, shape: Shape, store: Path) -> Measured:
    say(f"{name} checks them")
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench.pipeline.checks_cost", name, str(store)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    if done.returncode != 0:
        raise HarnessError(f"{name} ended with {done.returncode} at {shape}")
    costs = tuple(msgspec.json.decode(line, type=Cost) for line in done.stdout.splitlines())
    return Measured(shape, name, time.perf_counter() - began, costs)


def _compare(shape: Shape, measured: Sequence[Measured]) -> None:
    """Fail unless all engines found and examined the same: times of other answers say nothing."""
    answers: dict[str, set[tuple[int, int]]] = {}
    for each in measured:
        for cost in each.costs:
            answers.setdefault(cost.check, set()).add((cost.findings, cost.examined))
    differing = {check: sorted(told) for check, told in answers.items() if len(told) > 1}
    if differing:
        raise HarnessError(f"the engines differ at {shape}: {differing}")
    lost = {cost.findings for each in measured for cost in each.costs if cost.check == LOSSES.name}
    if not shape.lost or lost != {shape.lost}:
        raise HarnessError(f"{shape.lost} lost records at {shape}, and {sorted(lost)} were found")


def _by_shape(measured: Sequence[Measured]) -> list[list[Measured]]:
    by_shape: dict[Shape, list[Measured]] = {}
    for each in measured:
        by_shape.setdefault(each.shape, []).append(each)
    return list(by_shape.values())


def _columns(of_shape: Sequence[Measured]) -> list[str]:
    engines = [each.engine for each in of_shape]
    return ["check", *(f"{e}, s" for e in engines), "times", *(f"{e}, MiB" for e in engines)]


def _rows(of_shape: Sequence[Measured]) -> list[list[str]]:
    """Return the table's cells: a check a row, then all of them, then the process's whole life."""
    costs: list[Mapping[str, Cost]] = [
        {cost.check: cost for cost in each.costs} for each in of_shape
    ]
    found = []
    for check in costs[0]:
        of_check = [each.get(check) for each in costs]
        memory = [_mebibytes(cost) for cost in of_check]
        seconds = [None if cost is None else cost.seconds for cost in of_check]
        found.append([check, *_compared(seconds), *memory])
    shared = set.intersection(*(set(each) for each in costs)) - {START}
    totals = [sum(c.seconds for c in each.values() if c.check in shared) for each in costs]
    found.append(["those of both engines together", *_compared(totals), *("" for _ in costs)])
    whole = [each.whole_s for each in of_shape]
    return [*found, ["the process, all checks", *_compared(whole), *("" for _ in costs)]]


def _compared(seconds: Sequence[float | None]) -> list[str]:
    """Return each time, and how many times the second the first is."""
    cells = ["–" if each is None else format_number(each) for each in seconds]
    first, second = seconds
    return [*cells, f"{format_number(first / second)}×" if first and second else "–"]


def _mebibytes(cost: Cost | None) -> str:
    return "–" if cost is None else format_number(cost.peak_bytes / 2**20)


def _title(shape: Shape) -> str:
    how = "half of them in one partition" if shape.is_hot else "evenly"
    return f"{shape.rows:,} rows, {how} over {shape.partitions} partitions"


def _table(of_shape: Sequence[Measured]) -> Table:
    table = Table(title=_title(of_shape[0].shape), title_justify="left")
    for number, column in enumerate(_columns(of_shape)):
        table.add_column(column, justify="right" if number else "left")
    for row in _rows(of_shape):
        table.add_row(*row)
    return table


def _markdown(result: PipelineResult) -> list[str]:
    """Return the lines of all tables."""
    machine = result.machine
    lines = [
        f"{result.date}, {machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB, "
        f"Python {machine.python}, {machine.client}, DuckDB {duckdb.__version__}; load average "
        f"{machine.load_average_start:.2f} before, {machine.load_average_end:.2f} after."
    ]
    for of_shape in _by_shape(result.measured):
        table = markdown_table(_columns(of_shape), _rows(of_shape))
        lines += ["", f"{_title(of_shape[0].shape)}:", "", *table]
    return lines


if __name__ == "__main__":
    run_command("bench.pipeline", bench_pipeline)
