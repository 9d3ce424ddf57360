"""A random plan of a fixed seed passes in both worlds, with every step proven."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import Topology
from highwater.errors import HarnessError
from highwater.faults.done import Done
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder, new_run_id
from highwater.runs.chaos.acting import acting_faults
from highwater.runs.chaos.planning import plan_of
from highwater.runs.chaos.single import apply_one, leave_one, start_again
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater_chaos import faults as f
from highwater_chaos.random_kinds import Kind
from highwater_chaos.random_plan import Wanted
from highwater_checker.run_folder.documents import STEPS
from highwater_checker.run_folder.names import INTENTS
from highwater_checker.verdict import Outcome
from tests.integration.plan_runs import run_plan

pytestmark = pytest.mark.docker

WITHOUT = (
    Kind.ISOLATE, Kind.BRIDGE, Kind.FLAP, Kind.TERMINATE, Kind.LOSE_ZOOKEEPER, Kind.CRASH_LOOP,
)  # fmt: skip
PLAN = plan_of(Wanted(seed=2411, duration_ms=20_000, without=WITHOUT))
WRITTEN = {
    "plan.json", "topology.json", "steps.json", INTENTS, "snapshots.jsonl", "verdict.json",
    "zookeeper.json", "report.html", "junit.xml", "run.png", "history", "trace", "logs", "segments",
}  # fmt: skip


def test_a_random_plan_passes_on_containers_with_every_step_proven(tmp_path: Path) -> None:
    result = run_plan(PLAN, tmp_path)
    folder = result.folder
    assert result.verdict.outcome is Outcome.PASS, result.verdict.reasons
    steps = STEPS.read(folder) or ()
    assert [each.fired for each in steps] == [True] * len(PLAN.steps)
    for each in steps:
        assert each.drift_ms == each.acted_ms - each.due_ms
        assert each.begun_ms <= each.acted_ms <= each.done_ms
    assert acting_faults(folder / INTENTS) == []
    # The plan kills the leader of t-0 for longer than a session, so another broker led meanwhile.
    changed = [r for r in result.verdict.requirements if "changed its leader" in r.name]
    assert "t-0" in {each.name.split()[0] for each in changed}
    assert {path.name for path in folder.iterdir()} >= WRITTEN
    written = {path.stem for path in (folder / "history").iterdir()}
    assert written == {
        client + incarnation
        for client in ("p0", "p1", "p2", "c0", "c1", "g0m0")
        for incarnation in ("", ".2", ".3")  # the plan kills the clients twice
    }


def test_the_same_plan_passes_in_the_simulator(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / new_run_id("chaos"))
    with Screen() as screen:
        result = run_in_simulator(PLAN, folder, screen)
    assert result.verdict.outcome is Outcome.PASS, result.verdict.reasons
    assert (folder.path / "plan.json").read_bytes().startswith(b"{")


def test_one_fault_on_a_cluster_is_proven_and_taken_back_in_time_or_when_told(
    tmp_path: Path,
) -> None:
    """A pause ends after its time; a pause without end stays until a command undoes it."""
    with Cluster(Topology(brokers=1, controllers=1)) as cluster:
        cluster.start()
        path = tmp_path / cluster.run_id / INTENTS
        told, seen = threading.Event(), []

        def acts(done: Done) -> None:
            seen.append((cluster.status(0), [each.phase for each in acting_faults(path)]))

        applied = apply_one(cluster, f.Pause("broker-0", 500), tmp_path, told, acts)
        assert (applied.node, applied.proof) == (0, "paused")
        assert (cluster.status(0), acting_faults(path)) == ("running", [])

        def tell(done: Done) -> None:
            acts(done)
            told.set()

        apply_one(cluster, f.Pause("controller-1000"), tmp_path, told, tell)
        assert seen == [("paused", ["acting"]), ("running", ["acting"])]
        assert cluster.status(1000) == "running"

        with pytest.raises(HarnessError, match="there is no node 'broker-3'"):
            apply_one(cluster, f.Pause("broker-3"), tmp_path, told)
        with pytest.raises(HarnessError, match="not done: nobody is that now"):
            apply_one(cluster, f.Pause("leader of t-0"), tmp_path, told)


def test_nodes_are_left_down_and_frozen_until_they_are_started(tmp_path: Path) -> None:
    with Cluster(Topology(brokers=1, controllers=1)) as cluster:
        cluster.start()
        path = tmp_path / cluster.run_id / INTENTS
        killed = leave_one(cluster, f.Kill("broker-0"), tmp_path)
        frozen = leave_one(cluster, f.Pause("active controller"), tmp_path)
        assert [(each.node, each.proof) for each in (killed, frozen)] == [
            (0, "exit code 137"),
            (1000, "paused"),
        ]
        assert (cluster.status(0), cluster.status(1000)) == ("exited", "paused")
        assert [each.node for each in acting_faults(path)] == [0, 1000]

        start_again(cluster, "broker-0", tmp_path)
        assert [each.node for each in acting_faults(path)] == [1000]
        start_again(cluster, "controller-1000", tmp_path)
        assert (cluster.status(0), cluster.status(1000)) == ("running", "running")
        assert acting_faults(path) == []
        start_again(cluster, "broker-0", tmp_path)  # it runs: there is nothing to do

        for name in ("broker-3", "zookeeper"):
            with pytest.raises(HarnessError, match="no broker or controller"):
                start_again(cluster, name, tmp_path)
        with pytest.raises(HarnessError, match="only while the command"):
            leave_one(cluster, f.Cut("broker-0", "any", "replication"), tmp_path)
