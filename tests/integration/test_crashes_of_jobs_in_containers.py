"""Real controllers die at fail points in the middle of jobs; the next controller ends each job.

The points are some of those that the simulator goes through one by one
(tests/simulation/test_crashes_of_jobs.py). A cluster costs more than a crash, so a plan has several
crashes. Each arms a point of the active controller, and then requests the job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_checker.finding import Finding
from highwater_checker.naming import kind_of
from highwater_checker.run_folder.documents import STEPS
from highwater_checker.verdict import Outcome, Verdict
from highwater_core.config import Preset
from highwater_core.fail_points import FailPoint as P
from tests.integration.plan_runs import run_plan

pytestmark = pytest.mark.docker

SESSION = {"session_timeout_ms": 2_000}
WORKLOAD = Workload((Topic(replication_factor=2),), (Producer(rate_per_s=30),))
ENDED_AFTER_MS = (4_500, 9_000, 18_000)
"""Time from a job's beginning: the session ends, another controller ends the job. A run in which a
step came too early for a busy machine is made again with the next one."""
PREPARED_AFTER_MS = 1_500
ASKED_AFTER_MS = 600
"""Time from the arming of a point to the request of the job."""
RESTART_AFTER_MS = 1_000

ZooKeeper = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Crash:
    """A fail-point, the job that reaches it, and steps that make the job possible."""

    point: P
    job: f.Fault
    before: tuple[f.Fault, ...] = ()


def replicas(zookeeper: ZooKeeper, topic: str = "t") -> dict[str, list[int]]:
    """Return the replicas by partition; fail if any is still being moved."""
    content = zookeeper[f"/brokers/topics/{topic}"]["data"]
    assert not content.get("adding_replicas"), content
    assert not content.get("removing_replicas"), content
    found: dict[str, list[int]] = content["partitions"]
    return found


def are_moved(zookeeper: ZooKeeper, *target: int) -> None:
    assert replicas(zookeeper)["0"] == list(target)


def are_added(zookeeper: ZooKeeper, count: int) -> None:
    assert len(replicas(zookeeper)) == count
    for number in range(count):
        assert zookeeper[f"/brokers/topics/t/partitions/{number}/state"]["data"]["leader"] >= 0


def is_led_by_the_first(zookeeper: ZooKeeper) -> None:
    state = zookeeper["/brokers/topics/t/partitions/0/state"]["data"]
    assert state["leader"] == replicas(zookeeper)["0"][0]


def are_configured(zookeeper: ZooKeeper) -> None:
    config = zookeeper["/config/topics/t"]["data"]["config"]
    assert (config["retention.ms"], config["segment.bytes"]) == ("70000", "90000")


def have_come_and_gone(zookeeper: ZooKeeper) -> None:
    assert set(replicas(zookeeper, "x")) == set(replicas(zookeeper, "y")) == {"0"}
    assert "/brokers/topics/gone" not in zookeeper
    assert "/admin/delete_topics/gone" not in zookeeper


GONE = f.CreateTopic("gone", replication_factor=2)
JOBS: dict[str, tuple[tuple[Crash, ...], Callable[[ZooKeeper], None]]] = {
    "expanded": (
        (
            Crash(P.BEFORE_TOPIC_WRITE, f.ExpandTopic("t", 2)),
            Crash(P.AFTER_TOPIC_WRITE, f.ExpandTopic("t", 3)),
            Crash(P.BEFORE_COMMAND_SENT, f.ExpandTopic("t", 4)),
        ),
        lambda zookeeper: are_added(zookeeper, 4),
    ),
    "expanded, its states": (
        (
            Crash(P.BEFORE_STATE_WRITE, f.ExpandTopic("t", 2)),
            Crash(P.AFTER_STATE_WRITE, f.ExpandTopic("t", 3)),
        ),
        lambda zookeeper: are_added(zookeeper, 3),
    ),
    "moved": (
        (
            Crash(P.BEFORE_TOPIC_WRITE, f.MoveReplicas("t", (0, 1))),
            Crash(P.AFTER_TOPIC_WRITE, f.MoveReplicas("t", (1, 2))),
            Crash(P.BEFORE_COMMAND_SENT, f.MoveReplicas("t", (2, 0))),
        ),
        lambda zookeeper: are_moved(zookeeper, 2, 0),
    ),
    "moved, its states": (
        (
            Crash(P.BEFORE_STATE_WRITE, f.MoveReplicas("t", (0, 1, 2))),
            Crash(P.AFTER_STATE_WRITE, f.MoveReplicas("t", (1, 2))),
        ),
        lambda zookeeper: are_moved(zookeeper, 1, 2),
    ),
    "elected": (
        tuple(
            Crash(point, f.ElectPreferred("t"), (f.MoveReplicas("t", order),))
            for point, order in (
                (P.BEFORE_STATE_WRITE, (0, 1, 2)),
                (P.AFTER_STATE_WRITE, (1, 2, 0)),
                (P.BEFORE_COMMAND_SENT, (2, 0, 1)),
            )
        ),
        is_led_by_the_first,
    ),
    "configured": (
        (
            Crash(P.BEFORE_CONFIG_WRITE, f.ChangeConfig("t", "retention.ms", "70000")),
            Crash(P.AFTER_CONFIG_WRITE, f.ChangeConfig("t", "segment.bytes", "90000")),
        ),
        are_configured,
    ),
    "created and deleted": (
        (
            Crash(P.BEFORE_STATE_WRITE, f.CreateTopic("x", replication_factor=2)),
            Crash(P.AFTER_STATE_WRITE, f.CreateTopic("y", replication_factor=2)),
            Crash(P.BEFORE_COMMAND_SENT, f.DeleteTopic("gone"), (GONE,)),
        ),
        have_come_and_gone,
    ),
    "handed over": (
        (
            Crash(P.BEFORE_CONTROLLED_SHUTDOWN_REPLY, f.Terminate("leader of t-0", 1_000)),
            Crash(P.BEFORE_STATE_WRITE, f.Terminate("leader of t-0", 1_000)),
        ),
        lambda zookeeper: None,
    ),
}
EACH_TIME = ("moved, its states",)
"""The jobs of `make test`, two points; the full matrix has all, under both presets."""


def plan_of(crashes: tuple[Crash, ...], preset: Preset, ended_after_ms: int) -> Plan:
    steps: list[Step] = []
    at_ms = 500
    for crash in crashes:
        for fault in crash.before:
            steps.append(Step(at_ms, fault))
            at_ms += PREPARED_AFTER_MS
        armed = f.CrashAt("active controller", crash.point.value, RESTART_AFTER_MS)
        steps += [Step(at_ms, armed), Step(at_ms + ASKED_AFTER_MS, crash.job)]
        at_ms += ASKED_AFTER_MS + ended_after_ms
    topology = PlanTopology(
        3, 2, preset=preset, broker_settings=SESSION, controller_settings=SESSION
    )
    return Plan(1, topology=topology, workload=WORKLOAD, steps=tuple(steps), quiet_after_ms=at_ms)


def unnamed(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of which the catalogue names no row.

    Of an invariant's findings in a partition the judge names the first ones' rows alone.
    """
    named = {kind_of(finding) for finding in findings if finding.rows}
    return [finding for finding in findings if kind_of(finding) not in named]


def assert_sound(verdict: Verdict, preset: Preset) -> None:
    """Fail on findings, but under v3 allow those whose row the catalogue names."""
    assert not unnamed(verdict.findings), unnamed(verdict.findings)
    assert preset is Preset.V3 or not verdict.findings, verdict.findings
    assert not verdict.without_findings, verdict.without_findings
    assert verdict.findings or verdict.outcome is Outcome.PASS


def cases() -> list[object]:
    return [
        pytest.param(
            job,
            preset,
            id=f"{job}-{preset}",
            marks=() if job in EACH_TIME and preset is Preset.FENCED else pytest.mark.full,
        )
        for preset in (Preset.FENCED, Preset.V3)
        for job in JOBS
    ]


def test_there_are_twenty_points() -> None:
    assert sum(len(crashes) for crashes, _ in JOBS.values()) == 20


@pytest.mark.parametrize(("job", "preset"), cases())
def test_the_next_controller_ends_the_job(job: str, preset: Preset, tmp_path: Path) -> None:
    crashes, assert_done = JOBS[job]
    for ended_after_ms in ENDED_AFTER_MS:
        result = run_plan(plan_of(crashes, preset, ended_after_ms), tmp_path, tries=1)
        if not result.verdict.without_findings or unnamed(result.verdict.findings):
            break
    assert_sound(result.verdict, preset)
    steps = STEPS.read(result.folder) or ()
    died = [each.later for each in steps if each.later == "hit: the node died there"]
    assert len(died) == len(crashes)
    assert_done(json.loads((result.folder / "zookeeper.json").read_bytes()))
