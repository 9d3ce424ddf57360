"""Slow and narrow links between containers: proven, combined, set anew, open if a helper fails."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from docker.errors import NotFound

from highwater.cluster import labels
from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import REPLICATION_PORT as PORT
from highwater.faults.done import Done
from highwater.faults.healing import baseline_problems
from highwater.faults.helpers import HELPER_KIND
from highwater.faults.intents import IntentLog
from highwater.faults.on_containers import ContainerFaults
from highwater.waiting import eventually
from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_checker.run_folder.documents import STEPS
from highwater_checker.verdict import Outcome
from tests.integration.plan_runs import run_plan

pytestmark = pytest.mark.docker

NODES = {"broker-0": 0, "broker-1": 1, "controller-1000": 1000}


def queues(cluster: Cluster) -> dict[str, str]:
    """Return the containers that hold packets back, by the node whose network each is in."""
    of_run = [f"{labels.RUN}={cluster.run_id}", f"{labels.KIND}={HELPER_KIND}"]
    names = {
        cluster.engine.api.inspect_container(cluster.container_name(node))["Id"]: name
        for name, node in NODES.items()
    }
    found = {}
    for each in cluster.engine.api.containers(filters={"label": of_run}):
        try:
            about = cluster.engine.api.inspect_container(each["Id"])
        except NotFound:
            continue  # it is gone since it was listed
        place = str(about["HostConfig"]["NetworkMode"]).removeprefix("container:")
        found[names.get(place, place)] = str(each["Id"])
    return found


def quickest_ms(cluster: Cluster) -> float:
    """Return how long the quickest of five connections from broker-0 to broker-1 took to be made.

    On a link that is 80 ms late none takes less; on an open one, of a busy machine too, some does.
    """
    program = (
        "import socket, time\n"
        "def took():\n"
        "    began = time.monotonic()\n"
        f"    socket.create_connection({(cluster.address(1), PORT)}, 30).close()\n"
        "    return time.monotonic() - began\n"
        "print(1000 * min(took() for _ in range(5)))\n"
    )
    container = cluster.engine.containers.get(cluster.container_name(0))
    for _ in range(5):  # the engine of a busy machine may lose a short program's output
        code, said = container.exec_run(["python", "-c", program])
        assert code == 0, said
        if said:
            return float(said)
    raise AssertionError("the program printed nothing, five times")


def problems_with(text: str, cluster: Cluster) -> str:
    """Return the cluster's differences from its bring-up as one text; "" if it lacks this text."""
    found = " ".join(baseline_problems(cluster))
    return found if text in found else ""


@pytest.mark.highwater(brokers=2, controllers=1)
def test_a_link_is_slow_narrow_and_lossy_at_once_after_a_restart_too_and_open_without_its_helper(
    highwater_cluster: Cluster, tmp_path: Path
) -> None:
    cluster = highwater_cluster
    intents = IntentLog(tmp_path / "intent.jsonl", lambda: 0)
    faults = ContainerFaults(cluster, intents)

    def apply(fault: f.Fault) -> Done:
        return faults.apply(fault, NODES.get)

    try:
        # The fault has an end, so that no renewal brings its helper back. The end is far away: once
        # it has come, on a slow machine, the undo has no slowness to compare the packets with.
        slow = f.SlowLink("broker-0", "broker-1", "replication", 80, 40, for_ms=3_600_000)
        narrow = f.LimitBandwidth("broker-1", "broker-0", "replication", 500)
        faults.get_ready([slow, narrow])
        with ThreadPoolExecutor(2) as pool:
            slowed, narrowed = pool.map(apply, (slow, narrow))
        assert slowed.proof.count("(asked 80 to 120)") == 2  # before: only if canaries sufficed
        assert "(asked 500)" in narrowed.proof
        assert set(queues(cluster)) == {"broker-0", "broker-1"}
        wrong = eventually(
            lambda: problems_with("2 helpers in network namespaces", cluster),
            within=60,
            what="those that proved the faults are gone",
            state=lambda: baseline_problems(cluster),
        )
        assert wrong.count("nft rules") == 2

        lossy = apply(f.LossyLink("broker-0", "broker-1", "replication", 40))
        assert lossy.proof.count("(asked 80 to 120)") >= 2  # 4 where canaries sufficed before, too
        killed = apply(f.Kill("broker-1"))
        killed.revert()
        assert "(asked 80 to 120)" in lossy.revert()  # the undo of a fault that had been set anew

        late = apply(f.SlowZooKeeper(60))
        assert late.proof.count("(asked 60)") == 2 * len(NODES)
        assert set(queues(cluster)) == set(NODES)
        late.revert()
        assert set(queues(cluster)) == {"broker-0", "broker-1"}

        assert quickest_ms(cluster) >= 80
        cluster.engine.api.kill(queues(cluster)["broker-1"])
        eventually(lambda: "broker-1" not in queues(cluster), within=30, what="the helper is gone")
        eventually(
            lambda: quickest_ms(cluster) < 80,
            within=60,
            what="the link is open without its helper",
            state=lambda: quickest_ms(cluster),
        )
        assert "0 % of" in slowed.revert()
        assert "0 % of" in narrowed.revert()
    finally:
        problems = faults.heal_all()
        intents.close()
    assert [problem for problem in problems if "was not undone" in problem] == problems
    # The fault of the killed helper had ended before; that shows only if canaries sufficed before.
    assert len(problems) <= 1
    assert queues(cluster) == {}
    assert baseline_problems(cluster) == []


def test_a_plan_with_slow_and_narrow_links_passes_with_every_step_proven(tmp_path: Path) -> None:
    session = {"session_timeout_ms": 4_000}
    topology = PlanTopology(controllers=1, broker_settings=session, controller_settings=session)
    workload = Workload((Topic(min_insync_replicas=2),), (Producer(rate_per_s=50),))
    steps = (
        Step(5_000, f.SlowLink("leader of t-0", "any", "replication", 60, 40, for_ms=5_000)),
        Step(5_000, f.LimitBandwidth("any", "leader of t-0", "client", 800, for_ms=5_000)),
        Step(5_000, f.SlowZooKeeper(80, for_ms=5_000)),
    )
    plan = Plan(1, topology=topology, workload=workload, steps=steps, quiet_after_ms=12_000)
    result = run_plan(plan, tmp_path)
    folder = result.folder
    assert result.verdict.outcome is Outcome.PASS, result.verdict.reasons
    done = STEPS.read(folder) or ()
    assert [each.fired for each in done] == [True] * 3
    assert "(asked 60 to 100)" in done[0].proof
    assert "(asked 800)" in done[1].proof
    assert "(asked 80)" in done[2].proof
