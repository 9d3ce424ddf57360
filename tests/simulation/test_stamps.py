"""Times in histories rise within an instant of virtual time, so that they show the order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from highwater_broker.partition import Partition
from highwater_broker.partition_context import AppendOutcome
from highwater_chaos.plan import Plan, Workload
from highwater_chaos.plan import Producer as PlannedProducer
from highwater_checker.history import HistoryEvent, sends_of
from highwater_checker.invariants.order import check_order
from highwater_core.ids import Offset
from highwater_simulator.clocks import Stamps
from highwater_simulator.runner import run_plan
from tests.support.failover_story import ORDERS

Cluster = Any
"""conftest.Cluster."""
WITHIN_MS = 5_000


def test_stamps_of_one_instant_rise_and_later_ones_are_the_time() -> None:
    now_ns = 70
    stamps = Stamps(lambda: now_ns)
    assert [stamps.next_ns() for _ in range(3)] == [70, 71, 72]
    now_ns = 71
    assert stamps.next_ns() == 73
    now_ns = 900
    assert stamps.next_ns() == 900


def test_no_two_lines_of_any_clients_have_one_stamp() -> None:
    workload = Workload(producers=(PlannedProducer(rate_per_s=40), PlannedProducer(rate_per_s=40)))
    history = run_plan(Plan(seed=3, workload=workload, quiet_after_ms=1_000)).history
    stamps = [event.time_ns for event in history]
    assert len({event.process for event in history}) == 4, "two producers, a consumer, the admin"
    assert len(set(stamps)) == len(stamps)
    for process in {event.process for event in history}:
        own = [event.time_ns for event in history if event.process == process]
        assert own == sorted(own)


def swapped(append: Any) -> Any:
    """Return a Partition.append that swaps the acknowledgements of every two records."""

    def append_swapped(self: Partition, *arguments: Any) -> AppendOutcome:
        outcome: AppendOutcome = append(self, *arguments)
        return replace(outcome, base_offset=Offset(outcome.base_offset ^ 1))

    return append_swapped


def found_in(history: list[HistoryEvent]) -> list[tuple[str, int]]:
    result = check_order(sends_of(history).acknowledged, lambda process: False)
    return [(finding.invariant, finding.offset) for finding in result.findings]


def test_a_reorder_within_one_instant_is_found(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client sends at the instant at which another client's record is acknowledged."""
    monkeypatch.setattr(Partition, "append", swapped(Partition.append))
    other = cluster.world.client("client-1")
    told_ns: list[int] = []

    async def story(c: Cluster) -> None:
        await c.begin(0)
        await c.client.send(ORDERS.topic, ORDERS.partition, "first", WITHIN_MS)
        told_ns.append(c.world.kernel.now_ns())
        await other.send(ORDERS.topic, ORDERS.partition, "second", WITHIN_MS)

    cluster.world.run(story(cluster), 100 * WITHIN_MS)
    history = [
        replace(event, operation_id=number)
        for number, client in enumerate((cluster.client, other))
        for event in client.history
    ]
    first, second = sends_of(history).acknowledged
    assert (first.offset, second.offset) == (1, 0)
    assert found_in(history) == [("realtime-send", 0)]

    begun_ns = told_ns[0]
    assert second.invoked_ns - begun_ns < 10, "within one instant"
    by_instants = [replace(event, time_ns=min(event.time_ns, begun_ns)) for event in history[:3]]
    assert found_in([*by_instants, history[3]]) == [], (
        "who takes them for simultaneous sees nothing"
    )
