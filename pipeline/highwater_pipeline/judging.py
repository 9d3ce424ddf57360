"""A check's results for many runs, small enough to leave Spark, and the runs' verdicts."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_checker.idle import may_be_idle
from highwater_checker.judging import ABOUT_RECORDS
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import FINAL_LOOK
from highwater_checker.verdict import Outcome
from highwater_pipeline.checks.evidence import PARTITION
from highwater_pipeline.checks.findings import Check, CheckFrames, in_order, in_words
from highwater_pipeline.checks.idle import Idleness
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.ingest.inventory import NOT_FINISHED, UNEXPECTED
from highwater_pipeline.ingest.lines import TORN
from highwater_pipeline.tables import EXCUSED, QUARANTINE, Row, Tables

REASONS_SHOWN = 3
SHOWN_MAX = 200
"""Of a check's findings, how many are shown."""
LEAVE_MAX = 10_000
"""How many leave Spark: so few are counted here, more by a query of their own."""
_JUDGED_FILES = (FINAL_LOOK.name, names.LOOKS, names.PROBES, names.INTENTS)
_JUDGED_FOLDERS = (names.HISTORY, names.TRACE, names.SEGMENTS)
"""The judge's files besides the documents, whose faults are in RUNS (unproven). The final look may
be sound JSON with a number that no column holds."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of one check.

    examined: the number of things examined by run, for runs to which the check applies.
    found: the number of findings by run, for runs with any.
    shown: the first SHOWN_MAX findings, in words.
    """

    check: str
    examined: Mapping[str, int]
    found: Mapping[str, int]
    shown: tuple[Row, ...]


def judge(check: Check, tables: Tables, excused: DataFrame | None = None) -> Judgement:
    """Run the check over all runs: one query, and a second one if there are many findings.

    excused: rows of EXCUSED, None where there are none; findings that they cover do not count.
    """
    judged = check.run(tables)
    if excused is not None:
        judged = replace(judged, findings=_without_excused(judged.findings, excused))
    rows = [row.asDict() for row in _in_one(judged).collect()]
    examined = {row["run_id"]: row["examined"] for row in rows if row["examined"] is not None}
    shown = [in_words(row) for row in rows if row["examined"] is None]
    if len(shown) > LEAVE_MAX:
        counted = judged.findings.groupBy("run_id").agg(fn.count(fn.lit(1)).alias("count"))
        found = {row["run_id"]: row["count"] for row in counted.collect()}
    else:
        found = dict(Counter(row["run_id"] for row in shown))
    shown.sort(key=in_order)
    return Judgement(check.name, examined, found, tuple(shown[:SHOWN_MAX]))


def excused_in(tables: Tables) -> DataFrame | None:
    """Return the rows of EXCUSED, None where there are none."""
    rows = tables[EXCUSED]
    return None if rows.isEmpty() else rows


def _without_excused(findings: DataFrame, excused: DataFrame) -> DataFrame:
    """Return the findings without losses by disks alone, as highwater_checker.judging does."""
    loss = fn.broadcast(excused).alias("loss")
    same = (fn.col(f"found.{name}") == fn.col(f"loss.{name}") for name in PARTITION)
    offset = fn.col("found.offset")
    is_covered = (offset < 0) | (offset >= fn.col("loss.start_offset"))
    about_records = fn.col("found.invariant").isin(*ABOUT_RECORDS)
    covers = functools.reduce(Column.__and__, same, is_covered & about_records)
    return findings.alias("found").join(loss, covers, "left_anti")


def _in_one(judged: CheckFrames) -> DataFrame:
    """Return the first findings and the examined numbers in one frame, so inputs are made once."""
    first = judged.findings.orderBy(*judged.findings.columns).limit(LEAVE_MAX + 1)
    return first.unionByName(judged.examined, allowMissingColumns=True)


def by_reason(tables: Tables) -> DataFrame:
    """Return the numbers of lines and files in quarantine: (run_id, reason, is_judged, count)."""
    folders = (fn.col("file").startswith(f"{name}/") for name in _JUDGED_FOLDERS)
    is_read = functools.reduce(Column.__or__, folders, fn.col("file").isin(*_JUDGED_FILES))
    is_judged = is_read & ~fn.col("reason").isin(UNEXPECTED, NOT_FINISHED)
    rows = tables[QUARANTINE].withColumn("is_judged", is_judged)
    return rows.groupBy("run_id", "reason", "is_judged").count()


def verdicts(
    runs: Sequence[Row],
    judgements: Sequence[Judgement],
    quarantine: Sequence[Row],
    idleness: Idleness,
    unproven: Mapping[str, Sequence[str]],
) -> tuple[Row, ...]:
    """Return one row a run, by run_id.

    runs: rows of RUNS.
    quarantine: (run_id, reason, is_judged, count) rows; is_judged: whether the judge reads such
        files.
    unproven: by run, reasons why it proves little, besides RUNS' own reasons.

    Columns:
        run_id
        outcome: the judge's where it judged the run, else by_tables.
        by_tables: by the rules of highwater_checker.verdict. Fail with any finding, also of checks
            during the run. Else unknown
            - with a check that examined nothing and is not excused (highwater_checker.idle),
            - with a line in quarantine of a file that the judge reads, but for a torn last line,
            - with a gap in a trace,
            - where the run is unproven.
            Else pass.
        findings, vacuous_checks, quarantined: counts, by the tables.
        recorded: the outcome in the run's own verdict.json, "" without one.
        reasons: the judge's, else why by_tables is not pass, without its findings.
    """
    quarantined: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for row in quarantine:
        quarantined[row["run_id"]] += row["count"]
        is_lost = row["is_judged"] and not row["reason"].startswith(TORN)
        lost[row["run_id"]] += row["count"] if is_lost else 0
    found: list[Row] = []
    for run in sorted(runs, key=lambda row: row["run_id"]):
        run_id = run["run_id"]
        findings = sum(each.found.get(run_id, 0) for each in judgements if each.check != _WHOLE)
        gaps = sum(each.found.get(run_id, 0) for each in judgements if each.check == _WHOLE)
        holding = idleness.reasons(run)
        vacuous = sum(
            each.examined.get(run_id) == 0 and not may_be_idle(each.check, holding)
            for each in judgements
        )
        findings += len(run["watched"] or ())
        watched = run["watched_examined"]
        vacuous += watched is not None and watched <= 0
        why = (*(run["unproven"] or ()), *unproven.get(run_id, ()))
        if findings:
            by_tables = Outcome.FAIL
        else:
            is_unknown = vacuous or gaps or lost[run_id] or why
            by_tables = Outcome.UNKNOWN if is_unknown else Outcome.PASS
        reasons = why if run["judged"] is None else run["reasons"] or ()
        found.append(
            {
                "run_id": run_id,
                "outcome": run["judged"] or by_tables.value,
                "by_tables": by_tables.value,
                "findings": findings,
                "vacuous_checks": vacuous,
                "quarantined": quarantined[run_id],
                "recorded": run["outcome"] or "",
                "reasons": "; ".join(reasons[:REASONS_SHOWN]),
            }
        )
    return tuple(found)


_WHOLE = CHECKS["completeness"].name
