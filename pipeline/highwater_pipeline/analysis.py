"""One analysis of a store: the results of checks and metrics, small enough to be shown.

Large results stay in Spark: a bounded sample of findings and of failovers leaves it, with the count
of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_checker.verdict import Outcome
from highwater_pipeline.at_once import queries_at_once
from highwater_pipeline.checks.findings import in_order, text
from highwater_pipeline.checks.idle import read_idleness
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.checks.unproven import unproven
from highwater_pipeline.judging import (
    SHOWN_MAX,
    Judgement,
    by_reason,
    excused_in,
    judge,
    verdicts,
)
from highwater_pipeline.metrics.alerts import alerts
from highwater_pipeline.metrics.confidence import medians
from highwater_pipeline.metrics.failovers import SPLITS, failovers
from highwater_pipeline.metrics.replication import lag_over_time, replication
from highwater_pipeline.metrics.sends import fetch_latencies, latencies, outages
from highwater_pipeline.tables import QUARANTINE, RUNS, Row, Tables

GROUP = ("fault", "preset", "topology", "version")
"""The columns by which failovers are grouped for a median; null where a run does not name one."""
DRAWN_MAX = 20_000
"""Failovers, and likewise stretches of runs, that leave Spark: a picture needs each."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The first rows of a result, and the count of all its rows."""

    rows: tuple[Row, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """Rows by column name. The function that computes a field documents its columns."""

    runs: Sample
    verdicts: tuple[Row, ...]
    examined: tuple[Row, ...]
    """(run_id, check, examined, found) for each check that applies to the run."""
    findings: Sample
    quarantine: Sample
    failovers: Sample
    medians: tuple[Row, ...]
    """Failover times by split and GROUP: split, GROUP, count, median, low, high (ms)."""
    latencies: tuple[Row, ...]
    fetches: tuple[Row, ...]
    outages: Sample
    replication: tuple[Row, ...]
    lag_over_time: Sample
    alerts: Sample

    @property
    def outcome(self) -> Outcome:
        """Return fail if a run fails; else unknown if one is, or there is none; else pass."""
        outcomes = {row["outcome"] for row in self.verdicts}
        if Outcome.FAIL in outcomes:
            return Outcome.FAIL
        return Outcome.PASS if outcomes == {Outcome.PASS} else Outcome.UNKNOWN


def analyse(tables: Tables) -> Analysis:
    """Run every check and metric over all runs of the tables."""
    with queries_at_once() as pool:
        judging = _Judging(pool, tables)
        changed = pool.submit(_failovers, tables)
        quarantine = pool.submit(_sample, tables[QUARANTINE], QUARANTINE.sort_key)
        paused = pool.submit(_sample, outages(tables), ["run_id", "topic", "partition", "from_ns"])
        sent = pool.submit(_all, latencies(tables), ["run_id"])
        fetched = pool.submit(_all, fetch_latencies(tables), ["run_id"])
        lagged = pool.submit(_all, replication(tables), ["run_id"])
        lag = pool.submit(_sample, lag_over_time(tables), ["run_id", "from_ns"], DRAWN_MAX)
        order = ["run_id", "controller_epoch", "broker", "request"]
        unanswered = pool.submit(_sample, alerts(tables), order)
        judgements = judging.judgements()
    changes, median_rows = changed.result()
    runs = judging.runs.result()
    return Analysis(
        runs=Sample(runs[:SHOWN_MAX], len(runs)),
        verdicts=judging.verdicts(),
        examined=_examined(judgements),
        findings=_findings(judgements),
        quarantine=quarantine.result(),
        failovers=changes,
        medians=median_rows,
        latencies=sent.result(),
        fetches=fetched.result(),
        outages=paused.result(),
        replication=lagged.result(),
        lag_over_time=lag.result(),
        alerts=unanswered.result(),
    )


def verdicts_of(tables: Tables) -> tuple[Row, ...]:
    """Run every check over all runs of the tables, and return the verdicts: those of `analyse`."""
    with queries_at_once() as pool:
        return _Judging(pool, tables).verdicts()


class _Judging:
    """All that the verdicts are made from, being queried by the threads of a pool."""

    def __init__(self, pool: ThreadPoolExecutor, tables: Tables) -> None:
        excused = excused_in(tables)
        self._checks = [pool.submit(judge, check, tables, excused) for check in CHECKS.values()]
        self._little = pool.submit(unproven, tables)
        self._idleness = pool.submit(read_idleness, tables)
        self.runs = pool.submit(_all, tables[RUNS], RUNS.sort_key)
        self._quarantined = pool.submit(_all, by_reason(tables), ["run_id", "reason"])

    def judgements(self) -> list[Judgement]:
        return [each.result() for each in self._checks]

    def verdicts(self) -> tuple[Row, ...]:
        return verdicts(
            self.runs.result(),
            self.judgements(),
            self._quarantined.result(),
            self._idleness.result(),
            self._little.result(),
        )


def _examined(judgements: Sequence[Judgement]) -> tuple[Row, ...]:
    rows = [
        {
            "run_id": run_id,
            "check": each.check,
            "examined": count,
            "found": each.found.get(run_id, 0),
        }
        for each in judgements
        for run_id, count in each.examined.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row["run_id"], row["check"])))


def _findings(judgements: Sequence[Judgement]) -> Sample:
    rows = [{**row, "check": each.check} for each in judgements for row in each.shown]
    rows.sort(key=lambda row: (in_order(row), row["check"]))
    return Sample(tuple(rows[:SHOWN_MAX]), sum(sum(each.found.values()) for each in judgements))


def _failovers(tables: Tables) -> tuple[Sample, tuple[Row, ...]]:
    """Return the failovers, with their GROUP, and the medians by split and GROUP."""
    told = tables[RUNS].select(
        "run_id",
        "preset",
        text("{brokers} brokers, {controllers} controllers").alias("topology"),
        fn.col("commit").alias("version"),
    )
    changes = failovers(tables).join(told, "run_id", "left").cache()
    try:
        by = ["split", *GROUP]
        proven = changes.where("fault IS NOT NULL")
        splits = proven.unpivot(list(GROUP), list(SPLITS), "split", "value")
        rows = _all(medians(splits, by, "value"), by)
        order = ["run_id", "topic", "partition", "leader_epoch"]
        return _sample(changes, order, DRAWN_MAX), tuple(
            sorted(rows, key=lambda row: SPLITS.index(row["split"]))
        )
    finally:
        changes.unpersist()


def _all(frame: DataFrame, order: Sequence[str]) -> tuple[Row, ...]:
    """Return the rows of a frame with few rows a run, sorted by these columns; nulls first."""
    rows = [row.asDict() for row in frame.collect()]
    return tuple(sorted(rows, key=lambda row: [(row[c] is not None, row[c]) for c in order]))


def _sample(frame: DataFrame, order: Sequence[str], at_most: int = SHOWN_MAX) -> Sample:
    rows = tuple(row.asDict() for row in frame.orderBy(*order).limit(at_most).collect())
    return Sample(rows, frame.count() if len(rows) == at_most else len(rows))
