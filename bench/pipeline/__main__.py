"""`python -m bench.pipeline`: the cost of the checks at each size, in Spark, DuckDB and polars.

Makes tables of each size, lets each engine check them in a process of its own, compares their
findings, and removes the tables. Progress goes to stderr, tables of results to stdout, everything
as JSON to bench/results/, which is written after each size.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import duckdb
import polars as pl
import pyspark
import typer

from bench.command import result_name, run_command, write_result
from bench.machine import describe_machine, load_average
from bench.pipeline.cost import EngineName, Job
from bench.pipeline.made_tables import Shape, make_tables
from bench.pipeline.measuring import Measured, compare, measure
from bench.pipeline.result import PipelineResult, markdown
from bench.pipeline.seven import SEVEN
from bench.report import replace_between
from highwater.output import say
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.reading import SMALL_BYTES

BEGIN_MARK = "<!-- bench pipeline: begin -->"
END_MARK = "<!-- bench pipeline: end -->"
SIZES = (100_000, 1_000_000, 10_000_000, 100_000_000)
HOT_SIZES = (10_000_000,)
BYTES_PER_ROW = 213
"""Bytes of a run folder for each row, as in the demo's run; the pipeline plans by their size."""


def bench_pipeline(
    rows: Annotated[
        list[int] | None,
        typer.Option(help=f"Of all tables. Default: {', '.join(map(str, SIZES))}."),
    ] = None,
    hot: Annotated[
        list[int] | None,
        typer.Option(
            help="Likewise, with nine of ten records in one partition; 0 for none. "
            f"Default: {', '.join(map(str, HOT_SIZES))}."
        ),
    ] = None,
    engine: Annotated[list[EngineName] | None, typer.Option(help="Default: each.")] = None,
    seven: Annotated[
        bool, typer.Option("--seven", help="Only the seven checks that have targets.")
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Of Spark's shuffles. Default: as the pipeline has it."),
    ] = None,
    within: Annotated[
        float, typer.Option(min=1, help="Seconds after which a check is stopped.")
    ] = 900,
    scratch: Annotated[
        Path | None, typer.Option(help="Where the tables are made; 1.5 GB at 10^8 rows.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the results between this file's marks for them."),
    ] = None,
) -> None:
    """Measure the cost of the pipeline's checks in Spark, in DuckDB and in polars."""
    shapes = [Shape(size) for size in sorted(rows or SIZES)]
    shapes += [Shape(size, is_hot=True) for size in sorted(hot or HOT_SIZES) if size]
    names = tuple(SEVEN) if seven else (*SEVEN, *_others())
    load_average_start, date = load_average(), datetime.now(UTC)
    libraries = (
        f"PySpark {pyspark.__version__}, DuckDB {duckdb.__version__}, polars {pl.__version__}"
    )
    measured: list[Measured] = []
    for shape in shapes:
        with TemporaryDirectory(prefix="highwater-bench-", dir=scratch) as folder:
            began = time.perf_counter()
            make_tables(shape, Path(folder))
            say(f"{shape}: made in {time.perf_counter() - began:.0f} s")
            of_shape = [
                measure(
                    shape,
                    Job(
                        engine=name,
                        store=folder,
                        is_small=shape.rows * BYTES_PER_ROW <= SMALL_BYTES,
                        partitions=partitions,
                        within_s=within,
                        checks=names,
                    ),
                )
                for name in engine or EngineName
            ]
        measured += of_shape
        result = PipelineResult(
            date.strftime("%Y-%m-%d %H:%M UTC"),
            describe_machine("none", libraries, load_average_start),
            tuple(measured),
        )
        path = write_result(result, f"pipeline-{result_name(date)}")
        compare(shape, of_shape)
    content = "\n".join(markdown(result))
    print(content)
    say(f"everything: {path}")
    if into is not None:
        into.write_text(replace_between(into.read_text(), BEGIN_MARK, END_MARK, content))


def _others() -> Sequence[str]:
    return [check.name for check in CHECKS.values() if check.name not in SEVEN]


if __name__ == "__main__":
    run_command("bench.pipeline", bench_pipeline)
