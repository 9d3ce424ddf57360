"""Verdicts of many runs at once, by the rules of highwater_checker.verdict."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_checker.verdict import Outcome
from highwater_pipeline.checks.findings import Check, CheckFrames
from highwater_pipeline.checks.registry import (
    WHERE_THERE_ARE_FOLLOWERS,
    WHERE_THERE_IS_SOMETHING,
)
from highwater_pipeline.ingest.lines import TORN
from highwater_pipeline.tables import QUARANTINE, RUNS, Tables


def run_checks(tables: Tables, checks: Sequence[Check]) -> CheckFrames:
    """Return what all of the checks find and look at, each row with `check`, the check's name."""
    results = [(fn.lit(check.name), check.run(tables)) for check in checks]
    return CheckFrames(
        _all(result.findings.withColumn("check", name) for name, result in results),
        _all(result.examined.withColumn("check", name) for name, result in results),
    )


def verdicts(tables: Tables, judged: CheckFrames) -> DataFrame:
    """Return one row a run: its outcome, and what that rests upon.

    judged: as run_checks returns it. Columns: run_id, outcome (fail with any finding; else unknown
    with a check that had nothing to examine where it should have, or with a line in quarantine
    other than a torn last one; else pass), findings, vacuous_checks, quarantined, recorded (the
    outcome in the run's own verdict.json, "" without one). Sort key: run_id.
    """
    is_lost = ~fn.col("reason").startswith(TORN)
    counts = {
        "findings": (judged.findings, fn.lit(True)),
        "vacuous_checks": (_must_examine(tables, judged), fn.col("examined") == 0),
        "quarantined": (tables[QUARANTINE], fn.lit(True)),
        "lost_lines": (tables[QUARANTINE], is_lost),
    }
    found = tables[RUNS].select("run_id", fn.coalesce("outcome", fn.lit("")).alias("recorded"))
    for name, (frame, counted) in counts.items():
        number = frame.where(counted).groupBy("run_id").agg(fn.count(fn.lit(1)).alias(name))
        found = found.join(number, "run_id", "left")
    outcome = (
        fn.when(fn.col("findings") > 0, Outcome.FAIL.value)
        .when((fn.col("vacuous_checks") > 0) | (fn.col("lost_lines") > 0), Outcome.UNKNOWN.value)
        .otherwise(Outcome.PASS.value)
    )
    return found.fillna(0, list(counts)).select(
        "run_id", outcome.alias("outcome"), "findings", "vacuous_checks", "quarantined", "recorded"
    )


def _must_examine(tables: Tables, judged: CheckFrames) -> DataFrame:
    """Return the rows of examined of which a 0 means that the run proves nothing."""
    alone = tables[RUNS].select("run_id", (fn.col("brokers") == 1).alias("is_alone"))
    may_be_idle = _is_of(WHERE_THERE_IS_SOMETHING) | (
        fn.coalesce("is_alone", fn.lit(False)) & _is_of(WHERE_THERE_ARE_FOLLOWERS)
    )
    return judged.examined.join(fn.broadcast(alone), "run_id", "left").where(~may_be_idle)


def _is_of(checks: Sequence[Check]) -> Column:
    return fn.col("check").isin([check.name for check in checks])


def _all(frames: Iterable[DataFrame]) -> DataFrame:
    return functools.reduce(DataFrame.unionByName, frames)
