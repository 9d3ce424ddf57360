"""Verdicts of runs: fail with a finding, unknown where nothing was examined or lines are lost."""

from __future__ import annotations

from pyspark.sql import SparkSession

from highwater_pipeline.checks.findings import CheckFrames
from highwater_pipeline.checks.registry import (
    CHECKS,
    WHERE_THERE_ARE_FOLLOWERS,
    WHERE_THERE_IS_SOMETHING,
)
from highwater_pipeline.judging import run_checks, verdicts
from highwater_pipeline.tables import FINDINGS, QUARANTINE, RUNS, TABLES, Tables

ALL = "one leader per leader epoch (I7)"
IDLE = WHERE_THERE_IS_SOMETHING[0].name
FOLLOWERS = WHERE_THERE_ARE_FOLLOWERS[0].name


def tables_of(
    spark: SparkSession, runs: dict[str, int], quarantine: list[tuple[str, str]]
) -> Tables:
    rows = {
        RUNS.name: [
            tuple({"run_id": run_id, "brokers": brokers}.get(name) for name in RUNS.columns)
            for run_id, brokers in runs.items()
        ],
        QUARANTINE.name: [(run_id, "trace/x", 1, reason, "") for run_id, reason in quarantine],
    }
    return Tables({t.name: spark.createDataFrame(rows.get(t.name, []), t.schema) for t in TABLES})


def test_a_run_is_judged_by_what_was_found_and_by_what_was_looked_at(spark: SparkSession) -> None:
    examined = [
        ("good", ALL, 5), ("good", IDLE, 0), ("good", FOLLOWERS, 3),
        ("bad", ALL, 0), ("vacuous", ALL, 0), ("torn", ALL, 1), ("lost", ALL, 1),
        ("alone", ALL, 1), ("alone", FOLLOWERS, 0), ("together", FOLLOWERS, 0),
    ]  # fmt: skip
    found = spark.createDataFrame([("bad", "I7", "t", 0, -1, -1, "", "two led")], FINDINGS.schema)
    tables = tables_of(
        spark,
        dict.fromkeys(("good", "bad", "vacuous", "torn", "lost", "together"), 3) | {"alone": 1},
        [("torn", "torn: its writer did not finish it"), ("lost", "not JSON: x"), ("bad", "torn")],
    )
    judged = CheckFrames(
        found, spark.createDataFrame(examined, "run_id string, check string, examined long")
    )
    rows = {row["run_id"]: row for row in verdicts(tables, judged).collect()}
    assert {run_id: row["outcome"] for run_id, row in rows.items()} == {
        "good": "pass", "bad": "fail", "vacuous": "unknown", "torn": "pass", "lost": "unknown",
        "alone": "pass", "together": "unknown",
    }  # fmt: skip
    assert (rows["bad"]["findings"], rows["bad"]["quarantined"]) == (1, 1)
    assert rows["good"]["recorded"] == ""


def test_a_run_without_anything_is_unknown_to_all_checks_together(spark: SparkSession) -> None:
    tables = tables_of(spark, {"empty": 3}, [])
    judged = run_checks(tables, CHECKS)
    (row,) = verdicts(tables, judged).collect()
    assert (row["outcome"], row["findings"]) == ("unknown", 0)
    assert row["vacuous_checks"] > 5


def test_every_check_has_a_name_of_its_own() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
