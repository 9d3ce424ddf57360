"""Producers that send more slowly than their plan asks are told."""

from __future__ import annotations

import pytest

from highwater.runs.plans.rates import slower_than_planned
from highwater_chaos.plan import Plan, Producer, Workload
from highwater_checker.history import POLL, SEND, HistoryEvent, OperationType

MS = 1_000_000


def sends(process: str, count: int, every_ms: int, from_ms: int = 0) -> list[HistoryEvent]:
    """Return a send every so many ms, each with its acknowledgement."""
    return [
        HistoryEvent((from_ms + number * every_ms) * MS, kind, number, process, SEND, "t", 0, "v")
        for number in range(count)
        for kind in (OperationType.INVOKE, OperationType.OK)
    ]


def planned(*rates: int) -> Plan:
    return Plan(
        seed=1, workload=Workload(producers=tuple(Producer(rate_per_s=each) for each in rates))
    )


@pytest.mark.parametrize(
    ("rate_per_s", "every_ms", "count", "told"),
    [
        (100, 10, 1_001, []),
        (100, 13, 1_001, []),
        (100, 20, 1_001, ["p0 sent 50 records a second, its plan asks for 100"]),
        (1_000, 1, 4_001, []),
        (5_000, 2, 4_001, ["p0 sent 500 records a second, its plan asks for 5,000"]),
        (100, 20, 490, []),
        (100, 10, 0, []),
    ],
    ids=["kept", "nearly", "half", "1,000-kept", "a-tenth", "too-few", "nothing-sent"],
)
def test_a_producer_below_three_quarters_of_its_rate_is_told(
    rate_per_s: int, every_ms: int, count: int, told: list[str]
) -> None:
    histories = {"p0": sends("p0", count, every_ms)}
    assert list(slower_than_planned(planned(rate_per_s), histories)) == told


def test_incarnations_are_one_producer_and_other_clients_are_not() -> None:
    read = HistoryEvent(9_000 * MS, OperationType.OK, 0, "c0", POLL, "t", 0, "v")
    histories = {
        "c0": [read],
        "p0": sends("p0", 101, 10),
        "p0.2": sends("p0.2", 101, 10, from_ms=9_000),
        "p1": sends("p1", 1_001, 10),
        "p10": sends("p10", 100, 100),
    }
    told = list(slower_than_planned(planned(100, 100), histories))
    assert told == ["p0 sent 20 records a second, its plan asks for 100"]
