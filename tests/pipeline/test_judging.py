"""Verdicts of many runs: any finding fails, and a check that examined nothing proves nothing."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from bench.pipeline.in_duckdb import SAID_AGAIN
from highwater_pipeline import judging
from highwater_pipeline.checks import high_watermarks
from highwater_pipeline.checks.idle import Idleness
from highwater_pipeline.checks.in_sql import SHARED, TEXTS, tables_of
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.judging import Judgement, judge, verdicts
from highwater_pipeline.tables import REPLICAS, RUNS, TABLES, Row
from tests.pipeline.frames import tables_from_rows

ALL = "one leader per leader epoch (I7)"
IDLE = high_watermarks.CHECK.name
FOLLOWERS = CHECKS["truncations"].name


@pytest.mark.parametrize(
    ("outcome", "examined", "found", "reasons", "factor"),
    [
        ("pass", {ALL: 5, IDLE: 0, FOLLOWERS: 3}, 0, [], 3),
        ("fail", {ALL: 0}, 1, ["torn"], 3),
        ("unknown", {ALL: 0}, 0, [], 3),
        ("pass", {ALL: 1}, 0, ["torn: its writer did not finish it"], 3),
        ("unknown", {ALL: 1}, 0, ["not JSON: x"], 3),
        ("pass", {ALL: 1, FOLLOWERS: 0}, 0, [], 1),
        ("unknown", {ALL: 1, FOLLOWERS: 0}, 0, [], 3),
        ("unknown", {ALL: 1, FOLLOWERS: 0}, 0, [], None),
        ("pass", {}, 0, [], 3),
    ],
    ids=[
        "good", "bad", "vacuous", "torn", "lost lines", "alone", "together", "unknown factor",
        "does not apply",
    ],
)  # fmt: skip
def test_a_run_is_judged_by_its_findings_and_by_the_counts_examined(
    outcome: str, examined: dict[str, int], found: int, reasons: list[str], factor: int | None
) -> None:
    promised = {
        "replication_factor": factor, "only_in_sync": False, "consumers": [], "unproven": [],
        "watched": None, "watched_examined": None,
    }  # fmt: skip
    runs: list[Row] = [
        {**promised, "run_id": "r", "outcome": None, "judged": None, "reasons": None},
        {
            **promised,
            "run_id": "another",
            "outcome": "fail",
            "judged": "unknown",
            "reasons": ["a step was not done", "b", "c", "d"],
        },
    ]
    judgements = [
        Judgement(check, {"r": count, "another": 1}, {"r": found} if found else {}, ())
        for check, count in examined.items()
    ]
    quarantine: list[Row] = [
        {"run_id": "r", "reason": reason, "is_judged": True, "count": 2} for reason in reasons
    ]
    another, row = verdicts(runs, judgements, quarantine, Idleness(), {})
    assert row == {
        "run_id": "r", "outcome": outcome, "by_tables": outcome, "findings": found * len(examined),
        "vacuous_checks": sum(
            count == 0 and check != IDLE and not (check == FOLLOWERS and factor == 1)
            for check, count in examined.items()
        ),
        "quarantined": 2 * len(reasons), "recorded": "", "reasons": "",
    }  # fmt: skip
    told = another["outcome"], another["by_tables"], another["recorded"], another["reasons"]
    assert told == ("unknown", "pass", "fail", "a step was not done; b; c"), "the judge's counts"


@pytest.mark.parametrize("leave_max", [2, 3, 4, 10_000])
def test_few_findings_are_shown_and_all_are_counted(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, leave_max: int
) -> None:
    monkeypatch.setattr(judging, "SHOWN_MAX", 2)
    monkeypatch.setattr(judging, "LEAVE_MAX", leave_max)
    short = {"topic": "t", "broker": 1, "high_watermark": 9, "log_end_offset": 4}
    replicas = [
        {"run_id": run_id, "partition": partition, **short}
        for run_id, partition in [("b", 1), ("a", 2), ("b", 0), ("a", 1)]
    ]
    runs = [{"run_id": run_id} for run_id in ("a", "b", "c")]
    judged = judge(
        CHECKS["high_watermarks_are_held"],
        tables_from_rows(spark, {RUNS: runs, REPLICAS: replicas}),
    )
    assert judged.examined == {"a": 2, "b": 2, "c": 0}
    assert judged.found == {"a": 2, "b": 2}
    assert [(row["run_id"], row["partition"]) for row in judged.shown] == [("a", 1), ("a", 2)]


def test_every_sql_text_is_of_one_check() -> None:
    assert set(TEXTS) | set(SAID_AGAIN) <= set(CHECKS)
    assert not set(TEXTS) & set(SAID_AGAIN)
    tables = {table.name for table in TABLES} | set(SHARED)
    assert {name for text in TEXTS.values() for name in tables_of(text)} <= tables


def test_every_check_has_a_name_of_its_own() -> None:
    assert len({check.name for check in CHECKS.values()}) == len(CHECKS)
