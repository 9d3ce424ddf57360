"""A plan's group on containers reads and commits all records, though its coordinator dies.

tests/simulation/test_groups_in_plans.py tests the same rules in the simulator.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import (
    Consumer,
    Group,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    Workload,
)
from highwater_checker.history import COMMIT, FETCH_COMMITTED, OperationType
from highwater_checker.run_folder.histories import read_histories
from highwater_checker.verdict import Outcome
from highwater_core.internal_topics import OFFSETS_TOPIC
from tests.integration.plan_runs import run_plan

pytestmark = pytest.mark.docker

SESSION = {"session_timeout_ms": 2_000}
PLAN = Plan(
    seed=1,
    topology=PlanTopology(
        broker_settings={
            **SESSION,
            "group_min_session_timeout_ms": 1_000,
            "group_initial_rebalance_delay_ms": 200,
            "offsets_topic_partitions": 1,
            "offsets_topic_min_insync_replicas": 2,
        },
        controller_settings=SESSION,
    ),
    workload=Workload(
        (Topic(partitions=2, min_insync_replicas=2),),
        (Producer(rate_per_s=40, idempotent=True, max_in_flight=5),),
        (Consumer(),),
        (Group(members=2, stays_ms=3_000, session_timeout_ms=2_000),),
    ),
    steps=(Step(4_000, f.Kill(f"leader of {OFFSETS_TOPIC}-0", 3_000)),),
    quiet_after_ms=11_000,
)


def test_a_group_goes_on_where_a_dead_coordinator_left_it(tmp_path: Path) -> None:
    result = run_plan(PLAN, tmp_path)
    assert result.verdict.outcome is Outcome.PASS, result.verdict.reasons
    checks = {check.check for check in result.verdict.checks}
    assert "committed offsets (I14)" in checks
    assert any(check.startswith("g0: ") for check in checks)
    histories = read_histories(result.folder / "history")
    assert set(histories) == {"p0", "c0", "g0m0", "g0m1"}
    done = [
        event
        for member in ("g0m0", "g0m1")
        for event in histories[member]
        if event.type is OperationType.OK
    ]
    assert any(event.function == COMMIT for event in done)
    assert any(event.function == FETCH_COMMITTED and event.offset > 0 for event in done)
