"""A controller is killed after each of its writes and commands of a job; the next one ends the job.

The points are counted in a run without a crash. The oracle judges every event, and the liveness
checks demand that the job has ended and left nothing behind (L6).
"""

from __future__ import annotations

from collections import Counter

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Plan, PlanTopology, Producer, Step, Topic, When, Workload
from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent
from highwater_core.fail_points import FailPoint
from highwater_simulator.liveness import assignments_of
from highwater_simulator.runner import PlanRun, RunResult, run_plan

BEGIN_MS = 400
POINTS = (
    EventKind.LEADERSHIP_DECIDED,  # before a state is written
    EventKind.ISR_WRITTEN,
    EventKind.LEADER_ELECTED,
    EventKind.REASSIGNMENT_BEGUN,
    EventKind.REASSIGNMENT_COMPLETED,
    EventKind.PARTITIONS_CREATED,
    EventKind.COMMAND_SENT,
    EventKind.COMMAND_ANSWERED,
)
ENDS = (EventKind.REASSIGNMENT_COMPLETED, EventKind.PARTITIONS_CREATED)
"""Of which a job that was not disturbed has one."""
EXPANDED_TO = 3
JOBS = {
    "moved elsewhere": (f.MoveReplicas("t", (3, 4)),),
    "one more and one less": (f.MoveReplicas("t", (4, 1)),),
    "given up": (f.MoveReplicas("t", (3, 4)), f.GiveUpMoving("t")),
    "another target": (f.MoveReplicas("t", (3, 4)), f.MoveReplicas("t", (0, 2))),
    "another order": (f.MoveReplicas("t", (1, 0)), f.ElectPreferred("t")),
    "expanded": (f.ExpandTopic("t", EXPANDED_TO),),
    "expanded and moved": (f.ExpandTopic("t", EXPANDED_TO), f.MoveReplicas("t", (3, 4), 1)),
}
NIGHTLY = (
    "one more and one less",
    "given up",
    "another target",
    "another order",
    "expanded and moved",
)


def plan_of(job: str, preset: Preset, *more: Step) -> Plan:
    steps = [Step(BEGIN_MS + 30 * number, fault) for number, fault in enumerate(JOBS[job])]
    return Plan(
        seed=3,
        topology=PlanTopology(5, 2, preset=preset),
        workload=Workload((Topic("t", 1, 2),), (Producer("t", rate_per_s=60),)),
        steps=(*steps, *more),
        quiet_after_ms=1_500,
    )


def points_of(job: str, preset: Preset) -> list[tuple[EventKind, int]]:
    """Return what a controller traces in the course of the job, each time that it does."""
    run = PlanRun(plan_of(job, preset))
    counted: Counter[EventKind] = Counter()
    judge = run.world.on_event

    def on_event(event: TraceEvent) -> None:
        if judge is not None:
            judge(event)
        begin_ns = run.faults_begin_ns
        if begin_ns is not None and run.world.kernel.now_ns() >= begin_ns + BEGIN_MS * 1_000_000:
            counted[event.kind] += 1

    run.world.on_event = on_event
    assert run.run().violation is None
    assert any(counted[kind] for kind in ENDS)
    return [(kind, count) for kind in POINTS for count in range(1, counted[kind] + 1)]


def run_to_the_end(plan: Plan) -> tuple[RunResult, int]:
    """Run the plan; return its result, and how many partitions the topic had at its end."""
    counts: list[int] = []
    run = PlanRun(plan, lambda world, _: counts.append(len(assignments_of(world))))
    return run.run(), counts[0]


def possible_counts(job: str) -> tuple[int, ...]:
    """Return how many partitions the topic may have at the end.

    While replicas are moved it is not expanded, as in Kafka (REASSIGNMENT_IN_PROGRESS).
    """
    return {"expanded": (EXPANDED_TO,), "expanded and moved": (1, EXPANDED_TO)}.get(job, (1,))


def cases() -> list[object]:
    return [
        pytest.param(job, preset, id=f"{job}-{preset}", marks=marks)
        for job in JOBS
        for preset in Preset
        for marks in [[pytest.mark.full] if job in NIGHTLY or preset is Preset.V3 else []]
    ]


@pytest.mark.parametrize(("job", "preset"), cases())
def test_the_next_controller_ends_the_job(job: str, preset: Preset) -> None:
    points = points_of(job, preset)
    assert len(points) > 20
    for kind, count in points:
        when = When(Observed.EVENT, event=kind.value, count=count)
        crash = Step(BEGIN_MS, f.Kill("active controller", 700), when)
        result, partition_count = run_to_the_end(plan_of(job, preset, crash))
        assert result.violation is None, (kind, count, result.violation)
        assert partition_count in possible_counts(job), (kind, count)


@pytest.mark.parametrize("point", [FailPoint.BEFORE_TOPIC_WRITE, FailPoint.AFTER_TOPIC_WRITE])
@pytest.mark.parametrize("passed", [0, 1])
def test_a_crash_at_a_write_of_the_topics_znode(point: FailPoint, passed: int) -> None:
    """The first write begins the job, the second one ends it."""
    at_ms = BEGIN_MS - 10 if not passed else BEGIN_MS + 15
    crash = Step(at_ms, f.CrashAt("active controller", point.value, 700, 1_000))
    result = run_plan(plan_of("moved elsewhere", Preset.FENCED, crash))
    assert result.violation is None
    hits = result.trace.events(EventKind.FAIL_POINT_HIT)
    assert [hit.detail["name"] for hit in hits] == [point.value]


@pytest.mark.parametrize("point", [FailPoint.BEFORE_TOPIC_WRITE, FailPoint.AFTER_TOPIC_WRITE])
def test_a_crash_at_the_write_of_added_partitions(point: FailPoint) -> None:
    crash = Step(BEGIN_MS - 10, f.CrashAt("active controller", point.value, 700, 1_000))
    result, partition_count = run_to_the_end(plan_of("expanded", Preset.FENCED, crash))
    assert result.violation is None
    assert partition_count == EXPANDED_TO
    hits = result.trace.events(EventKind.FAIL_POINT_HIT)
    assert [hit.detail["name"] for hit in hits] == [point.value]
