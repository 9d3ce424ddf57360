"""Healing a run: every change since its bring-up is undone, or reported if it cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.cluster.cleaning import find_runs
from highwater.cluster.cluster import Cluster
from highwater.cluster.engine import connect_engine
from highwater.faults.capabilities import probe
from highwater.faults.healing import GONE, baseline_problems
from highwater.faults.means import Means
from highwater.faults.processes.points import set_fail_point, write_start_file
from highwater_core.fail_points import FailPoint
from highwater_core.messages import FailPointAction, SetFailPointRequest

pytestmark = [pytest.mark.docker, pytest.mark.highwater(brokers=1, controllers=1)]


def heal(cluster: Cluster, *options: str) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit code and its report of each node."""
    arguments = ["heal", "--run", cluster.run_id, "--json", *options]
    result = CliRunner().invoke(make_app("heal"), arguments)
    (told,) = json.loads(result.stdout)
    return result.exit_code, {node["name"]: node for node in told["nodes"]}


def test_a_run_is_brought_back_to_what_it_was_and_what_is_gone_is_told(
    highwater_cluster: Cluster,
) -> None:
    cluster = highwater_cluster
    api, network = cluster.engine.api, cluster.network_name
    broker, controller = cluster.container_name(0), cluster.container_name(1000)
    assert baseline_problems(cluster) == []

    # In the network, but at an address that the engine chose; and paused.
    api.disconnect_container_from_network(broker, network, force=True)
    api.connect_container_to_network(broker, network)
    cluster.pause(0)
    (problem_of_pause, problem_of_place) = baseline_problems(cluster)
    assert problem_of_pause == "broker-0: paused"
    assert f"not {cluster.address(0)}" in problem_of_place
    code, nodes = heal(cluster)
    assert (code, nodes["broker-0"]["left"]) == (0, [])
    assert nodes["broker-0"]["done"] == ["unpaused", f"put back at {cluster.address(0)}"]
    assert nodes["controller-1000"]["found"] == []
    cluster.wait_until_ready()

    # Off the network while it is stopped; --no-start leaves it stopped.
    cluster.kill(0)
    cluster.cut_off(0)
    code, nodes = heal(cluster, "--no-start")
    assert (code, nodes["broker-0"]["found"]) == (0, ["off the network"])
    assert cluster.status(0) == "exited"

    # The broker would die at each start, the controller at its next command.
    exit_there = (FailPointAction.EXIT, 1)
    at_start = SetFailPointRequest(FailPoint.BEFORE_BROKER_REGISTRATION, *exit_there)
    write_start_file(cluster, 0, [at_start])
    at_command = SetFailPointRequest(FailPoint.BEFORE_COMMAND_SENT, *exit_there)
    set_fail_point(cluster.control_endpoint(1000), at_command)
    code, nodes = heal(cluster)
    assert code == 0
    assert nodes["broker-0"]["done"] == ["fail-points disarmed", "started"]
    cluster.wait_until_ready()
    assert cluster.status(1000) == "running"
    assert baseline_problems(cluster) == []

    api.remove_container(controller, force=True)
    code, nodes = heal(cluster)
    assert (code, nodes["controller-1000"]["left"]) == (1, [GONE])
    assert nodes["broker-0"]["left"] == []


def test_means_are_tried_on_a_scratch_container_of_which_nothing_stays() -> None:
    tried = probe()
    assert set(tried) == set(Means)
    for each in tried.values():
        assert each.works, each.why_not
    engine = connect_engine()
    assert not [run for run in find_runs(engine) if run.labels.run_id.startswith("probe-")]
    engine.close()
