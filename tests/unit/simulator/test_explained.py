"""A violation is explained by the trace up to it, and by nothing later."""

from __future__ import annotations

from collections import Counter

from highwater_chaos.plan import Plan, PlanTopology, Workload
from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent
from highwater_simulator.injector import Outcome
from highwater_simulator.oracle.violation import Violation
from highwater_simulator.runner import RunResult
from highwater_simulator.search import explained
from highwater_simulator.trace_log import TraceLog

NOW_NS = 7
LEADS = TraceEvent(0, 1, 1, 0, EventKind.BECAME_LEADER, "t", 0, 3, offset=5)
APPENDS = TraceEvent(0, 1, 1, 1, EventKind.LOG_APPENDED, "t", 0, 3, offset=5)


def result_of(*events: TraceEvent) -> RunResult:
    trace = TraceLog(lambda: NOW_NS)
    for event in events:
        trace.sink("broker-1")(event)
    return RunResult(
        plan=Plan(seed=1, topology=PlanTopology(preset=Preset.V3), workload=Workload()),
        violation=None,
        flags=(),
        excused=(),
        acknowledged=0,
        events=0,
        simulated_ns=NOW_NS,
        marks=Counter(),
        outcome=Outcome(),
        trace=trace,
        history=[],
    )


def leads_without_its_epoch(trace_length: int | None) -> Violation:
    return Violation("I10", "its last epoch is 0", NOW_NS, "t", 0, trace_length=trace_length)


def test_later_events_of_the_same_moment_explain_and_refute_nothing() -> None:
    result = result_of(LEADS, APPENDS)
    assert explained(leads_without_its_epoch(0), result).rows == ()
    assert explained(leads_without_its_epoch(1), result).rows == (4,)
    assert explained(leads_without_its_epoch(2), result).rows == ()


def test_where_the_length_is_not_known_the_whole_trace_counts() -> None:
    assert explained(leads_without_its_epoch(None), result_of(LEADS)).rows == (4,)
