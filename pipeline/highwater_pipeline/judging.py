"""What a check said of many runs, small enough to leave Spark, and the runs' verdicts by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_checker.idle import may_be_idle
from highwater_checker.verdict import Outcome
from highwater_pipeline.checks import completeness
from highwater_pipeline.checks.findings import Check, CheckFrames, in_order, in_words
from highwater_pipeline.checks.idle import Idleness
from highwater_pipeline.ingest.lines import TORN
from highwater_pipeline.tables import Row, Tables

REASONS_SHOWN = 3
SHOWN_MAX = 200
"""Of a check's findings, how many are shown."""
LEAVE_MAX = 10_000
"""How many leave Spark: so few are counted here, more by a query of their own."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one check said.

    examined: by the run, how much it looked at, of the runs to which it applies. found: by the
    run, its findings, of runs with any. shown: the first SHOWN_MAX findings, in words.
    """

    check: str
    examined: Mapping[str, int]
    found: Mapping[str, int]
    shown: tuple[Row, ...]


def judge(check: Check, tables: Tables) -> Judgement:
    """Run the check over all runs: one query, and one more where there is much to find."""
    judged = check.run(tables)
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


def _in_one(judged: CheckFrames) -> DataFrame:
    """Return the first findings and what was examined as one frame: what both need is made once."""
    first = judged.findings.orderBy(*judged.findings.columns).limit(LEAVE_MAX + 1)
    return first.unionByName(judged.examined, allowMissingColumns=True)


def verdicts(
    runs: Sequence[Row],
    judgements: Sequence[Judgement],
    quarantine: Sequence[Row],
    idleness: Idleness,
) -> tuple[Row, ...]:
    """Return one row a run, by run_id.

    runs: rows of RUNS. quarantine: (run_id, reason, count) rows.

    Columns:
        run_id
        outcome: the judge's where it judged the run, else by_tables.
        by_tables: by the rules of highwater_checker.verdict. Fail with any finding; else unknown
            with a check that examined nothing and is not excused (highwater_checker.idle), with a
            line in quarantine other than a torn last one, or with a gap in a trace; else pass.
        findings, vacuous_checks, quarantined: counts, by the tables.
        recorded: the outcome in the run's own verdict.json, "" without one.
        reasons: the judge's.
    """
    quarantined: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for row in quarantine:
        quarantined[row["run_id"]] += row["count"]
        lost[row["run_id"]] += 0 if row["reason"].startswith(TORN) else row["count"]
    found: list[Row] = []
    for run in sorted(runs, key=lambda row: row["run_id"]):
        run_id = run["run_id"]
        findings = sum(each.found.get(run_id, 0) for each in judgements if each.check != _WHOLE)
        gaps = sum(each.found.get(run_id, 0) for each in judgements if each.check == _WHOLE)
        reasons = idleness.reasons(run)
        vacuous = sum(
            each.examined.get(run_id) == 0 and not may_be_idle(each.check, reasons)
            for each in judgements
        )
        if findings:
            by_tables = Outcome.FAIL
        else:
            by_tables = Outcome.UNKNOWN if vacuous or gaps or lost[run_id] else Outcome.PASS
        found.append(
            {
                "run_id": run_id,
                "outcome": run["judged"] or by_tables.value,
                "by_tables": by_tables.value,
                "findings": findings,
                "vacuous_checks": vacuous,
                "quarantined": quarantined[run_id],
                "recorded": run["outcome"] or "",
                "reasons": "; ".join((run["reasons"] or ())[:REASONS_SHOWN]),
            }
        )
    return tuple(found)


_WHOLE = completeness.CHECK.name
