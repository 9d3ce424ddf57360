"""Clusters in containers: they come up, obey, and leave nothing behind after any kind of end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from highwater.cluster.cleaning import find_runs, remove_run, sweep_stale
from highwater.cluster.cluster import Cluster
from highwater.cluster.engine import connect_engine
from highwater.cluster.host_ports import choose_ports
from highwater.cluster.images import ensure_images
from highwater.cluster.labels import Lease
from highwater.cluster.topology import ZOOKEEPER, Topology
from highwater.errors import ClusterStartFailed, NodeUnreachable, NoSuchRun
from highwater.project import project_root
from highwater.run_folder import new_run_id
from highwater.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.highwater(brokers=1, controllers=1)]

SMALL = Topology(brokers=1, controllers=1, session_timeout_ms=2000)
UP_WITHIN_S = 60.0
GONE_WITHIN_S = 60.0


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = connect_engine()
    yield client
    client.close()


@pytest.fixture
def run_id(engine: docker.DockerClient) -> Iterator[str]:
    """A run's id; everything with this id that a failed test leaves behind is removed."""
    name = new_run_id("test")
    yield name
    remove_run(engine, name)


def is_up(engine: docker.DockerClient, run_id: str) -> bool:
    runs = find_runs(engine, run_id)
    return bool(runs) and len(runs[0].containers) == 3


def await_nothing_left(engine: docker.DockerClient, run_id: str) -> None:
    eventually(
        lambda: not find_runs(engine, run_id),
        within=GONE_WITHIN_S,
        what=f"nothing is left of {run_id}",
        state=lambda: find_runs(engine, run_id),
    )


def start_harness(run_id: str, lease: Lease = Lease.OWNED) -> subprocess.Popen[str]:
    """Start a process that brings a cluster up, reports that, and waits."""
    script = (
        "import sys\n"
        "from highwater.cluster.cluster import Cluster\n"
        "from highwater.cluster.labels import Lease\n"
        "from highwater.cluster.topology import Topology\n"
        "topology = Topology(brokers=1, controllers=1, session_timeout_ms=2000)\n"
        f"with Cluster(topology, {run_id!r}, lease=Lease({lease.value!r})) as cluster:\n"
        "    cluster.start()\n"
        "    print('up', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def await_up(harness: subprocess.Popen[str]) -> None:
    assert harness.stdout is not None
    assert harness.stdout.readline() == "up\n"


def end(harness: subprocess.Popen[str], number: signal.Signals) -> None:
    harness.send_signal(number)
    harness.communicate(timeout=GONE_WITHIN_S)


def test_a_killed_node_comes_back_at_its_address_on_its_volume(highwater_cluster: Cluster) -> None:
    cluster = highwater_cluster
    before = cluster.snapshot(0)
    address = cluster.address(0)
    cluster.kill(0)
    assert cluster.exit_code(0) == 137
    with pytest.raises(NodeUnreachable):
        cluster.snapshot(0)
    cluster.start_node(0)
    cluster.wait_until_ready()
    after = cluster.snapshot(0)
    assert cluster.address(0) == address
    assert (before.incarnation, after.incarnation) == (1, 2)


def test_a_node_that_is_asked_to_stop_ends_cleanly(highwater_cluster: Cluster) -> None:
    assert highwater_cluster.terminate(0) == 0
    assert highwater_cluster.terminate(1000) == 0
    assert highwater_cluster.status(0) == "exited"


def test_a_paused_node_does_not_answer_and_goes_on_afterwards(highwater_cluster: Cluster) -> None:
    highwater_cluster.pause(0)
    assert highwater_cluster.status(0) == "paused"
    assert highwater_cluster.try_snapshot(0, timeout_s=0.3) is None
    highwater_cluster.unpause(0)
    highwater_cluster.wait_until_ready()


def test_nodes_run_as_an_ordinary_user_below_an_init_process(
    highwater_cluster: Cluster, engine: docker.DockerClient
) -> None:
    (run,) = find_runs(engine, highwater_cluster.run_id)
    for container in run.containers:
        table = engine.api.top(container, ps_args="-eo pid,uid,args")
        processes = [(row[1], row[2]) for row in table["Processes"]]
        assert {uid for uid, _ in processes} == {"1000"}
        assert "init" in processes[0][1].split()[0], processes


def test_what_a_run_leaves_is_collected(highwater_cluster: Cluster, tmp_path: Path) -> None:
    highwater_cluster.collect(tmp_path)
    znodes = json.loads((tmp_path / "zookeeper.json").read_text())
    assert znodes["/brokers/ids/0"]["data"]["version"] >= 4
    assert "highwater" in str(znodes["/highwater/controllers/1000"]["path"])
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert {
        "logs/broker-0.log",
        "logs/controller-1000.log",
        "logs/zookeeper.log",
        "trace/broker-0-1.jsonl",
        "trace/controller-1000-1.jsonl",
    } <= names
    assert "ZooKeeper" in (tmp_path / "logs/zookeeper.log").read_text()


def test_two_clusters_run_side_by_side(engine: docker.DockerClient) -> None:
    with Cluster(SMALL) as one, Cluster(SMALL) as other:
        one.start()
        other.start()
        assert not one.subnet.overlaps(other.subnet)
        assert one.bootstrap != other.bootstrap
        one.stop()
        assert other.snapshot(0).live_brokers == (0,)
    assert find_runs(engine, one.run_id) == find_runs(engine, other.run_id) == []


def test_nothing_is_left_after_an_error_inside(engine: docker.DockerClient, run_id: str) -> None:
    def fail_with_a_cluster() -> None:
        with Cluster(SMALL, run_id) as cluster:
            cluster.start()
            assert is_up(engine, run_id)
            raise RuntimeError("the test's own")

    with pytest.raises(RuntimeError, match="the test's own"):
        fail_with_a_cluster()
    assert find_runs(engine, run_id) == []


def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing(
    engine: docker.DockerClient, run_id: str
) -> None:
    topology = Topology(brokers=1, controllers=1, broker_settings={"segment_bytes": "many"})
    with pytest.raises(ClusterStartFailed, match=r"node 0 ended(.|\n)*segment_bytes"):
        Cluster(topology, run_id).start()
    assert find_runs(engine, run_id) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_after_the_harness_was_ended(
    engine: docker.DockerClient, run_id: str, number: signal.Signals
) -> None:
    harness = start_harness(run_id)
    await_up(harness)
    end(harness, number)
    await_nothing_left(engine, run_id)


def test_nothing_is_left_of_a_start_that_was_killed_half_way(
    engine: docker.DockerClient, run_id: str
) -> None:
    harness = start_harness(run_id)
    eventually(lambda: find_runs(engine, run_id), within=UP_WITHIN_S)
    end(harness, signal.SIGKILL)
    await_nothing_left(engine, run_id)


def test_a_start_sweeps_what_dead_owners_left_and_keeps_what_was_brought_up_to_stay(
    engine: docker.DockerClient, run_id: str
) -> None:
    kept = start_harness(run_id, Lease.KEPT)
    await_up(kept)
    end(kept, signal.SIGKILL)
    assert run_id not in sweep_stale(engine)
    assert is_up(engine, run_id)
    cluster = Cluster.attach(run_id)
    assert cluster.topology == SMALL
    assert cluster.snapshot(0).live_brokers == (0,)
    assert cluster.status(ZOOKEEPER) == "running"
    cluster.stop()
    assert find_runs(engine, run_id) == []


def test_a_start_under_the_id_of_a_run_that_is_up_is_refused_and_leaves_that_run(
    highwater_cluster: Cluster,
) -> None:
    twin = Cluster(highwater_cluster.topology, highwater_cluster.run_id)
    with pytest.raises(ClusterStartFailed, match="is up already"), twin:
        twin.start()
    assert highwater_cluster.snapshot(0).kind == "broker"


def test_a_run_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(NoSuchRun, match="which cluster"):
        Cluster.attach("no-such-run")


def test_nothing_changed_means_nothing_built(engine: docker.DockerClient) -> None:
    said: list[str] = []
    plan = ensure_images(engine)
    assert ensure_images(engine, said.append) == plan
    assert said == []


def highwater(*arguments: str) -> Any:
    """Run the command and return the JSON that it printed."""
    command = Path(sys.executable).with_name("highwater")
    result = subprocess.run(
        [str(command), *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


def answers_in_status(run_id: str, *nodes: str) -> list[Any]:
    """Return the nodes' snapshots, or nothing if one was too late for the status' half second."""
    (status,) = highwater("status", run_id, "--json")
    found = [status["nodes"][node]["snapshot"] for node in nodes]
    return found if all(found) else []


def test_the_command_line_brings_up_shows_and_removes(
    engine: docker.DockerClient, run_id: str
) -> None:
    small = ("--brokers", "1", "--controllers", "1", "--session-timeout-ms", "2000")
    up = highwater("up", *small, "--name", run_id, "--json")
    assert up["run"] == run_id
    assert up["bootstrap"].startswith("127.0.0.1:")
    broker, controller = eventually(
        lambda: answers_in_status(run_id, "0", "1000"), within=UP_WITHIN_S, what="both answer"
    )
    assert broker["live_brokers"] == [0]
    assert controller["active_controller"] is True
    assert "broker-0" in highwater("status", run_id)
    assert "ZooKeeper" in highwater("logs", "zookeeper", "--run", run_id)
    assert run_id in highwater("down", run_id)
    assert find_runs(engine, run_id) == []


def test_compose_brings_the_same_cluster_up_by_hand(
    engine: docker.DockerClient, run_id: str
) -> None:
    program = shutil.which("docker-compose")
    if program is None:
        missing = "docker-compose is not installed: run scripts/test-tools"
        if os.environ.get("HIGHWATER_REQUIRE_DOCKER") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    plan = ensure_images(engine)
    ports = choose_ports(3)
    environment = os.environ | {
        "HIGHWATER_NODE_IMAGE": plan.node,
        "HIGHWATER_ZOOKEEPER_IMAGE": plan.zookeeper,
        **{f"HIGHWATER_BROKER_{number}_PORT": str(port) for number, port in enumerate(ports)},
    }
    file = project_root() / "compose" / "compose.yaml"
    compose = [program, "--project-name", run_id, "--file", str(file)]

    def run(*arguments: str) -> None:
        command = [*compose, *arguments]
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=environment
        )
        assert result.returncode == 0, result.stderr

    from confluent_kafka.admin import AdminClient

    try:
        run("up", "--detach")
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports[0]}", "log_level": 0})

        def brokers() -> set[int]:
            return set(client.list_topics(timeout=5).brokers)

        def all_known() -> bool:
            return brokers() == {0, 1, 2}

        from confluent_kafka import KafkaException

        eventually(all_known, within=UP_WITHIN_S, what="three brokers", retry_on=KafkaException)
    finally:
        run("down", "--volumes", "--timeout", "5")
