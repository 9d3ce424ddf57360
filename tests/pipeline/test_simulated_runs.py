"""A run in the simulator leaves what the pipeline judges a run by."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from highwater.planned.in_simulator import run_in_simulator
from highwater.project import project_root
from highwater.run_folder import RunFolder
from highwater.screen import Screen
from highwater_chaos.plan import decode_plan
from highwater_pipeline.checks import acknowledged_records, isr, replica_equality
from highwater_pipeline.ingest import ingest
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
    for check in (acknowledged_records.CHECK, replica_equality.SEGMENTS_DECODE, isr.CHECK):
        judged = judge(check, tables)
        assert judged.shown == ()
        assert judged.examined["run"] > 0, check.name
