"""The number of records that a plan's run must acknowledge to prove anything."""

from __future__ import annotations

import pytest

from highwater.runs.plans.promises import promises_in_simulator, promises_of
from highwater_chaos.plan import Expected, Plan, Producer, Workload

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
