"""The pytest plugin as a user's project meets it: in a pytest run of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cluster.zookeeper_dump import dump_zookeeper, four_letter_word
from highwater_core.ids import Endpoint

A_CLUSTER_TEST = """
def test_with_a_cluster(highwater_cluster):
    raise AssertionError("never reached")
"""
A_FAILING_TEST = """
import pytest

@pytest.mark.highwater(brokers=1, controllers=1, preset="v3")
def test_that_fails(highwater_cluster):
    assert highwater_cluster.snapshot(0).preset == "something else"
"""
A_MODULE_OF_TESTS = """
import pytest

pytestmark = pytest.mark.highwater(brokers=1, controllers=1)
seen = []

def test_one(highwater_module_cluster):
    seen.append(highwater_module_cluster.run_id)

def test_two(highwater_module_cluster):
    assert [highwater_module_cluster.run_id] == seen
"""


def run_pytest(folder: Path, content: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_example.py").write_text(content)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "HIGHWATER_REQUIRE_DOCKER": "0", **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_without_an_engine_a_test_is_skipped_and_told_what_to_do(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, A_CLUSTER_TEST, DOCKER_HOST="tcp://127.0.0.1:1")
    assert result.returncode == 0, result.stdout
    assert "no Docker engine answers at DOCKER_HOST=tcp://127.0.0.1:1" in result.stdout
    assert "1 skipped" in result.stdout


def test_where_an_engine_is_required_its_absence_is_a_failure(tmp_path: Path) -> None:
    result = run_pytest(
        tmp_path,
        A_CLUSTER_TEST,
        DOCKER_HOST="tcp://127.0.0.1:1",
        HIGHWATER_REQUIRE_DOCKER="1",
    )
    assert result.returncode == 1, result.stdout
    assert "HIGHWATER_REQUIRE_DOCKER=1" in result.stdout


@pytest.mark.docker
def test_a_failed_tests_cluster_leaves_its_evidence_and_nothing_else(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, A_FAILING_TEST)
    assert result.returncode == 1, result.stdout
    assert "logs, traces and snapshots: " in result.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert str(folder) in result.stdout
    assert (folder / "test.txt").read_text() == "test_example.py::test_that_fails\n"
    assert '"preset": "v3"' in (folder / "snapshots.json").read_text()
    assert (folder / "trace" / "broker-0-1.jsonl").stat().st_size > 0


@pytest.mark.docker
def test_the_tests_of_a_module_share_its_cluster(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, A_MODULE_OF_TESTS)
    assert "2 passed" in result.stdout, result.stdout


def test_a_bare_zookeeper_is_there_for_the_session(highwater_zookeeper: Endpoint) -> None:
    assert four_letter_word(highwater_zookeeper, "ruok") == "imok"
    # Other tests of the session share this ZooKeeper, each under its own path; no cluster uses it.
    assert "/brokers" not in dump_zookeeper(highwater_zookeeper)
