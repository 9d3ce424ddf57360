"""A run in the simulator leaves what the pipeline judges a run by."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from highwater.project import project_root
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater_chaos.plan import decode_plan
from highwater_pipeline.analysis import analyse
from highwater_pipeline.checks import acknowledged_records, isr, replica_equality
from highwater_pipeline.ingest import documents, ingest
from highwater_pipeline.judging import judge
from highwater_pipeline.tables import read_tables

PLAN = project_root() / "tests" / "scenarios" / "leader_killed.json"


def test_its_logs_looks_and_traces_are_examined_and_sound(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    with Screen() as screen:
        ended = run_in_simulator(decode_plan(PLAN.read_bytes()), folder, screen)
    assert ended.verdict.outcome == "pass"
    assert ingest(None, [folder.path], tmp_path / "store").quarantined == {}
    tables = read_tables(spark, tmp_path / "store")
    (row,) = analyse(tables).verdicts
    assert (row["outcome"], row["recorded"], row["by_tables"]) == ("pass",) * 3
    for check in (acknowledged_records.CHECK, replica_equality.SEGMENTS_DECODE, isr.CHECK):
        judged = judge(check, tables)
        assert judged.shown == ()
        assert judged.examined["run"] > 0, check.name


def test_what_was_changed_since_is_judged_as_it_is_now_and_large_runs_by_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    with Screen() as screen:
        run_in_simulator(decode_plan(PLAN.read_bytes()), folder, screen)
    (folder.path / "watched.json").unlink()
    ingest(None, [folder.path], tmp_path / "store")
    (row,) = analyse(read_tables(spark, tmp_path / "store")).verdicts
    assert (row["outcome"], row["by_tables"]) == ("unknown", "pass")
    assert row["reasons"] == "segments decode: watched.json is missing"
    monkeypatch.setattr(documents, "JUDGED_MAX_BYTES", 0)
    ingest(None, [folder.path], tmp_path / "other")
    (row,) = analyse(read_tables(spark, tmp_path / "other")).verdicts
    assert (row["outcome"], row["by_tables"], row["reasons"]) == ("pass", "pass", "")
