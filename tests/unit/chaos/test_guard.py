"""The quorum guard: which nodes a fault takes out, and how many at once."""

from __future__ import annotations

import pytest

from highwater_chaos import faults as f
from highwater_chaos.guard import (
    AWAY_BY_DELAY_MS,
    CUT_BY_LATENCY_MS,
    CUT_BY_LOSS_PERCENT,
    OUT_BY_DELAY_MS,
    STOPPING_MS,
    acting_of,
    budget_of,
    problems_with_quorum,
)
from highwater_chaos.plan import Observed, Plan, PlanTopology, Step, Topic, When, Workload
from highwater_core.fail_points import FailPoint

QUORUM = Workload((Topic(min_insync_replicas=2),))


def plan(*steps: Step, brokers: int = 3, controllers: int = 2) -> Plan:
    topology = PlanTopology(brokers=brokers, controllers=controllers)
    return Plan(seed=1, topology=topology, workload=QUORUM, steps=steps, quiet_after_ms=20_000)


def both_ways(source: str, target: str, plane: str = "replication") -> f.Cut:
    return f.Cut(source, target, plane, both_ways=True, for_ms=1_000)


@pytest.mark.parametrize(
    "together",
    [
        (f.Kill("broker-0", 1_000),),
        (f.Kill("leader of t-0", 1_000), f.Pause("active controller", 1_000)),
        (f.Kill("broker-0", 1_000), f.Kill("controller-1001", 1_000)),
        # One broker, in two ways.
        (f.Pause("broker-0", 1_000), both_ways("broker-0", "broker-1")),
        (both_ways("broker-0", "broker-1"), both_ways("broker-2", "broker-1")),
        (both_ways("broker-0", "any"),),
        (f.Cut("any", "broker-1", "client", for_ms=1_000), f.Isolate("broker-1", 1_000)),
        # Nobody is out where packets are but lost at times.
        (f.Kill("broker-0", 1_000), f.LossyLink("broker-1", "broker-2", "replication", 30, 1_000)),
        # The controller that reaches nobody, and one broker.
        (both_ways("controller-1000", "any", "control"), f.Kill("broker-2", 1_000)),
        # A bridge: a half each of a controller and a broker.
        (
            both_ways("controller-1000", "broker-1", "control"),
            both_ways("controller-1001", "broker-0", "control"),
        ),
    ],
)
def test_a_quorum_is_kept_when_few_enough_are_out_at_once(together: tuple[f.Fault, ...]) -> None:
    assert problems_with_quorum(plan(*(Step(500, fault) for fault in together))) == []


@pytest.mark.parametrize(
    "together",
    [
        (f.Kill("broker-0", 1_000), f.Terminate("broker-1", 1_000)),
        (f.CrashLoop("broker-0", 2, 10, 1_000), f.Kill("broker-1", 1_000)),
        # Whoever leads may be another broker than the one that is down.
        (f.Kill("broker-0", 1_000), f.Pause("leader of t-0", 1_000)),
        (f.Pause("leader of t-0", 1_000), f.Pause("leader of t-0", 1_000)),
        (f.Pause("controller-1000", 1_000), f.Isolate("controller-1001", 1_000)),
        (f.Kill("broker-0", 1_000), both_ways("broker-1", "broker-2")),
        (f.Cut("zookeeper", "any", "zookeeper", for_ms=1_000),),
        (f.Cut("broker-1", "zookeeper", "zookeeper", for_ms=1_000), f.Kill("broker-0", 1_000)),
        (f.RestartZooKeeper(1_000),),
        (f.PauseZooKeeper(1_000),),
        # A ring of three: each of two brokers is needed to explain it.
        (
            f.Cut("broker-0", "broker-1", "replication", for_ms=1_000),
            f.Cut("broker-1", "broker-2", "replication", for_ms=1_000),
            f.Cut("broker-2", "broker-0", "replication", for_ms=1_000),
        ),
    ],
)
def test_a_quorum_is_lost_when_more_are_out_at_once(together: tuple[f.Fault, ...]) -> None:
    (problem,) = problems_with_quorum(plan(*(Step(500, fault) for fault in together)))
    assert "are out at 500 ms" in problem


LINK = ("broker-1", "broker-2", "replication")
POINT = FailPoint.BEFORE_TRUNCATION


@pytest.mark.parametrize(
    ("fault", "is_out"),
    [
        (f.DiskFull("broker-1", 1_000), True),
        (f.DiskErrors("broker-1", f.DiskOperation.SYNC, 10, 1_000), True),
        (f.SlowDisk("broker-1", 50, 1_000), True),
        (f.LossyLink(*LINK, CUT_BY_LOSS_PERCENT, 1_000), True),
        (f.LossyLink(*LINK, CUT_BY_LOSS_PERCENT - 1, 1_000), False),
        (f.LossyLink("any", "broker-1", "client", 90, 1_000), True),
        (f.LossyLink("zookeeper", "broker-1", "zookeeper", 90, 1_000), True),
        (f.SlowLink(*LINK, CUT_BY_LATENCY_MS, 0, 1_000), True),
        (f.SlowLink(*LINK, CUT_BY_LATENCY_MS - 1, 0, 1_000), False),
        # As a cut does, it may spare the broker that is down already.
        (f.SlowLink("broker-0", "broker-1", "replication", 2_000, 0, 1_000), False),
        (f.SlowZooKeeper(AWAY_BY_DELAY_MS, 1_000), True),
        (f.SlowZooKeeper(AWAY_BY_DELAY_MS - 1, 1_000), False),
        (f.DelayAt("broker-1", POINT, OUT_BY_DELAY_MS, for_ms=1_000), True),
        (f.DelayAt("broker-1", POINT, OUT_BY_DELAY_MS - 1, for_ms=1_000), False),
        (f.HalfOpen(*LINK), True),
        (f.Upgrade("broker-1"), True),
        (f.ResetConnections(*LINK), False),
        (f.LimitBandwidth(*LINK, 500, 1_000), False),
    ],
)
def test_a_fault_as_bad_as_a_node_that_is_out_counts_beside_one_that_is_down(
    fault: f.Fault, is_out: bool
) -> None:
    beside = plan(Step(0, f.Kill("broker-0", 5_000)), Step(500, fault))
    assert bool(problems_with_quorum(beside)) is is_out


def test_faults_that_follow_each_other_are_not_out_at_once_unless_recovery_counts() -> None:
    one_by_one = plan(Step(0, f.Kill("broker-0", 1_000)), Step(1_000, f.Kill("broker-1", 1_000)))
    assert problems_with_quorum(one_by_one) == []
    assert len(problems_with_quorum(one_by_one, recovery_ms=1)) == 1


def test_a_fault_acts_to_the_end_without_a_length_and_from_its_time_on_with_a_condition() -> None:
    quiet_after_ms = 9_000
    assert acting_of(Step(500, f.Kill("broker-0")), quiet_after_ms).end_ms == quiet_after_ms
    when = When(Observed.LEADER_EPOCH, "t-0")
    acting = acting_of(Step(500, f.Kill("broker-0", 10), when), quiet_after_ms)
    assert (acting.begin_ms, acting.end_ms) == (500, quiet_after_ms)
    delayed = f.DelayAt("broker-0", POINT, 2_000, for_ms=1_000)
    assert acting_of(Step(500, delayed), quiet_after_ms).end_ms == 3_500
    stopped = acting_of(Step(500, f.Terminate("broker-0", 10)), quiet_after_ms)
    assert stopped.end_ms == 510 + STOPPING_MS


def test_the_strictest_topic_says_how_many_brokers_may_be_out() -> None:
    topics = (Topic("t", 1, 3, 1), Topic("u", 1, 3, 3))
    strict = Plan(seed=1, workload=Workload(topics, (), ()), topology=PlanTopology(controllers=3))
    assert (budget_of(strict).brokers, budget_of(strict).controllers) == (0, 2)
