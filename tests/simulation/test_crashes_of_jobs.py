"""A controller is killed before and after each of its writes and commands of a job; the next
controller completes the job, or the job has never begun.

The points are counted in a run without a crash. The oracle judges every event, and the liveness
checks demand that no job is left half done (L6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Plan, PlanTopology, Producer, Step, Topic, When, Workload
from highwater_core import znodes
from highwater_core.admin_messages import ElectionType, ReassignmentItem
from highwater_core.config import Preset
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_simulator.client import SimulatedClient
from highwater_simulator.liveness import Core, assignments_of
from highwater_simulator.runner import RunResult
from highwater_simulator.world import World
from highwater_wire.kafka.config_messages import (
    AlteredResource,
    ConfigAlteration,
    ConfigOperationType,
    ConfigResourceType,
)
from tests.support.crash_points import CrashingRun, WritePoint
from tests.support.presets import CONTROLLED

BEGIN_MS = 400
APART_MS = 30
WITHIN_MS = 5_000
COMMANDS = (EventKind.COMMAND_SENT, EventKind.COMMAND_ANSWERED)
CLEAN: dict[str, str | bool] = {"unclean_election": False}
"""Under v3 nobody need allow an unclean election: what allows one would do nothing."""
P0 = TopicPartition("t", 0)
AT_FIRST = (3, 2)
"""The replicas of t-0, by the plan's seed."""
WRITTEN = (Producer("t", rate_per_s=60),)
Asking = Callable[[SimulatedClient], Coroutine[Any, Any, object]]
Point = WritePoint | When


# ---------------------------------------------------------------- results of a job


def replicas_of(topic: str) -> Callable[[World], object]:
    """Return a function: the topic's replicas by partition; () where there is no such topic."""

    def found(world: World) -> object:
        assigned = assignments_of(world)
        return tuple(assigned[at] for at in sorted(assigned) if at.topic == topic)

    return found


def count_of(topic: str) -> Callable[[World], object]:
    return lambda world: sum(at.topic == topic for at in assignments_of(world))


def leader_of_t(world: World) -> object:
    leadership = world.partition_state(P0)
    return None if leadership is None else leadership.leader


def configured_retention(world: World) -> object:
    """Return the topic's retention in ZooKeeper, and in use by the topic's brokers."""
    path = znodes.topic_config_path("t")
    found = world.zookeeper.data(path)
    assert found is not None
    written = znodes.decode(znodes.TopicConfigZnode, found[0], path).config
    nodes = [world.broker_node(broker) for broker in assignments_of(world)[P0]]
    told = [node._topics.log_config("t").retention_ms for node in nodes if node is not None]
    return written.get("retention.ms"), *told


# ---------------------------------------------------------------- jobs by request


def reassigned(*replicas: int) -> Asking:
    item = ReassignmentItem(P0, tuple(NodeId(each) for each in replicas))
    return lambda client: client.alter_reassignments((item,), WITHIN_MS)


async def reordered_and_elected(client: SimulatedClient) -> None:
    await reassigned(2, 3)(client)
    await client.elect_leaders(ElectionType.PREFERRED, (P0,), WITHIN_MS)


async def elected_from_all(client: SimulatedClient) -> None:
    await client.elect_leaders(ElectionType.UNCLEAN, (P0,), WITHIN_MS)


async def configured(client: SimulatedClient) -> None:
    change = ConfigAlteration("retention.ms", ConfigOperationType.SET, "70000000")
    topic = AlteredResource(ConfigResourceType.TOPIC, "t", (change,))
    await client.alter_configs((topic,), WITHIN_MS)


# ---------------------------------------------------------------- the jobs


@dataclass(frozen=True)
class Job:
    """A job, requested by steps or by a client, and its results."""

    seen: Callable[[World], object]
    done: object
    """The result of `seen` at the end of a run without a crash."""
    work: tuple[f.Fault, ...] = ()
    ask: Asking | None = None
    or_else: tuple[object, ...] = ()
    """Other allowed results after a crash."""
    topics: tuple[Topic, ...] = (Topic("t", 1, 2),)
    before: tuple[Step, ...] = ()
    """Steps that lead to a state without the result; no controller dies meanwhile."""
    begin_ms: int = BEGIN_MS
    end_ms: int = 1_500
    """When all is healed; no controller is killed from then on."""
    of_brokers: Mapping[str, int] = field(default_factory=dict)
    of_controllers: Mapping[str, int] = field(default_factory=dict)
    is_nightly: bool = False


WITH_ANOTHER = (Topic("t", 1, 2), Topic("u", 1, 2))
HELD_UP = f.Pause("broker-4", 300)
"""Makes a move to broker 4 last until the next request."""
SOON = {"session_timeout_ms": 400}
"""So that the next controller acts, and a dead broker is missed, before all is healed."""
ONLY_BEHIND = (
    Step(0, f.Terminate("broker-2", 300)),
    Step(50, f.Kill("broker-3"), When(Observed.ISR_IS_LEADER, "t-0", then_after_ms=50)),
)
"""The leader is dead, and the other replica lacks its last records."""
LEADERLESS = Job(
    leader_of_t,
    2,
    before=ONLY_BEHIND,
    begin_ms=1_000,
    end_ms=3_500,
    of_brokers=SOON,
    of_controllers=SOON,
)
REBALANCING = {"auto_leader_rebalance_enable": 1, "leader_imbalance_check_interval_ms": 1_000}
JOBS = {
    "moved elsewhere": Job(replicas_of("t"), ((0, 4),), (f.MoveReplicas("t", (0, 4)),)),
    "one more and one less": Job(
        replicas_of("t"), ((3, 1),), (f.MoveReplicas("t", (3, 1)),), is_nightly=True
    ),
    "given up": Job(
        replicas_of("t"),
        (AT_FIRST,),
        (HELD_UP, f.MoveReplicas("t", (0, 4)), f.GiveUpMoving("t")),
        or_else=(((0, 4),),),
        is_nightly=True,
    ),
    "another target": Job(
        replicas_of("t"),
        ((0, 1),),
        (HELD_UP, f.MoveReplicas("t", (0, 4)), f.MoveReplicas("t", (0, 1))),
        is_nightly=True,
    ),
    "moved by request": Job(replicas_of("t"), ((0, 4),), ask=reassigned(0, 4), is_nightly=True),
    "another order": Job(leader_of_t, 2, (f.MoveReplicas("t", (2, 3)), f.ElectPreferred("t"))),
    "elected by request": Job(leader_of_t, 2, ask=reordered_and_elected, is_nightly=True),
    "expanded": Job(count_of("t"), 3, (f.ExpandTopic("t", 3),)),
    "expanded and moved": Job(
        count_of("t"),
        3,
        (f.ExpandTopic("t", 3), f.MoveReplicas("t", (0, 4), 1)),
        is_nightly=True,
    ),
    "created": Job(count_of("n"), 2, (f.CreateTopic("n", 2, 3),)),
    "deleted": Job(count_of("u"), 0, (f.DeleteTopic("u"),), topics=WITH_ANOTHER),
    "deleted without a broker": Job(
        count_of("u"),
        0,
        (f.Kill("follower of u-0", 900), f.DeleteTopic("u")),
        topics=WITH_ANOTHER,
        end_ms=3_000,
        is_nightly=True,
    ),
    "deleted while it moves": Job(
        count_of("u"),
        0,
        (HELD_UP, f.MoveReplicas("u", (0, 4)), f.DeleteTopic("u")),
        topics=WITH_ANOTHER,
        is_nightly=True,
    ),
    "deleted and given up": Job(
        count_of("u"),
        0,
        (HELD_UP, f.MoveReplicas("u", (0, 4)), f.DeleteTopic("u"), f.GiveUpMoving("u")),
        topics=WITH_ANOTHER,
        is_nightly=True,
    ),
    "configured": Job(configured_retention, ("70000000", 70_000_000, 70_000_000), ask=configured),
    "configured to elect": replace(
        LEADERLESS, work=(f.ChangeConfig("t", "unclean.leader.election.enable", "true"),)
    ),
    "elected from all": replace(LEADERLESS, ask=elected_from_all),
    "log folder failed": Job(
        leader_of_t,
        2,
        (f.FailFolder("broker-3"),),
        end_ms=5_000,
        of_controllers=SOON,
        is_nightly=True,
    ),
    "shut down": Job(
        leader_of_t,
        2,
        (f.Terminate("broker-3"),),
        end_ms=3_500,
        of_controllers=SOON,
        is_nightly=True,
    ),
    "rebalanced": Job(
        leader_of_t,
        2,
        before=(Step(0, f.MoveReplicas("t", (2, 3))),),
        end_ms=3_500,
        of_controllers=SOON | REBALANCING,
    ),
}


def plan_of(job: str, preset: Preset, *more: Step) -> Plan:
    it = JOBS[job]
    steps = [Step(it.begin_ms + APART_MS * number, fault) for number, fault in enumerate(it.work)]
    settings = dict(it.of_brokers), dict(it.of_controllers)
    return Plan(
        seed=3,
        topology=PlanTopology(5, 2, preset, CLEAN, *settings),
        workload=Workload(it.topics, WRITTEN),
        steps=(*it.before, *steps, *more),
        quiet_after_ms=it.end_ms,
    )


def run_job(
    name: str, preset: Preset, point: Point | None = None
) -> tuple[CrashingRun, RunResult, object]:
    """Run the job; a controller dies at the point. Return also the job's result."""
    job = JOBS[name]
    seen: list[object] = []
    crash = (
        [Step(job.begin_ms, f.Kill("active controller", 700), point)]
        if isinstance(point, When)
        else []
    )

    def begin(world: World) -> None:
        assert not job.before or job.seen(world) != job.done
        if job.ask is not None:
            client = world.client("asker")
            client.runtime.start("asker", job.ask(client))

    def at_the_end(world: World, _: Core | None) -> None:
        seen.append(job.seen(world))

    run = CrashingRun(
        plan_of(name, preset, *crash),
        job.begin_ms,
        begin,
        point if isinstance(point, WritePoint) else None,
        at_the_end=at_the_end,
    )
    return run, run.run(), seen[0]


def points_of(job: str, preset: Preset) -> list[Point]:
    """Return the points that the job passes in a run without a crash."""
    run, result, seen = run_job(job, preset)
    assert result.violation is None
    assert seen == JOBS[job].done
    writes = [WritePoint(each, is_before) for each in run.writes for is_before in (True, False)]
    counted = Counter(event.kind for event in run.events)
    commands = [
        When(Observed.EVENT, event=kind.value, count=count)
        for kind in COMMANDS
        for count in range(1, counted[kind] + 1)
    ]
    return [*writes, *commands]


def cases() -> list[object]:
    return [
        pytest.param(
            name,
            preset,
            id=f"{name}-{preset}",
            marks=[pytest.mark.full] if job.is_nightly or preset is not Preset.FENCED else [],
        )
        for name, job in JOBS.items()
        for preset in CONTROLLED
    ]


@pytest.mark.parametrize(("name", "preset"), cases())
def test_the_next_controller_ends_the_job(name: str, preset: Preset) -> None:
    job = JOBS[name]
    points = points_of(name, preset)
    assert any(isinstance(point, WritePoint) for point in points)
    for point in points:
        run, result, seen = run_job(name, preset, point)
        assert result.violation is None, (point, result.violation)
        assert seen in (job.done, *job.or_else), point
        assert len(run.died) == isinstance(point, WritePoint)
