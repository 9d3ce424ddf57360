"""Faults of processes, clients, disks and connections in plans on containers: proven, undone.

As in test_plan_faults_in_containers, a plan has as many faults as do not disturb one another.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import Topology
from highwater.faults.disks.volumes import close_folder, fill_disk
from highwater.faults.done import NotDone
from highwater.faults.healing import baseline_problems, heal
from highwater.faults.links.of_cluster import ClusterLinks
from highwater.faults.processes.clocks import TOLERANCE_MS
from highwater.faults.stopping import stop_processes
from highwater.run_folder import new_run_id
from highwater.waiting import eventually
from highwater_broker.log.checkpoints import TEMPORARY_SUFFIX
from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_checker.history import OperationType, sends_of
from highwater_checker.run_folder.documents import CLOCK, STEPS, StepOutcome
from highwater_checker.run_folder.histories import read_history
from highwater_checker.run_folder.lines import read_traces
from highwater_checker.segments import read_batches
from highwater_checker.verdict import Outcome
from highwater_core.events import EventKind
from tests.integration.plan_runs import run_plan
from tests.support.fuse import NEEDS_FUSE

WITHIN_S = 90.0
pytestmark = pytest.mark.docker

SESSION = {"session_timeout_ms": 2_000}
OFTEN = {"high_watermark_checkpoint_interval_ms": 300}
# A restarted broker reads all unflushed records, and so finds the flipped bit.
UNFLUSHED = {"log_flush_interval_ms": 600_000}
# The longest wait of records for a follower whose connection is mute.
IMPATIENT = {"replica_lag_time_max_ms": 1_500}
BROKER = {**SESSION, **OFTEN, **UNFLUSHED, **IMPATIENT}
# At every moment some records wait for their batch, so that killed clients leave them unanswered.
PRODUCER = Producer(rate_per_s=200, linger_ms=50, batch_max_records=50)


def run(
    steps: tuple[Step, ...],
    quiet_after_ms: int,
    tmp_path: Path,
    producer: Producer = PRODUCER,
    log_folders: int = 1,
) -> Path:
    """Run the plan to a pass; every step was proven. Each log folder has a partition."""
    topology = PlanTopology(
        broker_settings=BROKER, controller_settings=SESSION, log_folders_per_broker=log_folders
    )
    workload = Workload((Topic(partitions=log_folders, min_insync_replicas=2),), (producer,))
    plan = Plan(1, topology=topology, workload=workload, steps=steps, quiet_after_ms=quiet_after_ms)
    result = run_plan(plan, tmp_path)
    folder = result.folder
    assert result.verdict.outcome is Outcome.PASS, result.verdict.reasons
    assert [each.fired for each in records(folder)] == [True] * len(steps)
    return folder


def records(folder: Path) -> tuple[StepOutcome, ...]:
    return STEPS.read(folder) or ()


def reverts(folder: Path) -> dict[int, str]:
    """Return the proof of each fault's undo, by the fault's number."""
    lines = map(json.loads, (folder / "intent.jsonl").read_text().splitlines())
    return {line["number"]: line["seen"] for line in lines if line["phase"] == "reverted"}


def test_processes_stop_and_crash_again_and_again_clients_die_and_a_bit_flips(
    tmp_path: Path,
) -> None:
    steps = (
        Step(300, f.Pause("controller-1001", 1_000, f.PauseBy.SIGSTOP)),
        Step(600, f.KillClient(for_ms=500)),
        Step(600, f.CrashLoop("controller-1000", 3, 50)),
        Step(3_000, f.FlipBit("last follower of t-0", f.FileKind.LOG, 3_000)),
    )
    folder = run(steps, 9_000, tmp_path)
    stopped, killed, looped, flipped = records(folder)
    assert stopped.proof == "1 processes in state T"
    assert killed.proof.startswith("ended by signal 9; histories that end in half a line: ")
    assert looped.proof == "exit code 137, the first of 3 times"
    assert looped.later == "killed 3 of 3 times"
    assert flipped.proof.startswith("exit code 137, bit ")
    assert ".log flipped, sha256 " in flipped.proof
    seen = set(reverts(folder).values())
    assert "1 processes, none in state T" in seen
    assert "incarnation 2 says that it began" in seen
    assert "killed 3 of 3 times; running" in seen

    # Sends without an answer are unknown; no value was written twice.
    history = folder / "history"
    first, second = (read_history(history / f"{name}.jsonl") for name in ("p0", "p0.2"))
    assert sends_of(first).unknown
    assert sends_of(second).acknowledged
    invoked = [each.value for each in (*first, *second) if each.type is OperationType.INVOKE]
    assert len(set(invoked)) == len(invoked)
    assert sorted(path.stem for path in history.glob("c0*")) == ["c0", "c0.2"]

    # Every written record has its send in the history.
    batches = read_batches(folder / "segments" / "broker-0" / "t-0")
    written = {(value or b"").decode() for batch in batches for _, _, value in batch.records()}
    assert written
    assert written <= set(invoked)


def test_a_disk_is_full_and_connections_are_half_open(tmp_path: Path) -> None:
    steps = (
        Step(300, f.HalfOpen("last follower of t-0", "leader of t-0", "replication")),
        Step(4_000, f.DiskFull("leader of t-0", 2_500)),
    )
    # Each batch needs pages of its own, so that one meets even a disk that is full for a moment.
    producer = replace(PRODUCER, value_bytes=1_000)
    folder = run(steps, 10_000, tmp_path, producer)
    half_open, full = records(folder)
    assert "gone here and established there" in half_open.proof
    assert full.proof.endswith("a page more: ENOSPC")
    first, second = (reverts(folder)[number] for number in (1, 2))
    assert first == "resets pass"
    assert "a page is written again; the node's trace tells of it " in second
    met = [
        event
        for event in read_traces(folder / "trace")
        if "No space left" in str(event.detail)  # of a refused produce or a checkpoint
    ]
    assert {event.node for event in met} == {full.node}


@NEEDS_FUSE
def test_a_broker_loses_power_and_disks_are_slow_and_refuse_syncs(tmp_path: Path) -> None:
    steps = (
        Step(1_500, f.PowerLoss("leader of t-0", 1_500)),
        Step(6_500, f.SlowDisk("broker-2", delay_ms=300, for_ms=1_500)),
        Step(6_500, f.DiskErrors("broker-1", f.DiskOperation.SYNC, for_ms=6_000)),
    )
    folder = run(steps, 14_000, tmp_path)
    lost, slow, refused = records(folder)
    found = re.match(r"exit code 137, (\d+) unsynced bytes of \d+ files lost", lost.proof)
    assert found is not None
    assert int(found[1]) > 0, "a leader under load always has records that are not synced"
    assert re.fullmatch(r"orders 1 answered, a probe's sync took \d+ ms", slow.proof)
    assert refused.proof == "orders 1 answered, probe 1 to sync was refused with EIO"
    assert reverts(folder)[3].endswith("orders 2 answered; its log folder had failed: running")


def test_clocks_jump_and_traces_keep_the_machines_time(tmp_path: Path) -> None:
    """A leader's clock is a day ahead until the faults end; its controller's is a day behind."""
    day_ms = 86_400_000
    steps = (
        Step(1_000, f.ClockJump("leader of t-0", day_ms)),
        Step(1_000, f.ClockJump("active controller", -day_ms)),
        Step(4_000, f.Kill("leader of t-0", 1_000)),
    )
    folder = run(steps, 9_000, tmp_path)
    ahead, behind, killed = records(folder)
    assert ahead.node == killed.node
    for jump, by_ms in ((ahead, day_ms), (behind, -day_ms)):
        found = re.fullmatch(r"the node's clock is ([+-]\d+) ms from the machine's", jump.proof)
        assert found is not None
        assert abs(int(found[1]) - by_ms) <= TOLERANCE_MS
    assert [reverts(folder)[number] for number in (1, 2)] == ["its clock is right"] * 2
    jumped = [each for each in read_traces(folder / "trace") if each.node == ahead.node]
    assert {each.incarnation for each in jumped} == {1, 2}
    run_start = CLOCK.read(folder)
    assert run_start is not None
    assert all(abs(each.ts_ns - run_start.start_wall_ns) < day_ms * 500_000 for each in jumped)


def test_a_log_folder_fails_and_its_broker_is_started_on_a_sound_one(tmp_path: Path) -> None:
    folder = run((Step(1_500, f.FailFolder("leader of t-0", 7_000)),), 14_000, tmp_path)
    (failed,) = records(folder)
    assert failed.proof == "the folder has mode 000: it can no longer be opened"
    assert reverts(folder)[1] == ("the broker has met it; the folder has mode 755 again; running")
    traced = {event.kind: event for event in read_traces(folder / "trace")}
    assert traced[EventKind.LOG_FOLDER_FAILED].node == failed.node
    assert traced[EventKind.REPLICAS_FAILED].detail["broker"] == failed.node
    elected = [
        event.detail
        for event in read_traces(folder / "trace")
        if event.kind is EventKind.LEADER_ELECTED and event.topic == "t"
    ]
    assert elected[1]["leader"] != failed.node
    assert failed.node not in elected[1]["isr"]


@pytest.mark.full
def test_one_of_two_log_folders_fails_and_the_other_is_served_on(tmp_path: Path) -> None:
    step = Step(1_500, f.FailFolder("leader of t-0", 7_000, folder=0))
    folder = run((step,), 14_000, tmp_path, log_folders=2)
    (failed,) = records(folder)
    assert failed.proof == "the folder d0 has mode 000: it can no longer be opened"
    assert reverts(folder)[1] == "the broker has met it; the folder d0 has mode 755 again; running"
    events = read_traces(folder / "trace")
    traced = {event.kind: event for event in events}
    assert traced[EventKind.LOG_FOLDER_FAILED].node == failed.node
    assert traced[EventKind.LOG_FOLDER_FAILED].detail["folder"] == "d0"
    assert traced[EventKind.REPLICAS_FAILED].detail["partitions"] == ["t-0"]
    assert EventKind.NODE_STOPPED not in {
        event.kind for event in events if event.node == failed.node and event.incarnation == 1
    }
    for broker in range(3):
        for partition in ("t-0", "t-1"):
            assert read_batches(folder / "segments" / f"broker-{broker}" / partition)


def test_zookeeper_freezes_and_it_is_told_which_sessions_outlasted_that(tmp_path: Path) -> None:
    folder = run((Step(300, f.PauseZooKeeper(1_500)),), 4_000, tmp_path)
    (frozen,) = records(folder)
    assert frozen.proof == "the engine says paused, no answer to ruok"
    found = re.fullmatch(r"serves, and has (\d) of 5 sessions from before", reverts(folder)[1])
    assert found is not None


def test_what_is_stopped_or_full_or_untold_is_found_and_healed(
    tmp_path: Path,
) -> None:
    topology = Topology(brokers=1, controllers=1)
    with Cluster(topology, new_run_id("test"), sized_disks=True) as cluster:
        cluster.start()
        assert baseline_problems(cluster) == []
        stop_processes(cluster.engine, cluster.container_name(1000))
        fill_disk(cluster, 0)
        links = ClusterLinks(cluster, lambda why: None)
        find = {"broker-0": 0, "controller-1000": 1000}.get
        forgets = f.HalfOpen("broker-0", "zookeeper", "zookeeper")
        # On a busy machine the session may just have found another connection.
        eventually(lambda: links.half_open(forgets, find), within=WITHIN_S, retry_on=NotDone)
        problems = sorted(baseline_problems(cluster))
        assert problems == [
            "broker-0: its disk is full of ballast",
            "controller-1000: 1 processes stopped",
            "zookeeper: nft rules that drop",
        ]
        healed = heal(cluster)
        assert healed.problems == []
        done = {node.name: node.done for node in healed.nodes}
        assert done == {
            "zookeeper": ["nft rules removed"],
            "broker-0": ["room made on its disk"],
            "controller-1000": ["its processes go on"],
        }
        assert baseline_problems(cluster) == []

        close_folder(cluster, 0)
        assert baseline_problems(cluster) == ["broker-0: its log folder is closed to it"]
        healed = heal(cluster)
        assert healed.problems == []
        assert {node.name: node.done for node in healed.nodes}["broker-0"] == [
            "its folder opened again"
        ]
        assert baseline_problems(cluster) == []
        cluster.wait_until_ready()

        # The node is started with its disk unchanged: the disk was never lost.
        before = cluster.copy_broker_data(0, tmp_path / "before")
        cluster.kill(0)
        cluster.start_node(0)
        cluster.wait_until_ready()
        after = cluster.copy_broker_data(0, tmp_path / "after")
        kept = {each.name for each in before if each.suffix != TEMPORARY_SUFFIX}
        assert kept
        assert kept <= {each.name for each in after}
