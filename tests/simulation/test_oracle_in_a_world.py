"""The oracle sees its evidence: latest offsets, followers' progress, logs that begin above 0."""

from __future__ import annotations

import msgspec
import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Network, Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_core.ids import TopicPartition
from highwater_planted import planted
from highwater_simulator.runner import PlanRun, run_plan

AT = TopicPartition("t", 0)
QUICK = {"session_timeout_ms": 500, "replica_lag_time_max_ms": 500}
PLAN = Plan(
    seed=3,
    topology=PlanTopology(broker_settings=QUICK, controller_settings={"session_timeout_ms": 500}),
    workload=Workload(producers=(Producer(rate_per_s=40),)),
    quiet_after_ms=1_000,
)

FAR_APART = msgspec.structs.replace(PLAN, network=Network(minimum_us=15_000, maximum_us=25_000))


def test_consumers_ask_for_the_latest_offset() -> None:
    run = PlanRun(PLAN)
    history = run.run().history
    assert sum(event.function == "latest" for event in history) > 3


@pytest.mark.parametrize(
    ("plan", "bug", "invariant"),
    [
        (FAR_APART, "latest_offset_is_the_logs_end", "I9"),
        (PLAN, "high_watermark_counts_what_was_sent", "I16"),
    ],
)
def test_a_violation_without_any_fault_is_seen(plan: Plan, bug: str, invariant: str) -> None:
    with planted(bug):
        violation = run_plan(plan).violation
    assert violation is not None
    assert violation.invariant == invariant


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"retention_bytes": 10**9},
        {"retention_bytes": 600, "segment_bytes": 300, "log_retention_check_interval_ms": 150},
    ],
)
def test_a_log_start_above_its_leaders_is_seen_with_any_retention(
    settings: dict[str, int],
) -> None:
    topology = PlanTopology(broker_settings=QUICK | settings)
    plan = msgspec.structs.replace(PLAN, topology=topology)
    assert run_plan(plan).violation is None
    with planted("follower_starts_over_too_high"):
        violation = run_plan(plan).violation
    assert violation is not None
    assert (violation.invariant, "begin at" in violation.message) == ("I11", True)


def test_logs_that_retention_cuts_at_their_start_are_compared_all_the_same() -> None:
    """The checks at the end compare them; they read whole logs (docs/explanation/simulator.md)."""
    settings = QUICK | {
        "segment_bytes": 300,
        "retention_bytes": 600,
        "log_retention_check_interval_ms": 150,
    }
    run = PlanRun(
        Plan(
            seed=1,
            topology=PlanTopology(broker_settings=settings),
            workload=Workload(
                topics=(Topic(min_insync_replicas=2),), producers=(Producer(rate_per_s=40),)
            ),
            steps=(
                Step(300, f.Kill("leader of t-0", 300)),
                Step(900, f.Kill("last follower of t-0", 300, f.DiskAtStart.EMPTY)),
            ),
            quiet_after_ms=1_500,
        )
    )
    run._get_ready()
    run._do_faults()
    run._settle(run._heal())
    shadows = [run.oracle.shadow(broker, AT) for broker in run.world.brokers]
    run.world.close()
    assert all(shadow.chain.start_offset > 10 for shadow in shadows)
    assert len({shadow.chain.chains[-1] for shadow in shadows}) == 1
