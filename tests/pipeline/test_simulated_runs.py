"""A run in the simulator leaves what the pipeline judges a run by."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from highwater.project import project_root
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater_chaos.plan import decode_plan
from highwater_checker.run_folder.documents import TOPOLOGY
from highwater_pipeline.analysis import analyse
from highwater_pipeline.checks import acknowledged_records
from highwater_pipeline.ingest import documents, ingest
from highwater_pipeline.ingest.inventory import take_inventory
from highwater_pipeline.judging import judge
from highwater_pipeline.tables import read_tables

PLAN = project_root() / "tests" / "scenarios" / "leader_killed.json"


def test_its_verdict_is_the_judges_and_of_large_runs_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three folders of one run: sound, without what the simulator saw, and too large to judge."""
    folder = RunFolder(tmp_path / "sound")
    with Screen() as screen:
        ended = run_in_simulator(decode_plan(PLAN.read_bytes()), folder, screen)
    assert ended.verdict.outcome == "pass"
    damaged, large = (
        shutil.copytree(folder.path, tmp_path / name) for name in ("damaged", "large")
    )
    for each in (damaged, large):
        (each / "watched.json").unlink()
    store = tmp_path / "store"
    assert ingest(None, [folder.path, damaged], store).quarantined == {}
    monkeypatch.setattr(documents, "JUDGED_MAX_BYTES", 0)
    ingest(None, [large], store)
    tables = read_tables(spark, store, are_small=True)
    told = {
        row["run_id"]: (row["outcome"], row["by_tables"], row["reasons"])
        for row in analyse(tables).verdicts
    }
    assert told == {
        "damaged": ("unknown", "pass", "segments decode: watched.json is missing"),
        "large": ("pass", "pass", ""),
        "sound": ("pass", "pass", ""),
    }
    judged = judge(acknowledged_records.CHECK, tables)
    assert judged.shown == ()
    assert min(judged.examined.values()) > 0


def test_its_topology_is_as_that_of_a_run_in_containers(tmp_path: Path) -> None:
    plan = decode_plan(PLAN.read_bytes())
    topology = replace(plan.topology, toggles={"unclean_election": True})
    folder = RunFolder(tmp_path / "run")
    with Screen() as screen:
        run_in_simulator(replace(plan, topology=topology), folder, screen)
    read = TOPOLOGY.read(folder.path)
    assert read is not None
    assert (read.brokers, read.controllers, read.preset) == (3, 2, "fenced")
    assert (read.toggles, read.session_timeout_ms) == ({"unclean_election": True}, None)
    assert documents.read_documents(take_inventory(folder.path)).row["world"] == "sim"
