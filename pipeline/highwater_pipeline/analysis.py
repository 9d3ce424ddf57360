"""One analysis of a store: checks and metrics computed, and small enough to be shown.

What is large stays in Spark: of findings and failovers a bounded sample leaves it, with the count
of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from highwater_checker.verdict import Outcome
from highwater_pipeline.checks.findings import CheckFrames
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.judging import run_checks, verdicts
from highwater_pipeline.metrics.confidence import medians
from highwater_pipeline.metrics.failovers import failovers
from highwater_pipeline.metrics.replication import replication
from highwater_pipeline.metrics.sends import latencies, outages
from highwater_pipeline.tables import FINDINGS, QUARANTINE, RUNS, Tables

SHOWN_MAX = 200
"""Findings, outages and quarantined lines that leave Spark."""
DRAWN_MAX = 20_000
"""Failovers that leave Spark: a picture needs each."""
SPLITS = ("detect_ms", "elect_ms", "first_ack_ms", "isr_restored_ms", "total_ms")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """At most so many rows, in their order, of how many there are."""

    rows: tuple[Row, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """Rows by column name; what each is says the function that computed it."""

    runs: Sample
    verdicts: tuple[Row, ...]
    examined: tuple[Row, ...]
    findings: Sample
    quarantine: Sample
    failovers: Sample
    medians: tuple[Row, ...]
    """Of failovers by fault and preset: split, fault, preset, count, median, low, high (ms)."""
    latencies: tuple[Row, ...]
    outages: Sample
    replication: tuple[Row, ...]

    @property
    def outcome(self) -> Outcome:
        """Return fail when a run fails, else unknown when one is or there is none, else pass."""
        outcomes = {row["outcome"] for row in self.verdicts}
        if Outcome.FAIL in outcomes:
            return Outcome.FAIL
        return Outcome.PASS if outcomes == {Outcome.PASS} else Outcome.UNKNOWN


def analyse(tables: Tables) -> Analysis:
    """Run every check and metric over all runs of the tables."""
    lazily = run_checks(tables, CHECKS)
    judged = CheckFrames(lazily.findings.cache(), lazily.examined.cache())
    changes = failovers(tables).cache()
    try:
        return Analysis(
            runs=_sample(tables[RUNS], RUNS.sort_key),
            verdicts=_all(verdicts(tables, judged), ["run_id"]),
            examined=_all(judged.examined, ["run_id", "check"]),
            findings=_sample(judged.findings, FINDINGS.sort_key),
            quarantine=_sample(tables[QUARANTINE], QUARANTINE.sort_key),
            failovers=_sample(changes, ["run_id", "topic", "partition", "leader_epoch"], DRAWN_MAX),
            medians=_medians(changes, tables),
            latencies=_all(latencies(tables), ["run_id"]),
            outages=_sample(outages(tables), ["run_id", "topic", "partition", "from_ns"]),
            replication=_all(replication(tables), ["run_id"]),
        )
    finally:
        for frame in (judged.findings, judged.examined, changes):
            frame.unpersist()


def _medians(changes: DataFrame, tables: Tables) -> tuple[Row, ...]:
    by = ["fault", "preset"]
    known = changes.where("fault IS NOT NULL").join(
        tables[RUNS].select("run_id", "preset"), "run_id"
    )
    return tuple(
        {"split": split, **row} for split in SPLITS for row in _all(medians(known, by, split), by)
    )


def _all(frame: DataFrame, order: Sequence[str]) -> tuple[Row, ...]:
    """Return the rows of a frame that has one or a few a run."""
    return tuple(row.asDict() for row in frame.orderBy(*order).collect())


def _sample(frame: DataFrame, order: Sequence[str], at_most: int = SHOWN_MAX) -> Sample:
    rows = tuple(row.asDict() for row in frame.orderBy(*order).limit(at_most).collect())
    return Sample(rows, frame.count() if len(rows) == at_most else len(rows))
