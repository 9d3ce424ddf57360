"""The pytest plugin as a user's project meets it: in a pytest run of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.zookeeper_dump import dump_zookeeper, four_letter_word
from highwater_checker.judging import judge_run
from highwater_checker.run_folder.documents import VERDICT
from highwater_checker.verdict import Outcome
from highwater_core.ids import Endpoint

A_CLUSTER_TEST = """
def test_with_a_cluster(highwater_cluster):
    raise AssertionError("never reached")
"""
A_HANGING_TEST = """
import threading
import pytest

@pytest.mark.highwater(brokers=1, controllers=1, preset="v3")
def test_that_hangs(highwater_cluster):
    never = threading.Event()
    never.wait(400)
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
SHARED_BY_A_CLASS_AND_BY_ALL = """
import pytest

seen = []

@pytest.fixture(scope="session")
def highwater_session_marker():
    return pytest.mark.highwater(brokers=1, controllers=1, preset="v3")

@pytest.mark.highwater(brokers=1, controllers=1)
class TestOrders:
    def test_one(self, highwater_class_cluster):
        assert highwater_class_cluster.topology.preset == "fenced"
        seen.append(highwater_class_cluster.run_id)

    def test_two(self, highwater_class_cluster, highwater_session_cluster):
        assert [highwater_class_cluster.run_id] == seen
        assert highwater_session_cluster.topology.preset == "v3"
        seen.append(highwater_session_cluster.run_id)

def test_three(highwater_session_cluster):
    assert highwater_session_cluster.run_id == seen[1]
"""
A_KILL_UNDER_LOAD = """
import pytest
from highwater import create_topic, delete_topic

@pytest.mark.highwater(brokers=3, session_timeout_ms=2000, verdict_in=["pass"])
def test_a_killed_leader(highwater_cluster):
    cluster = highwater_cluster
    create_topic(cluster, "orders", replicas=[(0, 1, 2)], config={"min.insync.replicas": "2"})
    producer, consumer = cluster.producer(), cluster.consumer("orders")
    send(producer, range(50))
    cluster.kill(0)
    send(producer, range(50, 100))
    assert len(consumer.consume(100, timeout=60)) == 100
    cluster.start_node(0)
    leave_in_the_middle(cluster, producer)

def leave_in_the_middle(cluster, producer):
    # A topic deleted last, and a callback that is never served.
    create_topic(cluster, "scratch", replicas=[(1, 2)])
    scratch = cluster.consumer("scratch")
    producer.produce("scratch", "a note", partition=0)
    assert producer.flush(60) == 0
    assert len(scratch.consume(1, timeout=60)) == 1
    delete_topic(cluster, "scratch")
    producer.produce("orders", "the last order", partition=0, on_delivery=raise_it)

def raise_it(error, message):
    raise RuntimeError("the test is over")

def send(producer, numbers):
    for number in numbers:
        producer.produce("orders", f"order {number}", partition=0)
    assert producer.flush(60) == 0
"""
FAULTS_IN_BLOCKS = """
import pytest
from highwater import HarnessError, await_full_isr, create_topic, eventually, look_at
from pathlib import Path

HAS_FUSE = Path("/dev/fuse").exists()

@pytest.mark.highwater(
    controllers=1,
    session_timeout_ms=2000,
    broker_settings={"replica_lag_time_max_ms": 2000},
    verdict_in=["pass"],
    faulty_disks=HAS_FUSE,
)
def test_a_cut_and_a_power_loss(highwater_cluster):
    cluster = highwater_cluster
    create_topic(cluster, "orders", replicas=[(0, 1, 2)])
    producer = cluster.producer()
    with cluster.fault("cut", source="broker-2", target="broker-0", plane="replication") as cut:
        assert "lost" in cut.proof
        send(producer, range(50))
        eventually(lambda: isr(cluster) == [0, 1], within=60)
    await_full_isr(cluster, "orders", 1, within=60)
    end = "power_loss" if HAS_FUSE else "kill"
    with cluster.fault(end, node="leader of orders-0") as killed:
        assert killed.node == 0
        assert killed.proof.startswith("exit code 137")
        send(producer, range(50, 100))
    await_full_isr(cluster, "orders", 1, within=60)
    with pytest.raises(HarnessError, match="broker-7"):
        with cluster.fault("pause", node="broker-7"):
            raise AssertionError("it does not act")

def send(producer, numbers):
    for number in numbers:
        producer.produce("orders", f"order {number}", partition=0)
    assert producer.flush(60) == 0

def isr(cluster):
    state = cluster.zookeeper_dump()["/brokers/topics/orders/partitions/0/state"]
    return sorted(state.data["isr"])
"""
STOCK_CLIENTS_ALONE = """
import pytest
from confluent_kafka import Producer
from highwater import create_topic

@pytest.mark.highwater(brokers=1, controllers=1)
def test_no_history(highwater_cluster):
    create_topic(highwater_cluster, "orders", replication_factor=1)
    producer = Producer({"bootstrap.servers": highwater_cluster.bootstrap})
    producer.produce("orders", "an order")
    assert producer.flush(60) == 0
"""
A_BROKER_LEFT_DOWN = """
import pytest
from highwater import create_topic, eventually

@pytest.mark.highwater(controllers=1, session_timeout_ms=2000, verdict_in=["pass"])
def test_by_the_test(highwater_cluster):
    written(highwater_cluster)
    highwater_cluster.kill(2)

@pytest.mark.highwater(controllers=1, session_timeout_ms=2000, verdict_in=["unknown"])
def test_by_somebody_else(highwater_cluster):
    cluster = highwater_cluster
    written(cluster)
    cluster.engine.api.kill(cluster.container_name(2))
    eventually(lambda: cluster.status(2) == "exited", within=30)

def written(cluster):
    create_topic(cluster, "orders", replicas=[(0, 1, 2)])
    producer = cluster.producer()
    producer.produce("orders", "an order")
    assert producer.flush(60) == 0
"""
A_LOST_RECORD = """
import pytest
from highwater import create_topic, eventually

@pytest.mark.highwater(
    brokers=2, controllers=1, session_timeout_ms=2000, toggles={"unclean_election": True}
)
def test_that_does_not_look(highwater_cluster):
    cluster = highwater_cluster
    create_topic(cluster, "orders", replicas=[(0, 1)])
    producer = cluster.producer()
    cluster.kill(1)
    producer.produce("orders", "the only order", partition=0)
    assert producer.flush(60) == 0
    cluster.kill(0)
    cluster.start_node(1)
    eventually(lambda: leader(cluster) == 1, within=60)
    cluster.start_node(0)

def leader(cluster):
    return cluster.zookeeper_dump()["/brokers/topics/orders/partitions/0/state"].data["leader"]
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
        timeout=500,
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
def test_a_hanging_tests_cluster_leaves_stacks_and_evidence_and_stays_up_where_it_is_to(
    tmp_path: Path,
) -> None:
    options = "--highwater-keep --highwater-hang-after 1"
    result = run_pytest(tmp_path, A_HANGING_TEST, PYTEST_ADDOPTS=options)
    (folder,) = (tmp_path / "runs").iterdir()
    with Cluster.attach(folder.name) as cluster:
        cluster.wait_until_ready()
    assert result.returncode == 1, result.stdout
    assert "Failed: Timeout (>1s): the test hangs" in result.stdout
    for told in ("in test_that_hangs", "Task IsrWriter:", "Task session-thread:", '"SyncThread:0"'):
        assert told in result.stdout
    assert f"logs, traces, snapshots and stacks: {folder}" in result.stdout
    assert "Task IsrWriter:" in (folder / "stacks.txt").read_text()
    assert (folder / "test.txt").read_text() == "test_example.py::test_that_hangs\n"
    assert '"preset": "v3"' in (folder / "snapshots.json").read_text()
    assert (folder / "trace" / "broker-0-1.jsonl").stat().st_size > 0
    assert f"remove it: highwater down {folder.name}" in result.stdout


@pytest.mark.docker
def test_a_tests_verdict_is_the_judges_also_on_a_copy_of_its_folder(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, A_KILL_UNDER_LOAD)
    assert result.returncode == 0, result.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"test_example.py::test_a_killed_leader: pass, {folder}" in result.stdout
    lines = (folder / "intent.jsonl").read_text().splitlines()
    intents = [json.loads(line) for line in lines]
    assert [each["phase"] for each in intents] == [
        "intended", "acting", "starting", "reverting", "reverted",
    ]  # fmt: skip
    assert intents[0]["fault"]["fault"] == "kill"
    assert [intents[at]["node"] for at in (1, 2)] == [0, 0]
    copied = tmp_path / "elsewhere"
    shutil.move(folder, copied)
    verdict = judge_run(copied)
    assert VERDICT.encode(verdict) == (copied / VERDICT.name).read_bytes()
    examined = {check.check: check.examined for check in verdict.checks}
    assert examined["acknowledged records are on every replica (I1)"] == 303
    assert examined["c0: records read are stored, and stored records are read (I9)"] == 101
    _cut_the_log(copied / "segments" / "broker-1" / "orders-0" / f"{0:020}.log")
    assert judge_run(copied).outcome is not Outcome.PASS


def _cut_the_log(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-1])


@pytest.mark.docker
def test_a_fault_acts_in_its_block_and_is_proven_and_taken_back(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, FAULTS_IN_BLOCKS)
    assert result.returncode == 0, result.stdout
    assert "test_a_cut_and_a_power_loss: pass, " in result.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    lines = [json.loads(line) for line in (folder / "intent.jsonl").read_text().splitlines()]
    phases = [line["phase"] for line in lines if line["number"] == 2]
    assert phases == ["intended", "acting", "reverting", "reverted"]
    assert [line["node"] for line in lines if line["phase"] == "starting"] == [0]


@pytest.mark.docker
def test_without_a_history_a_verdict_says_what_was_checked_and_what_is_not_known(
    tmp_path: Path,
) -> None:
    result = run_pytest(tmp_path, STOCK_CLIENTS_ALONE)
    assert result.returncode == 0, result.stdout
    assert "test_no_history: unknown, " in result.stdout
    assert "checked, nothing found: one leader per leader epoch (I7), " in result.stdout
    assert "whether acknowledged records were lost, repeated or reordered is not known" in (
        result.stdout
    )
    (folder,) = (tmp_path / "runs").iterdir()
    assert judge_run(folder).outcome is Outcome.UNKNOWN


@pytest.mark.docker
def test_a_broker_that_is_left_down_is_explained_by_the_test_or_leaves_the_verdict_unknown(
    tmp_path: Path,
) -> None:
    result = run_pytest(tmp_path, A_BROKER_LEFT_DOWN)
    assert result.returncode == 0, result.stdout
    assert "test_by_the_test: pass, " in result.stdout
    assert "test_by_somebody_else: unknown, " in result.stdout
    assert "not met: no node is down but by the test: broker-2" in result.stdout
    for folder in (tmp_path / "runs").iterdir():
        verdict = VERDICT.read(folder)
        assert verdict is not None
        assert judge_run(folder).outcome is verdict.outcome


@pytest.mark.docker
def test_a_lost_record_fails_a_test_that_did_not_notice_it(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, A_LOST_RECORD)
    assert result.returncode == 1, result.stdout
    assert "1 passed, 1 error" in result.stdout
    assert "the verdict is not pass or unknown: " in result.stdout
    assert "'the only order' was acknowledged; there is nothing" in result.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert judge_run(folder).outcome is Outcome.FAIL


@pytest.mark.docker
def test_the_tests_of_a_module_share_its_cluster(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, A_MODULE_OF_TESTS)
    assert "2 passed" in result.stdout, result.stdout


@pytest.mark.docker
def test_a_class_shares_a_cluster_and_so_do_all_tests(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, SHARED_BY_A_CLASS_AND_BY_ALL)
    assert "3 passed" in result.stdout, result.stdout
    assert "\ntest_example.py::TestOrders: unknown, " in result.stdout
    assert "\nall tests: unknown, " in result.stdout
    named = sorted((run / "test.txt").read_text() for run in (tmp_path / "runs").iterdir())
    assert named == [".\n", "test_example.py::TestOrders\n"]


def test_a_bare_zookeeper_is_there_for_the_session(highwater_zookeeper: Endpoint) -> None:
    assert four_letter_word(highwater_zookeeper, "ruok") == "imok"
    # Other tests of the session share this ZooKeeper, each under its own path; no cluster uses it.
    assert "/brokers" not in dump_zookeeper(highwater_zookeeper)
