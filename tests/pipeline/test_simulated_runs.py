"""A simulated run's folder describes its cluster as a run's in containers does."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from highwater.project import project_root
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater_chaos.plan import decode_plan
from highwater_checker.run_folder.documents import TOPOLOGY
from highwater_pipeline.ingest import documents
from highwater_pipeline.ingest.inventory import take_inventory

PLAN = project_root() / "tests" / "scenarios" / "leader_killed.json"


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
