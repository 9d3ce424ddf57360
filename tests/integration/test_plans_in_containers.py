"""Plans on containers: steps wait for their time or condition, are proven, and are judged."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from highwater import Cluster, eventually
from highwater.cluster.topology import ZOOKEEPER
from highwater.runs.plans.in_containers import OWN_ZOOKEEPER
from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Plan, PlanTopology, Producer, Step, Topic, When, Workload
from highwater_checker.requirements import OWN_STARTS
from highwater_checker.run_folder.documents import STEPS
from highwater_checker.run_folder.names import INTENTS
from highwater_checker.verdict import Outcome
from tests.integration.plan_runs import run_plan

pytestmark = pytest.mark.docker

SESSION = {"session_timeout_ms": 2_000}
TOPOLOGY = PlanTopology(broker_settings=SESSION, controller_settings=SESSION)
WORKLOAD = Workload((Topic(min_insync_replicas=2),), (Producer(rate_per_s=50),))


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            (Step(1_000, f.Kill("leader of t-0", 4_000)),),
            id="leader killed",
            marks=pytest.mark.full,  # test_whole_node_failures kills one in every run of the tests
        ),
        pytest.param(
            (
                Step(
                    500,
                    f.Pause("leader of t-0", 4_000),
                    When(Observed.EVENT, event="high_watermark_advanced", count=5),
                ),
                Step(
                    500,
                    f.Terminate("active controller", 1_000),
                    When(Observed.LEADER_EPOCH, "t-0"),
                ),
            ),
            id="leader paused, then the controller stopped",
        ),
        pytest.param((Step(3_000, f.Isolate("leader of t-0", 4_000)),), id="leader cut off"),
    ],
)
def test_plan_passes_on_containers_with_every_step_proven(
    steps: tuple[Step, ...], tmp_path: Path
) -> None:
    plan = Plan(seed=1, topology=TOPOLOGY, workload=WORKLOAD, steps=steps, quiet_after_ms=8_000)
    result = run_plan(plan, tmp_path)
    folder = result.folder
    assert result.verdict.outcome is Outcome.PASS, result.verdict.reasons
    done = STEPS.read(folder) or ()
    assert [each.fired for each in done] == [True] * len(steps)
    assert all(each.drift_ms >= 0 for each in done)
    written = {path.name for path in folder.iterdir()}
    assert written >= {"plan.json", "verdict.json", "report.html", "junit.xml", "zookeeper.json"}
    assert {path.stem for path in (folder / "history").iterdir()} == {"p0", "c0"}


def test_a_step_whose_condition_never_holds_makes_the_verdict_unknown(tmp_path: Path) -> None:
    never = When(Observed.LEADER_EPOCH, "t-0", count=50)
    plan = Plan(
        seed=1,
        topology=TOPOLOGY,
        workload=WORKLOAD,
        steps=(Step(0, f.Kill("leader of t-0"), never),),
        quiet_after_ms=2_000,
    )
    result = run_plan(plan, tmp_path, tries=1)
    assert result.verdict.outcome is Outcome.UNKNOWN
    assert "its condition was not seen" in " ".join(result.verdict.reasons)


def restart_two(folder: Path) -> None:
    """Restart ZooKeeper and broker 1, as somebody at the engine might, after the first step.

    ZooKeeper first: its starts are counted when the steps end, a broker's when all has settled.
    """
    intents = eventually(
        lambda: next(folder.glob(f"*/{INTENTS}"), None), within=120, what="the steps have begun"
    )
    cluster = Cluster.attach(intents.parent.name)
    for node in (ZOOKEEPER, 1):
        cluster.engine.api.restart(cluster.container_name(node), timeout=0)


def test_nodes_that_somebody_else_restarts_make_the_verdict_unknown(tmp_path: Path) -> None:
    """The plan's own restart, of another broker, is none of somebody else's."""
    steps = (Step(500, f.Kill("broker-0", 1_000)),)
    plan = Plan(seed=1, topology=TOPOLOGY, workload=WORKLOAD, steps=steps, quiet_after_ms=6_000)
    with ThreadPoolExecutor(1) as pool:
        restarted = pool.submit(restart_two, tmp_path)
        result = run_plan(plan, tmp_path, tries=1)
        restarted.result()
    assert result.verdict.outcome is Outcome.UNKNOWN
    found = {each.name: each for each in result.verdict.requirements}
    assert found[OWN_STARTS].evidence == "node 1 was started again 1 times, by the run 0 times"
    assert not found[OWN_ZOOKEEPER].met


def test_faults_on_links_are_proven_by_canaries_and_taken_back_by_themselves(
    tmp_path: Path,
) -> None:
    """A cut-off follower leaves the ISR and joins it again; then a link loses packets."""
    lag = {"replica_lag_time_max_ms": 1_500}
    topology = PlanTopology(broker_settings={**SESSION, **lag}, controller_settings=SESSION)
    cut = f.Cut(
        "leader of t-0", "last follower of t-0", "replication", both_ways=True, for_ms=4_000
    )
    steps = (
        Step(500, cut),
        Step(
            2_500,
            f.LossyLink("any", "active controller", "control", 30, 4_000),
            When(Observed.EVENT, "t-0", "isr_changed"),
        ),
    )
    plan = Plan(seed=1, topology=topology, workload=WORKLOAD, steps=steps, quiet_after_ms=9_000)
    result = run_plan(plan, tmp_path)
    folder = result.folder
    assert result.verdict.outcome is Outcome.PASS, result.verdict.reasons
    done = STEPS.read(folder) or ()
    assert [each.fired for each in done] == [True, True]
    assert done[0].proof.count("100 % of") == 4  # both ways; to the port and from the port
    lines = (folder / "intent.jsonl").read_text().splitlines()
    intents = [json.loads(line) for line in lines]
    for number in (1, 2):
        phases = [line["phase"] for line in intents if line["number"] == number]
        assert phases == ["intended", "acting", "reverting", "reverted"]
    assert all(" 0 % of" in line["seen"] for line in intents if line["phase"] == "reverted")
