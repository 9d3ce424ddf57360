"""The cost of a run: waits of records as a table, and the counts of a whole run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from highwater_chaos.faults import Kill
from highwater_chaos.plan import Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_checker.history import SEND, HistoryEvent, OperationType
from highwater_core.config import Preset
from highwater_simulator.run_cost import NO_COST, unavailable_ns
from highwater_simulator.runner import run_plan

INVOKE, OK, FAIL, INFO = OperationType
MS = 1_000_000


def sent(
    number: int,
    at_ms: int,
    ended_ms: int = 0,
    outcome: OperationType | None = None,
    *,
    partition: int = 0,
) -> list[HistoryEvent]:
    """Return a record's events; ended_ms: when its client knew the outcome, if it ever did."""
    events = [HistoryEvent(at_ms * MS, INVOKE, number, "p0", SEND, "t", partition, "v")]
    if outcome is not None:
        events.append(HistoryEvent(ended_ms * MS, outcome, number, "p0", SEND, "t", partition, "v"))
    return events


@pytest.mark.parametrize(
    ("sends", "unavailable_ms"),
    [
        pytest.param([], 0, id="nothing was sent"),
        pytest.param([sent(1, 1000, 1100, OK)], 0, id="it waits no longer than a slow link takes"),
        pytest.param([sent(1, 1000, 1300, OK)], 300, id="it waits"),
        pytest.param([sent(1, 1000)], 1000, id="it has no outcome"),
        pytest.param([sent(1, 1000, 1200, FAIL)], 1000, id="none is acknowledged afterwards"),
        pytest.param(
            [sent(1, 1000, 1010, FAIL), sent(2, 1390, 1400, OK)], 400, id="until the next one"
        ),
        pytest.param(
            [sent(1, 1000, 1200, INFO), sent(2, 1100, 1150, OK), sent(3, 1300, 1310, OK)],
            310,
            id="an earlier acknowledgement does not end it",
        ),
        pytest.param(
            [sent(1, 1000, 1300, OK), sent(2, 1200, 1500, OK)], 500, id="waits that overlap"
        ),
        pytest.param(
            [sent(1, 1000, 1300, OK), sent(2, 1000, 1300, OK, partition=1)],
            600,
            id="two partitions",
        ),
        pytest.param(
            [sent(1, 500, 1200, OK), sent(2, 1700, 2500, OK)], 500, id="the time alone counts"
        ),
        pytest.param([sent(1, 100, 900, OK), sent(2, 2100, 2900, OK)], 0, id="before and after"),
    ],
)
def test_a_partition_is_unavailable_while_records_wait(
    sends: Sequence[Sequence[HistoryEvent]], unavailable_ms: int
) -> None:
    history = sorted((event for each in sends for event in each), key=lambda each: each.time_ns)
    assert unavailable_ns(history, (1000 * MS, 2000 * MS)) == unavailable_ms * MS


def test_a_failover_costs_a_leader_change_requests_and_time() -> None:
    workload = Workload((Topic(),), (Producer(rate_per_s=20),), ())
    plans = [
        Plan(1, topology=PlanTopology(3, 1, Preset.FENCED), workload=workload, steps=steps)
        for steps in ((), (Step(500, Kill("leader of t-0", 1000)),))
    ]
    calm, killed = (run_plan(plan).cost for plan in plans)
    assert (calm.leader_changes, calm.unavailable_ns) == (0, 0)
    assert killed.leader_changes == 1
    assert killed.unavailable_ns > 0
    assert killed.control_calls > calm.control_calls
    assert killed.zookeeper_requests > calm.zookeeper_requests


def test_a_run_that_ends_before_its_faults_costs_nothing() -> None:
    crowded = Workload((Topic(replication_factor=3),), (), ())
    run = run_plan(Plan(1, topology=PlanTopology(1, 1, Preset.FENCED), workload=crowded))
    assert run.violation is not None
    assert run.cost == NO_COST
