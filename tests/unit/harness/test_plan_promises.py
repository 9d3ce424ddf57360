"""The promises of a plan's run: the least number of acknowledged records, and its writers."""

from __future__ import annotations

import pytest

from highwater.runs.plans.promises import promises_in_simulator, promises_of
from highwater_chaos.faults import CreateTopic, DeleteTopic, Fault, Kill
from highwater_chaos.plan import Expected, Plan, Producer, Step, Workload

PLAN = Plan(seed=1, workload=Workload(producers=(Producer(rate_per_s=50),)), quiet_after_ms=10_000)


@pytest.mark.parametrize(
    ("asked", "in_containers", "in_simulator"), [(0, 50, 1), (20, 50, 20), (300, 300, 300)]
)
def test_a_plan_may_ask_for_more_acknowledged_records_than_a_share(
    asked: int, in_containers: int, in_simulator: int
) -> None:
    plan = Plan(
        seed=1,
        workload=PLAN.workload,
        quiet_after_ms=PLAN.quiet_after_ms,
        expected=Expected(least_acknowledged=asked),
    )
    assert promises_of(plan, 0.1).least_acknowledged == in_containers
    assert promises_in_simulator(plan, groups_are_served=True).least_acknowledged == in_simulator


@pytest.mark.parametrize(
    ("fault", "are_known"),
    [
        (CreateTopic("t"), True),
        (CreateTopic("other", records=3), True),
        (CreateTopic("t", records=3), False),
        (Kill("broker-0"), True),
    ],
)
def test_all_writers_are_known_unless_an_operator_writes_to_a_topic_of_the_plan(
    fault: Fault, are_known: bool
) -> None:
    plan = Plan(seed=1, steps=(Step(500, DeleteTopic("t")), Step(900, fault)))
    assert promises_of(plan, 0.1).writers_are_known is are_known
