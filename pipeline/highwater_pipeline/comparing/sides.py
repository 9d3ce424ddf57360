"""Two sides of runs, selected by a column of RUNS, and their comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from highwater_pipeline.comparing.values import measured, tested, values_of_runs
from highwater_pipeline.comparing.verdicts import (
    Answer,
    answer_of,
    compared,
    differences,
    sentence,
)
from highwater_pipeline.metrics.run_time import proven_faults
from highwater_pipeline.tables import RUNS, Row, Tables

COMMIT = "commit"
COLUMNS = (COMMIT, "preset", "title", "world", "planted", "brokers", "controllers")
"""The columns by which runs can be split into two sides."""
NONE = "none"
"""In texts, a value that is empty."""


class NoSuchValue(Exception):
    """No run has the value; the message lists the values that runs have."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Side b's runs compared with side a's. rows: as verdicts.compared returns them."""

    by: str
    a: str
    b: str
    runs_a: int
    runs_b: int
    fault: str | None
    answer: Answer
    sentence: str
    differences: tuple[str, ...]
    """The other columns in which the sides' runs differ: they may be the cause of a difference."""
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """Some runs of a store, and their measured values by group (a value of the runs' column)."""

    by: str
    fault: str | None
    runs: Sequence[Row]
    values: DataFrame
    """The frame of values.values_of_runs, cached while it is needed."""
    rows: Sequence[Row]
    """The rows of values.measured for these values."""


@contextmanager
def measuring(
    tables: Tables, runs: Sequence[Row], by: str, fault: str | None
) -> Iterator[Measured]:
    """Give the measured values of the runs. runs: rows of read_runs.

    Raises:
        NoSuchValue: no leader of these runs changed after such a fault.
    """
    own = tables.of_runs(run["run_id"] for run in runs)
    values = values_of_runs(own, by, fault).cache()
    try:
        rows = _rows(measured(values))
        if fault is not None and not rows:
            kinds = _rows(proven_faults(tables).select("fault").distinct().orderBy("fault"))
            there = ", ".join(row["fault"] for row in kinds) or "none"
            raise NoSuchValue(f"no leader changed after the fault {fault}; proven were: {there}")
        yield Measured(by, fault, runs, values, rows)
    finally:
        values.unpersist()


def compare(tables: Tables, by: str, a: str, b: str, fault: str | None = None) -> Comparison:
    """Compare the runs with value b in the column `by` with the runs with value a; "" is null.

    The first characters of a commit are enough.

    Raises:
        NoSuchValue: no run is on one of the sides, or no leader changed after such a fault.
    """
    runs = read_runs(tables)
    a, b = find_value(runs, by, a), find_value(runs, by, b)
    if a == b:
        raise NoSuchValue(f"both sides are {name_of(by, a)}")
    own = [run for run in runs if value_of(run, by) in (a, b)]
    with measuring(tables, own, by, fault) as found:
        return compare_groups(found, a, b)


def compare_groups(found: Measured, a: str, b: str) -> Comparison:
    """Return the comparison of two groups of measured values."""
    by = found.by
    rows = compared(found.rows, _rows(tested(found.values, a, b)), a, b)
    runs_a, runs_b = ([run for run in found.runs if value_of(run, by) == side] for side in (a, b))
    others = [column for column in COLUMNS if column != by]
    return Comparison(
        by=by,
        a=a,
        b=b,
        runs_a=len(runs_a),
        runs_b=len(runs_b),
        fault=found.fault,
        answer=answer_of(rows),
        sentence=sentence(rows, name_of(by, a), name_of(by, b)),
        differences=tuple(differences(runs_a, runs_b, others)),
        rows=rows,
    )


def read_runs(tables: Tables) -> tuple[Row, ...]:
    """Return COLUMNS, run_id and start_wall_ns of every run, by run_id."""
    told = tables[RUNS].select("run_id", "start_wall_ns", *COLUMNS)
    return _rows(told.orderBy("run_id"))


def value_of(run: Row, by: str) -> str:
    return "" if run[by] is None else str(run[by])


def name_of(by: str, value: str) -> str:
    return f"{by} {value or NONE}"


def find_value(runs: Sequence[Row], by: str, wanted: str) -> str:
    """Return the wanted value itself, or the only commit that begins with it.

    Raises:
        NoSuchValue: no run has the value, or more than one commit begins with it.
    """
    counts = Counter(value_of(run, by) for run in runs)
    if wanted in counts:
        return wanted
    begun = [value for value in sorted(counts) if wanted and value.startswith(wanted)]
    if by == COMMIT and len(begun) == 1:
        return begun[0]
    if by == COMMIT and begun:
        raise NoSuchValue(f"the commit {wanted} is ambiguous; so begin: {_counted(begun, counts)}")
    there = _counted(sorted(counts), counts) or "no runs"
    raise NoSuchValue(f"no run has the {by} {wanted or NONE}; there are: {there}")


def _counted(values: Sequence[str], counts: Mapping[str, int]) -> str:
    """Return the values in one text, each with its number of runs."""
    return ", ".join(f"{value or NONE} ({counts[value]})" for value in values)


def _rows(frame: DataFrame) -> tuple[Row, ...]:
    """Return the rows of a frame with one row a run, or few a group."""
    return tuple(row.asDict() for row in frame.collect())
