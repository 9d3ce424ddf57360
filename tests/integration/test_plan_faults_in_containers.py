"""Several kinds of faults in one plan on containers: each is proven, recorded and undone.

A cluster costs more than a fault, so a plan has as many faults as do not disturb one another.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater_chaos import faults as f
from highwater_chaos.plan import (
    Observed,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    When,
    Workload,
)
from highwater_checker.run_folder.documents import STEPS, StepOutcome
from highwater_checker.run_folder.lines import read_traces
from highwater_checker.verdict import Outcome
from highwater_core.events import EventKind, TraceEvent
from tests.integration.plan_runs import TRIES, run_plan

pytestmark = pytest.mark.docker

SESSION = {"session_timeout_ms": 2_000}
OFTEN = {"high_watermark_checkpoint_interval_ms": 300}
WORKLOAD = Workload((Topic(min_insync_replicas=2),), (Producer(rate_per_s=50),))


def run(
    steps: tuple[Step, ...], quiet_after_ms: int, tmp_path: Path, idle: tuple[int, ...] = ()
) -> Path:
    """Run the plan: every step acted but the idle ones, and only they keep the run from a pass."""
    topology = PlanTopology(broker_settings={**SESSION, **OFTEN}, controller_settings=SESSION)
    plan = Plan(1, topology=topology, workload=WORKLOAD, steps=steps, quiet_after_ms=quiet_after_ms)
    result = run_plan(plan, tmp_path, tries=1 if idle else TRIES)
    folder = result.folder
    verdict = result.verdict
    unmet = [each.evidence for each in verdict.requirements if not each.met]
    assert len(unmet) == len(idle), verdict.reasons
    assert verdict.outcome is (Outcome.UNKNOWN if idle else Outcome.PASS), verdict.reasons
    fired = [each.fired for each in records(folder)]
    assert fired == [number not in idle for number in range(len(steps))]
    return folder


def records(folder: Path) -> tuple[StepOutcome, ...]:
    return STEPS.read(folder) or ()


def hits(folder: Path, node: int) -> list[TraceEvent]:
    return [
        event
        for event in read_traces(folder / "trace")
        if event.kind is EventKind.FAIL_POINT_HIT and event.node == node
    ]


def test_fail_points_delay_crash_or_are_on_record_as_never_hit_and_topics_come_and_go(
    tmp_path: Path,
) -> None:
    point = "before_high_watermark_checkpoint"
    steps = (
        Step(300, f.DelayAt("leader of t-0", point, 50, count=2, for_ms=4_000)),
        Step(300, f.CrashAt("last follower of t-0", point, restart_after_ms=500)),
        Step(300, f.CrashAt("active controller", "before_controlled_shutdown_reply")),
        Step(300, f.CreateTopic("x", records=3)),
        Step(300, f.ExpandTopic("t", 2)),
        Step(300, f.ChangeFetchers(2)),
        # The operator's records wait until the dead follower has left the ISR; it has 5 s for them.
        Step(6_000, f.LoseZooKeeperConnection("leader of t-0")),
        Step(6_000, f.DeleteTopic("x")),
        Step(6_000, f.ChangeFetchers(1)),
    )
    folder = run(steps, 10_000, tmp_path, idle=(2,))
    delayed, crashed, untouched, created, expanded, more, lost, deleted, fewer = records(folder)
    assert (delayed.proof, delayed.later) == ("the node's answer: NONE", "hit 2 times")
    assert crashed.later == "hit: the node died there"
    assert untouched.later == "never hit: nobody died there"
    assert created.proof == "NONE, 3 records acknowledged"
    assert (expanded.proof, more.proof, fewer.proof) == ("NONE", "NONE", "NONE")
    assert lost.proof.startswith("1 broken, 1 seen to be gone at both ends")
    assert deleted.proof == "NONE"
    assert len(hits(folder, delayed.node)) == 2
    (fatal,) = hits(folder, crashed.node)
    name = f"broker-{crashed.node}"
    incarnations = {path.name for path in (folder / "trace").glob(f"{name}-*.jsonl")}
    assert (fatal.incarnation, incarnations) == (1, {f"{name}-1.jsonl", f"{name}-2.jsonl"})


def test_a_disk_is_emptied_a_session_expires_zookeeper_is_away_and_connections_break(
    tmp_path: Path,
) -> None:
    """A fail-point is armed while the node is down: at its start it waits before it registers.

    ZooKeeper goes away only after that, however slowly the node starts.
    """
    back = When(Observed.EVENT, event="broker_registered", node="broker-2")
    steps = (
        Step(300, f.DelayAt("broker-2", "before_broker_registration", 300)),
        Step(600, f.Kill("broker-2", 500, disk=f.DiskAtStart.EMPTY)),
        Step(600, f.ExpireSession("broker-1")),
        Step(700, f.RestartZooKeeper(1_500), replace(back, then_after_ms=1_000)),
        Step(700, f.ResetConnections("any", "leader of t-0", "replication"), back),
    )
    folder = run(steps, 14_000, tmp_path)
    delayed, emptied, expired, away, reset = records(folder)
    assert delayed.later == "hit 1 times"
    (waited,) = hits(folder, 2)
    assert waited.incarnation == 2
    assert emptied.proof.startswith("exit code 137, ")
    assert emptied.proof.endswith(" files removed, the disk lists nothing")
    assert " is gone" in expired.proof
    lost = [e for e in read_traces(folder / "trace") if e.kind is EventKind.SESSION_LOST]
    assert 1 in {event.node for event in lost}  # also nodes that are slow to find ZooKeeper again
    assert away.proof == "exit code 137, no answer to ruok"
    lines = (folder / "intent.jsonl").read_text().splitlines()
    (counts,) = re.findall(r"has (\d) of ([45]) sessions from before", "\n".join(lines))
    kept, before = map(int, counts)
    # On a slow machine a session ends before its node has found ZooKeeper again; the node says so.
    assert before - kept <= len(lost) - 1  # one is of the session that the plan ended
    assert "seen to be gone at both ends" in reset.proof
