"""A harness is killed in the middle of faults; the reaper and the kernel's timeouts end them.

`highwater heal` after a kill at each step of each kind of fault is tested in
test_every_fault_after_a_kill.py. The moments here are phases in the run's intent.jsonl.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import docker
import msgspec
import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.cluster import labels
from highwater.cluster.cleaning import find_runs, remove_run
from highwater.cluster.cluster import Cluster
from highwater.cluster.engine import connect_engine
from highwater.cluster.labels import Lease
from highwater.cluster.topology import REPLICATION_PORT, Topology
from highwater.faults.examples import EXAMPLES, TOPIC, example_name
from highwater.faults.healing import baseline_problems
from highwater.run_folder import new_run_id
from highwater.waiting import eventually
from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Step, When
from highwater_checker.run_folder.names import INTENTS
from tests.support.fuse import marks_of

pytestmark = pytest.mark.docker

ACTS_WITHIN_S = 120.0
GONE_WITHIN_S = 60.0
LEASE_S = 10
"""The lease of cuts in the child: shorter than usual, so that the test waits less."""
ENDS_WITHIN_S = LEASE_S + 20.0

PLAN_ON_CONTAINERS = """
import sys
from pathlib import Path
import msgspec
from highwater.runs.plans.in_containers import run_in_containers
from highwater.run_folder import RunFolder
from highwater.report.screen import Screen
from highwater_chaos.plan import Plan, PlanTopology, Producer, Step, Topic, Workload

steps = msgspec.json.decode(sys.argv[2], type=tuple[Step, ...])
workload = Workload((Topic(), *map(Topic, sys.argv[3:])), (Producer(rate_per_s=20),))
plan = Plan(1, topology=PlanTopology(), workload=workload, steps=steps, quiet_after_ms=60_000)
with Screen() as screen:
    run_in_containers(plan, RunFolder(Path(sys.argv[1])), screen)
"""
THREE_MECHANISMS = (
    Step(0, f.Pause("broker-2", 60_000)),
    Step(0, f.Isolate("controller-1001", 60_000)),
    Step(1_500, f.Cut("broker-0", "broker-1", "replication", for_ms=60_000)),
)

REPLICATED = When(Observed.EVENT, "t-0", event="high_watermark_advanced", count=3)

FAULTS_ON_A_CLUSTER = """
import sys, threading, time
from pathlib import Path
from highwater.cluster.cluster import Cluster
from highwater.faults.links import acting as links
from highwater.faults.intents import IntentLog
from highwater.faults.on_containers import ContainerFaults
from highwater_chaos import faults as f

run_id, path, lease_s = sys.argv[1:]
links.LEASE_NS = int(lease_s) * 10**9
cluster = Cluster.attach(run_id)
nodes = {spec.name: int(spec.node_id) for spec in cluster.topology.nodes()}
faults = ContainerFaults(cluster, IntentLog(Path(path), time.monotonic_ns))
planned = (
    f.Pause("controller-1000"),
    f.Kill("broker-2"),
    f.Cut("broker-0", "broker-1", "replication"),
)
faults.get_ready(planned)
threads = [threading.Thread(target=faults.apply, args=(each, nodes.get)) for each in planned]
for thread in threads:
    thread.start()
sys.stdin.read()
"""


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = connect_engine()
    yield client
    client.close()


class Harness:
    """A process that does faults, and the phases in its intent.jsonl."""

    def __init__(self, script: str, intents: Path, *arguments: str) -> None:
        self._intents = intents
        self._log = intents.parent.with_suffix(".log")  # a run makes its folder itself
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", script, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def phases(self) -> dict[str, list[str]]:
        """Return each fault's phases until now, by its kind."""
        if not self._intents.exists():
            return {}
        kinds: dict[int, str] = {}
        found: dict[str, list[str]] = {}
        for text in self._intents.read_bytes().split(b"\n")[:-1]:  # the last may be half written
            line = json.loads(text)
            kinds.setdefault(line["number"], line.get("fault", {}).get("fault", ""))
            found.setdefault(kinds[line["number"]], []).append(line["phase"])
        return found

    def told(self) -> str:
        return self._log.read_text()

    def reaper_and_clients(self) -> list[int]:
        """Return both processes once they have started; the harness must still run."""
        assert self._process.poll() is None, self.told()
        found = children_of(self.pid)
        return found if len(found) == 2 else []

    def kill_once(self, wanted: dict[str, str]) -> None:
        """Kill the harness as soon as each kind of fault has reached its phase."""

        def is_so() -> bool:
            assert self._process.poll() is None, self.told()
            seen = self.phases()
            assert not any("not_done" in each for each in seen.values()), seen
            return all(phase in seen.get(kind, ()) for kind, phase in wanted.items())

        try:
            eventually(is_so, within=ACTS_WITHIN_S, what=f"{wanted}", state=self.told)
        finally:
            self.end()

    def end(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=GONE_WITHIN_S)


def processes_with(word: str) -> list[int]:
    """Return the processes that have the word in their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue  # the process ended meanwhile
    return found


def children_of(pid: int) -> list[int]:
    """Return the process's children that run one of our modules: the reaper and the clients."""
    found = []
    for other in processes_with("highwater"):
        try:
            stat = Path(f"/proc/{other}/stat").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(other)
    return found


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def check_that_the_reaper_removes_all(
    engine: docker.DockerClient,
    folder: Path,
    steps: Sequence[Step],
    wanted: dict[str, str],
    *topics: str,
) -> None:
    """Kill a plan's run once its kinds of faults have reached these phases; nothing may be left.

    topics: those that the run has beside t.
    """
    run_id = new_run_id("killed")
    arguments = (str(folder / run_id), msgspec.json.encode(steps).decode(), *topics)
    harness = Harness(PLAN_ON_CONTAINERS, folder / run_id / INTENTS, *arguments)
    try:
        children = eventually(
            harness.reaper_and_clients,
            within=ACTS_WITHIN_S,
            what="two children",
            state=harness.told,
        )
        harness.kill_once(wanted)
        eventually(lambda: not find_runs(engine, run_id), within=GONE_WITHIN_S)
        # The reaper ends once it finds nothing more, the clients once their harness is gone.
        eventually(lambda: not any(map(is_alive, children)), within=GONE_WITHIN_S)
        assert find_runs(engine, run_id) == []
    finally:
        harness.end()
        remove_run(engine, run_id)


def test_nothing_is_left_of_a_plans_run_whose_harness_is_killed_while_a_helper_loads_rules(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    wanted = {"pause": "acting", "isolate": "acting", "cut": "intended"}
    check_that_the_reaper_removes_all(engine, tmp_path, THREE_MECHANISMS, wanted)


@pytest.mark.full
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(each, id=example_name(each), marks=marks_of(each))
        for each in (*EXAMPLES, f.KillClient())
    ],
)
def test_nothing_is_left_of_a_plans_run_whose_harness_is_killed_while_a_fault_acts(
    engine: docker.DockerClient, fault: f.Fault, tmp_path: Path
) -> None:
    wanted = {f.fault_name(fault): "acting"}
    when = REPLICATED if isinstance(fault, f.FlipBit) else None  # it needs a byte in the log
    is_made_before = getattr(fault, "topic", "") == TOPIC.topic and fault != TOPIC
    topics = (TOPIC.topic,) if is_made_before else ()
    check_that_the_reaper_removes_all(engine, tmp_path, [Step(0, fault, when)], wanted, *topics)


# ---------------------------------------------------------------- a run that is kept


def helpers_of(cluster: Cluster) -> list[Any]:
    of_run = [f"{labels.RUN}={cluster.run_id}", f"{labels.KIND}=fault"]
    found: list[Any] = cluster.engine.api.containers(all=True, filters={"label": of_run})
    return found


def heal(cluster: Cluster) -> dict[str, Any]:
    """Run `highwater heal`, which must leave no problem; return its report of the run."""
    command = ["heal", "--run", cluster.run_id, "--json"]
    result = CliRunner().invoke(make_app("heal"), command)
    (healed,) = json.loads(result.stdout)
    assert (result.exit_code, healed["problems"]) == (0, [])
    assert {cluster.status(spec.node_id) for spec in cluster.topology.nodes()} == {"running"}
    assert helpers_of(cluster) == []
    return dict(healed)


def found_by_node(healed: dict[str, Any]) -> dict[str, list[str]]:
    return {node["name"]: node["found"] for node in healed["nodes"] if node["found"]}


def connects(cluster: Cluster, source: int, target: int) -> bool:
    """Return whether a process in the source's container reaches the target's REPLICATION."""
    to = (cluster.address(target), REPLICATION_PORT)
    program = f"import socket; socket.create_connection({to}, 1).close()"
    api = cluster.engine.api
    started = api.exec_create(cluster.container_name(source), ["python", "-c", program])
    api.exec_start(started["Id"])
    return bool(api.exec_inspect(started["Id"])["ExitCode"] == 0)


def test_what_a_killed_harness_left_in_a_kept_run_ends_by_the_kernels_timeout_or_by_heal(
    tmp_path: Path,
) -> None:
    topology = Topology(controllers=1)
    with Cluster(topology, new_run_id("kept"), lease=Lease.KEPT) as cluster:
        cluster.start()
        assert connects(cluster, 0, 1)

        intents = tmp_path / "killed" / INTENTS
        intents.parent.mkdir()
        arguments = (cluster.run_id, str(intents), str(LEASE_S))
        Harness(FAULTS_ON_A_CLUSTER, intents, *arguments).kill_once(
            dict.fromkeys(("pause", "kill", "cut"), "acting")
        )
        assert not connects(cluster, 0, 1)
        eventually(lambda: connects(cluster, 0, 1), within=ENDS_WITHIN_S, what="the cut ends")
        assert cluster.status(1000) == "paused"
        healed = heal(cluster)
        assert found_by_node(healed) == {
            "broker-1": ["nft rules whose time is over"],
            "broker-2": ["stopped"],
            "controller-1000": ["paused"],
        }
        cluster.wait_until_ready()

        # A second heal does nothing.
        healed = heal(cluster)
        assert found_by_node(healed) == {}
        assert not any(node["done"] for node in healed["nodes"])
        assert healed["helpers_removed"] == 0
        assert baseline_problems(cluster) == []
