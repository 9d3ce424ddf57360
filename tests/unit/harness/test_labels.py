"""Labels: the owner of a run's resources, and when there is none any more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from highwater.cluster.engine import Reach, decide_reach
from highwater.cluster.labels import (
    LEASE,
    OWNER_PID,
    RUN,
    Lease,
    Owner,
    RunLabels,
    format_ports,
    parse_ports,
    parse_run_labels,
)


def test_a_runs_labels_survive_the_engine() -> None:
    run = RunLabels("test-1", Lease.OWNED, Owner("here", 42, "12345"))
    stored = run.as_labels(node="0", host_ports="external=21234")
    assert parse_run_labels(stored) == run
    assert stored["org.highwater.node"] == "0"
    assert stored["org.highwater.host-ports"] == "external=21234"


def test_objects_of_no_run_have_no_run_labels() -> None:
    assert parse_run_labels({}) is None
    assert parse_run_labels({"com.example.run": "test-1"}) is None


@pytest.mark.parametrize(
    "stored",
    [
        {RUN: "old"},
        {RUN: "old", LEASE: "owned"},
        {RUN: "old", LEASE: "owned", OWNER_PID: "many"},
        {RUN: "old", LEASE: "forever", OWNER_PID: "1"},
    ],
)
def test_malformed_labels_are_never_swept(stored: dict[str, str]) -> None:
    parsed = parse_run_labels(stored)
    assert parsed is not None
    assert parsed.run_id == "old"
    assert not parsed.is_stale()


def test_a_living_owner_is_not_gone() -> None:
    assert not Owner.of_this_process().is_gone()


def test_an_owner_that_ended_is_gone_and_a_kept_run_stays() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    owner = Owner(Owner.of_this_process().host, process.pid, "")
    process.wait()
    assert owner.is_gone()
    assert RunLabels("run", Lease.OWNED, owner).is_stale()
    assert not RunLabels("run", Lease.KEPT, owner).is_stale()


def test_a_zombie_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert Owner(Owner.of_this_process().host, process.pid, "").is_gone()
    process.wait()


def test_another_process_with_the_owners_number_is_not_the_owner() -> None:
    here = Owner.of_this_process()
    assert Owner(here.host, here.pid, "1").is_gone()


def test_an_owner_on_another_machine_is_never_taken_for_gone() -> None:
    assert not Owner("elsewhere", 2**22 - 1, "1").is_gone()


def test_ports_survive_their_label() -> None:
    ports = {"external": 21234, "control": 20001}
    assert format_ports(ports) == "control=20001,external=21234"
    assert parse_ports(format_ports(ports)) == ports
    assert parse_ports("") == {}
    assert parse_ports("external=x,control=7") == {"control": 7}


@pytest.mark.parametrize(
    ("docker_host", "platform", "operating_system", "reach", "host"),
    [
        ("", "linux", "Debian GNU/Linux 12", Reach.DIRECT, "127.0.0.1"),
        ("unix:///run/user/1000/docker.sock", "linux", "Ubuntu", Reach.DIRECT, "127.0.0.1"),
        ("", "darwin", "Docker Desktop", Reach.PUBLISHED, "127.0.0.1"),
        ("", "linux", "Docker Desktop", Reach.PUBLISHED, "127.0.0.1"),
        ("tcp://build-7:2376", "linux", "Ubuntu", Reach.PUBLISHED, "build-7"),
        ("ssh://me@build-7", "darwin", "Ubuntu", Reach.PUBLISHED, "build-7"),
    ],
)
def test_containers_are_reached_directly_only_by_a_local_engine_on_linux(
    docker_host: str, platform: str, operating_system: str, reach: Reach, host: str
) -> None:
    facts = decide_reach(
        docker_host=docker_host, platform=platform, operating_system=operating_system
    )
    assert (facts.reach, facts.published_host) == (reach, host)
