"""Consumers go on where they were (I9): three judges say the same of planted and drawn runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from highwater_checker.finding import CheckResult
from highwater_checker.history import ASSIGNED, POLL, RESET, HistoryEvent, OperationType
from highwater_checker.invariants.going_on import check_going_on
from highwater_checker.leaders_logs import LeadersLogs
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from highwater_pipeline.checks.registry import CHECKS
from tests.pipeline.event_runs import traced
from tests.pipeline.frames import Run
from tests.pipeline.judges import (
    Judges,
    Opinions,
    opinions_of_duckdb,
    opinions_of_python,
    opinions_of_spark,
)
from tests.pipeline.record_histories import batch, log

OK, FAIL = OperationType.OK, OperationType.FAIL
SECOND_NS = 1_000_000_000
HELD = batch(0, *"abcd")
GENERATED = 150
ENOUGH = 5
"""Of the generated runs, in how many there must be a finding, and in how many none."""
LED, APPENDED = EventKind.BECAME_LEADER, EventKind.LOG_APPENDED
LEADERS = (LED, APPENDED, EventKind.BECAME_FOLLOWER, EventKind.REPLICA_STOPPED)
KINDS = (*LEADERS, APPENDED, LED, EventKind.LOG_START_MOVED, EventKind.NODE_STOPPED)


def told(at_s: float, function: str, offset: int, kind: OperationType = OK) -> HistoryEvent:
    error = "OFFSET_OUT_OF_RANGE" if kind is FAIL else ""
    at_ns = int(at_s * SECOND_NS)
    return HistoryEvent(at_ns, kind, int(at_s), "c0", function, "t", 0, "v", offset, error)


def event(at_s: float, node: int, start: int, kind: EventKind, offset: int) -> TraceEvent:
    detail = {"end_offset": offset + 1} if kind is APPENDED else {}
    place = (None, None) if kind is EventKind.NODE_STOPPED else ("t", 0)
    ts_ns = int(at_s * SECOND_NS)
    return TraceEvent(ts_ns, node, start, 0, kind, *place, 0, offset=offset, detail=detail)


READ = [told(10 + offset, POLL, offset) for offset in range(3)]
REFUSED = [*READ, told(13, POLL, 3, FAIL), told(13.1, RESET, 0), told(14, POLL, 0)]
BACK = [*READ, told(14, POLL, 0), told(15, POLL, 1)]
LEADER = [
    event(1, 0, 1, LED, 0),
    *(event(9.9 + offset, 0, 1, APPENDED, offset) for offset in range(4)),
]


def run(
    name: str, history: Sequence[HistoryEvent], events: Sequence[TraceEvent], *, start: int = 0
) -> Run:
    logs = (log(0, HELD, high_watermark=4, start=start),)
    return Run(name, history, events=traced(events), replicas=logs, start_wall_ns=0)


PLANTED: dict[str, tuple[Run, list[tuple[str, int]]]] = {
    each.run_id: (each, found)
    for each, found in (
        (run("goes on", READ, LEADER), []),
        (run("refused", REFUSED, LEADER), [("I9", 3)]),
        (run("goes back", BACK, LEADER), [("nonmonotonic-poll", 3)]),
        (
            run("retention", REFUSED, [*LEADER, event(5, 0, 1, EventKind.LOG_START_MOVED, 4)]),
            [],
        ),
        (run("retention untold", REFUSED, LEADER, start=4), []),
        (run("shorter leader", REFUSED, [*LEADER, event(12.9, 1, 1, LED, 2)]), []),
        (run("whole leader", REFUSED, [*LEADER, event(12.9, 1, 1, LED, 3)]), [("I9", 3)]),
        (run("deleted", REFUSED, [*LEADER, event(5, 0, 1, EventKind.TOPIC_DELETED, 0)]), []),
        (run("nobody led", REFUSED, []), []),
    )
}


@st.composite
def histories(draw: st.DrawFn) -> list[HistoryEvent]:
    found: list[HistoryEvent] = []
    at_s, offset = 10.0, 0
    functions = st.sampled_from([POLL] * 12 + ["refused", "refused", RESET, ASSIGNED])
    for number in range(draw(st.integers(2, 8))):
        at_s += draw(st.sampled_from([0.01, 0.5, 2.0]))
        function = draw(functions) if number else POLL
        step = draw(st.sampled_from([0] * 6 + [1, -1, -2]))
        if function == "refused":
            found.append(told(at_s, POLL, max(0, offset + step), FAIL))
        else:
            found.append(told(at_s, function, max(0, offset + step)))
            offset = found[-1].offset + (function == POLL)
    return found


@st.composite
def traces(draw: st.DrawFn) -> list[TraceEvent]:
    found = [event(1, 0, 1, LED, 0)]
    at_s, start = 9.0, {0: 1, 1: 1}
    for _ in range(draw(st.integers(2, 10))):
        at_s += draw(st.sampled_from([0.05, 0.6, 2.0]))
        node = draw(st.sampled_from([0, 0, 1]))
        start[node] += draw(st.sampled_from([0] * 9 + [1]))
        kind = draw(st.sampled_from(KINDS))
        found.append(event(at_s, node, start[node], kind, draw(st.integers(0, 5))))
    return found


def generated_runs() -> list[Run]:
    drawn: list[Run] = []

    @settings(max_examples=GENERATED, deadline=None, suppress_health_check=list(HealthCheck))
    @given(histories(), traces(), st.sampled_from([0, 0, 0, 3]), st.sampled_from([0, 0, 0, None]))
    def draw(
        history: list[HistoryEvent], events: list[TraceEvent], start: int, clock: int | None
    ) -> None:
        found = run(f"generated-{len(drawn)}", history, events, start=start)
        drawn.append(Run(**{**_fields(found), "start_wall_ns": clock}))

    draw()
    return drawn


def _fields(found: Run) -> dict[str, object]:
    return {name: getattr(found, name) for name in Run.__slots__}


def _going_on(run: Run) -> CheckResult | None:
    whole = [own for process, own in run.histories().items() if process not in run.incomplete]
    starts: dict[TopicPartition, int] = {}
    for each in run.replicas:
        at = TopicPartition(each.topic, each.partition)
        starts[at] = max(starts.get(at, 0), each.log_start_offset)
    result = check_going_on(whole, lambda: LeadersLogs(run.events, run.start_wall_ns, starts))
    return result if result.examined else None


PYTHON: Judges = {"going_on": _going_on}


@pytest.fixture(scope="module")
def evidence() -> dict[str, Run]:
    planted = [each for each, _ in PLANTED.values()]
    return {each.run_id: each for each in (*planted, *generated_runs())}


@pytest.fixture(scope="module")
def python(evidence: dict[str, Run]) -> Opinions:
    return opinions_of_python(PYTHON, evidence.values())


@pytest.mark.parametrize("name", PLANTED)
def test_planted_departures_are_found_and_nothing_else(name: str, python: Opinions) -> None:
    found = [(row[1], row[4]) for row in python["going_on", name].findings]
    assert found == PLANTED[name][1]


def test_duckdb_agrees_with_the_checker_to_the_letter(
    evidence: dict[str, Run], python: Opinions
) -> None:
    duckdb = opinions_of_duckdb(PYTHON, [*evidence.values()])
    assert duckdb.keys() == python.keys()
    for key, opinion in python.items():
        assert duckdb[key] == opinion, evidence[key[1]]


@pytest.mark.full
def test_spark_agrees_with_the_checker_too(
    spark: SparkSession, evidence: dict[str, Run], python: Opinions
) -> None:
    pipeline = opinions_of_spark(spark, {"going_on": CHECKS["going_on"]}, [*evidence.values()])
    assert pipeline.keys() == python.keys()
    for key, opinion in python.items():
        assert pipeline[key] == opinion, evidence[key[1]]


def test_generated_runs_are_neither_all_sound_nor_all_broken(python: Opinions) -> None:
    drawn = [opinion for (_, name), opinion in python.items() if name not in PLANTED]
    assert sum(bool(each.findings) for each in drawn) >= ENOUGH
    assert sum(not each.findings for each in drawn) >= ENOUGH
