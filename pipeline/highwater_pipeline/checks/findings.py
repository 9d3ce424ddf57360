"""A check, and the two frames that it returns; every other module here is a check.

Checks judge many runs at once: every join, group and window has run_id in its key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_pipeline.tables import FINDINGS, RUNS, Row, Tables


@dataclass(frozen=True, slots=True)
class CheckFrames:
    """A check's result over all runs.

    findings: one row a violation, with FINDINGS' columns and then the facts of its wording.
    examined: one row a run of RUNS, (run_id, examined): how many records, states or events the
      check looked at in the run. 0 proves nothing.
    """

    findings: DataFrame
    examined: DataFrame


@dataclass(frozen=True, slots=True)
class Check:
    """A check by its name in highwater_checker.

    run: returns frames that Spark computes later; it only reads the tables.
    """

    name: str
    run: Callable[[Tables], CheckFrames]


def findings_of(
    violations: DataFrame,
    wording: Wording | Column,
    *,
    invariant: str | Column,
    topic: str | Column = "topic",
    partition: str | Column = "partition",
    offset: str | Column | None = None,
    broker: str | Column | None = None,
    operation: str | Column | None = None,
    facts: Sequence[str | Column] = (),
) -> DataFrame:
    """Return the violations as findings: a str names a column, None means there is none.

    violations: has the column run_id.
    wording: a column holds the names of wordings.
    invariant: a str is the invariant itself.
    facts: the columns that the wording mentions besides the finding's place.
    """
    none = fn.lit(-1)
    values = {
        "run_id": fn.col("run_id"),
        "invariant": fn.lit(invariant) if isinstance(invariant, str) else invariant,
        "topic": _column(topic),
        "partition": _column(partition),
        "offset": none if offset is None else _column(offset),
        "broker": none if broker is None else _column(broker),
        "operation": fn.lit("") if operation is None else _column(operation),
        "wording": fn.lit(wording.name) if isinstance(wording, Wording) else wording,
    }
    return violations.select(
        *(values[name].cast(kind).alias(name) for name, kind in FINDINGS.columns.items()), *facts
    )


def all_of(*findings: DataFrame) -> DataFrame:
    """Return findings of several kinds as one frame; a fact that a kind does not have is null."""
    return functools.reduce(
        functools.partial(DataFrame.unionByName, allowMissingColumns=True), findings
    )


def in_words(finding: Mapping[str, Any]) -> Row:
    """Return a row of FINDINGS, and its message, from a row that a check found."""
    place = {name: finding[name] for name in FINDINGS.columns}
    return {**place, "message": Wording[finding["wording"]].filled(**finding)}


def in_order(finding: Row) -> tuple[object, ...]:
    """Return the sort key of a finding that has its message."""
    return tuple(finding[name] for name in (*FINDINGS.sort_key, "message"))


def kept(frame: DataFrame) -> DataFrame:
    """Return the frame, kept by Spark once it was computed, until the session ends.

    For frames that are used several times, and are small or cost more to compute than to keep, in
    memory and on disk: each use would plan and compute the whole frame anew. Spark knows a frame by
    its plan, in which files are paths: a session reads no store that is written to afterwards.
    """
    return frame.cache()


def field(struct: Column, name: str) -> Column:
    """Return a field of a struct that may be null: then the field is null as well.

    Of a struct that a CASE made null, Sail 0.7.2 returns the field that it had before.
    """
    return fn.when(struct.isNotNull(), struct[name])


def count_by_run(tables: Tables, examined: DataFrame) -> DataFrame:
    """Return (run_id, examined): how many rows of examined are of each run of RUNS, 0 of none."""
    return _by_run(tables, examined, fn.count(fn.lit(1)))


def sum_by_run(tables: Tables, examined: DataFrame, number: str) -> DataFrame:
    """Return (run_id, examined): the sum of a column by each run of RUNS, 0 of none."""
    return _by_run(tables, examined, fn.sum(number))


def _by_run(tables: Tables, examined: DataFrame, number: Column) -> DataFrame:
    numbers = examined.groupBy("run_id").agg(number.alias("number"))
    return (
        tables[RUNS]
        .select("run_id")
        .join(numbers, "run_id", "left")
        .select("run_id", fn.coalesce("number", fn.lit(0)).cast("long").alias("examined"))
    )


def text(template: str, **parts: str | Column) -> Column:
    """Return the template with {name} replaced by a part, else by the column of that name.

    A part that is a str names a column. None may be null: text with a null in it is null.
    """
    pieces: list[Column] = []
    for piece in template.split("{"):
        name, closed, rest = piece.partition("}")
        if closed:
            pieces.append(_column(parts.get(name, name)).cast("string"))
        pieces.append(fn.lit(rest if closed else piece))
    return fn.concat(*pieces)


def _column(what: str | Column) -> Column:
    return fn.col(what) if isinstance(what, str) else what
