"""Topics whose records all expire, in whole clusters: each replica lets go of its last segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_core.events import BY_RETENTION, EventKind, TraceEvent
from highwater_planted import PLANTED, planted
from highwater_simulator.runner import run_plan
from tests.support.failover_story import ORDERS

MakeCluster = Callable[..., Any]

SHORT = {
    "retention_ms": 300,
    "log_retention_check_interval_ms": 70,
    "log_flush_interval_ms": 150,
}


def logs(c: Any) -> set[tuple[int, int, int]]:
    """Return log start, log end and size in bytes of every broker's log, each once."""
    found: set[tuple[int, int, int]] = set()
    for broker, handle in c.world.brokers.items():
        replica = c.world.replica(broker, ORDERS)
        sizes = [
            len(content)
            for path, content in handle.disk.files().items()
            if path.startswith(f"{ORDERS}/") and path.endswith(".log")
        ]
        found.add((replica.log_start_offset, replica.log_end_offset, sum(sizes)))
    return found


def test_an_idle_topic_is_emptied_everywhere_and_goes_on_under_another_leader(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(broker_settings=SHORT)

    async def story(c: Any) -> None:
        await c.begin(20)
        for count in (20, 25):
            await c.world.eventually(lambda n=count: logs(c) == {(n, n, 0)}, 5_000, "all empty")
            leader = c.leader()
            c.world.kill(leader)
            await c.world.eventually(lambda old=leader: c.leader() != old, 9_000, "another leader")
            await c.start_dead()
            await c.full_isr()
            assert logs(c) == {(count, count, 0)}
            await c.send(5)
        assert {end for _, end, _ in logs(c)} == {30}
        c.client.history.clear()  # of records that retention removed

    cluster.run(story, retention=True)


def plan_of(steps: Sequence[Step], *, seed: int = 1, **settings: int) -> Plan:
    return Plan(
        seed=seed,
        topology=PlanTopology(broker_settings={**SHORT, **settings}),
        workload=Workload(
            topics=(Topic(min_insync_replicas=2),),
            producers=(Producer(rate_per_s=3, max_in_flight=5),),
        ),
        steps=tuple(steps),
        quiet_after_ms=4_000,
    )


@pytest.mark.parametrize("lost", [f.Kill, f.PowerLoss, f.Pause])
@pytest.mark.parametrize("at_ms", range(1_000, 1_100, 33))
def test_a_fault_around_the_removal_of_a_last_segment_loses_nothing(lost: Any, at_ms: int) -> None:
    steps = [
        Step(at_ms, lost("broker-1", 300)),
        Step(at_ms + 777, lost("leader of t-0", 300)),
        Step(at_ms + 1_600, lost("follower of t-0", 900)),
    ]
    result = run_plan(plan_of(steps, seed=at_ms))
    assert result.violation is None
    moved = [
        event
        for event in (getattr(entry, "event", None) for entry in result.trace.entries)
        if isinstance(event, TraceEvent) and event.kind is EventKind.LOG_START_MOVED
    ]
    assert {event.node for event in moved if event.detail["reason"] == BY_RETENTION} == {0, 1, 2}


def test_an_expired_last_segment_that_is_not_committed_is_seen_where_it_is_removed() -> None:
    name = "retention_beyond_high_watermark"
    followers = ("follower of t-0", "last follower of t-0")
    plan = plan_of(
        [Step(1_000, f.Cut(each, f.ANY, "replication", True, 1_500)) for each in followers]
    )
    assert run_plan(plan).violation is None
    with planted(name):
        violation = run_plan(plan).violation
    assert violation is not None
    assert violation.invariant in PLANTED[name].breaks
