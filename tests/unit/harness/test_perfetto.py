"""A run as a trace for Perfetto: valid JSON, whole spans, arrows between spans, the same bytes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from highwater.report import perfetto
from highwater.report.failover import Gap
from highwater.report.faults_in_run import FaultSpan
from highwater.report.messages import messages_of
from highwater.report.perfetto import TracedRun, trace_of
from highwater.report.trace_events import THE_RUN, lanes, pid_of
from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.looks import Look
from highwater_checker.run_folder.evidence import read_evidence
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from tests.support.run_on_disk import write_run
from tests.unit.harness.test_timeline import S, story

MS = 1_000_000
AT = TopicPartition("t", 0)
NASTY = 'a "quoted" \\ name\nof </script> \x00'


def event(
    ms: int, node: int, kind: EventKind, at: TopicPartition | None = None, **detail: Any
) -> TraceEvent:
    topic, partition = at or (None, None)
    return TraceEvent(
        ms * MS, node, 1, ms, kind, topic, partition=partition, leader_epoch=1,
        controller_epoch=3, offset=20, detail=detail,
    )  # fmt: skip


COMMAND = {"broker": 1, "correlation_id": 7, "request": "LeaderAndIsrRequest"}
HANDLED = {"controller_id": 1000, "correlation_id": 7, "request": "LeaderAndIsr"}
TRACES = (
    event(-5, 1000, EventKind.CONTROLLER_ELECTED),
    event(2_000, 1000, EventKind.LEADER_ELECTED, AT, leader=1, isr=[1]),
    event(2_100, 1000, EventKind.COMMAND_SENT, partitions=["t-0"], **COMMAND),
    event(2_110, 1, EventKind.REQUEST_HANDLED, **HANDLED),
    event(2_120, 1000, EventKind.COMMAND_ANSWERED, error="NONE", **COMMAND),
    event(2_200, 1000, EventKind.COMMAND_SENT, partitions=[], **COMMAND | {"correlation_id": 8}),
    event(3_000, 1, EventKind.ISR_CHANGE_PROPOSED, AT, isr=[0, 1]),
    event(3_010, 1000, EventKind.ISR_WRITTEN, AT, leader=1, trigger="AlterPartitionRequest"),
    event(3_020, 1, EventKind.ISR_CHANGED, AT, isr=[0, 1]),
    event(3_500, 0, EventKind.FETCHER_STARTED, AT, leader=1),
    event(3_510, 0, EventKind.REQUEST_REFUSED, AT, request="fetch", by=1, error="NOT_LEADER"),
)
HISTORY = (
    HistoryEvent(10 * MS, OperationType.INVOKE, 0, "p0", "send", "t", 0, NASTY),
    HistoryEvent(11 * MS, OperationType.INVOKE, 1, "p0", "send", "t", 0, "b"),
    HistoryEvent(30 * MS, OperationType.OK, 0, "p0", "send", "t", 0, NASTY, offset=4),
    HistoryEvent(40 * MS, OperationType.INVOKE, 2, "p0", "send", "t", 0, "c"),
    HistoryEvent(50 * MS, OperationType.FAIL, 1, "p0", "send", "t", 0, "b", error="too late"),
)
FAULTS = (
    FaultSpan(None, NASTY, 0, "dead", 2 * S, 4 * S),
    FaultSpan(None, "cut", None, "", 3 * S, None),
)


@pytest.fixture
def run(tmp_path: Path) -> TracedRun:
    evidence = replace(
        read_evidence(write_run(tmp_path / "run")),
        looks=tuple(story()),
        traces=TRACES,
        histories={"p0": HISTORY},
    )
    gaps = (Gap("t", 0, 2.0, 4.0),)
    return TracedRun(NASTY, evidence, 0, FAULTS, gaps, (AT,), (3.5, NASTY))


Event = dict[str, Any]


def events_of(trace: bytes, phase: str = "") -> list[Event]:
    found: list[Event] = json.loads(trace)["traceEvents"]
    return [each for each in found if not phase or each["ph"] == phase]


def rows(trace: bytes) -> dict[tuple[int, int], str]:
    named = [each for each in events_of(trace, "M") if each["name"] == "thread_name"]
    return {(each["pid"], each["tid"]): each["args"]["name"] for each in named}


def spans_on(trace: bytes, pid: int, row: str) -> list[tuple[str, int, int]]:
    names = rows(trace)
    return [
        (each["name"], each["ts"], each["ts"] + each["dur"])
        for each in events_of(trace, "X")
        if each["pid"] == pid and names[pid, each["tid"]] == row
    ]


def test_it_is_json_with_its_names_and_the_same_bytes_of_the_same_run(run: TracedRun) -> None:
    trace = trace_of(run)
    assert trace == trace_of(run)
    found = json.loads(trace)
    assert found["otherData"]["run"] == NASTY
    assert NASTY in {each["name"] for each in found["traceEvents"]}
    processes = [
        each["args"]["name"] for each in events_of(trace, "M") if "sort" not in each["name"]
    ]
    assert processes[:5] == ["the run", "clients", "broker-0", "broker-1", "controller-1000"]
    assert [each for each in found["traceEvents"] if each["ts"] < 0] == []
    assert found["otherData"]["notes"] == ["1 events before the run's start are left out"]


def test_each_begin_has_its_end_and_spans_of_a_row_do_not_overlap(run: TracedRun) -> None:
    trace = trace_of(run)
    begins, ends = (
        Counter((each["cat"], each["id"], each["name"]) for each in events_of(trace, phase))
        for phase in "be"
    )
    assert begins == ends
    assert set(begins.values()) == {1}
    by_row: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for each in events_of(trace, "X"):
        assert each["dur"] > 0
        by_row[each["pid"], each["tid"]].append((each["ts"], each["ts"] + each["dur"]))
    for spans in by_row.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))


def test_every_arrow_leads_from_a_span_to_a_span(run: TracedRun) -> None:
    trace = trace_of(run)
    arrows: defaultdict[str, list[Event]] = defaultdict(list)
    for each in events_of(trace):
        if each["ph"] in "stf":
            arrows[each["id"]].append(each)
    assert [[each["ph"] for each in arrow] for arrow in arrows.values()] == [["s", "t", "f"]] * 2
    spans = events_of(trace, "X")
    for each in (each for arrow in arrows.values() for each in arrow):
        around = [
            span
            for span in spans
            if (span["pid"], span["tid"]) == (each["pid"], each["tid"])
            and span["ts"] <= each["ts"] < span["ts"] + span["dur"]
        ]
        assert len(around) == 1
    ways = {tuple(each["pid"] for each in arrow) for arrow in arrows.values()}
    controller, leader = pid_of(1000), pid_of(1)
    assert ways == {(controller, leader, controller), (leader, controller, leader)}


def test_rows_have_roles_states_faults_and_the_time_without_a_leader(run: TracedRun) -> None:
    trace = trace_of(run)
    us = 1_000_000
    assert spans_on(trace, pid_of(0), "t-0") == [
        ("leads, epoch 0", 0, 2 * us),
        ("does not answer", 2 * us, 4 * us),
        ("follows broker 0, epoch 0", 4 * us, 5 * us),
    ]
    assert spans_on(trace, pid_of(1), "state")[-1] == ("leads t-0", 3 * us, 5 * us)
    assert spans_on(trace, THE_RUN, "nobody leads") == [("nobody leads t-0", 2 * us, 3 * us)]
    assert spans_on(trace, THE_RUN, "faults")[0][1:] == (2 * us, 4 * us)
    assert spans_on(trace, THE_RUN, "faults 2") == [("cut", 3 * us, 5 * us)]
    assert spans_on(trace, THE_RUN, "fail-overs")[0][1:] == (2 * us, 4 * us)
    (violation,) = [each for each in events_of(trace, "i") if each["s"] == "g"]
    assert (violation["ts"], violation["name"]) == (3.5 * us, NASTY)


def test_operations_have_their_outcomes(run: TracedRun) -> None:
    begun = events_of(trace_of(run), "b")
    assert [(each["name"], each["ts"], each["args"]["outcome"]) for each in begun] == [
        ("p0 send", 10_000, "ok"),
        ("p0 send: fail", 11_000, "fail"),
        ("p0 send: never answered", 40_000, "never answered"),
    ]


def test_counters_tell_lags_and_isrs_where_they_change(run: TracedRun) -> None:
    counters = [
        (each["ts"], each["args"])
        for each in events_of(trace_of(run), "C")
        if each["name"] == "t-0 behind the leader" and each["pid"] == pid_of(1)
    ]
    assert counters[0] == (0, {"log end": 2, "high watermark": 5})
    isr = [
        (each["ts"] // 1_000_000, each["args"]["members"])
        for each in events_of(trace_of(run), "C")
        if each["name"] == "t-0 ISR"
    ]
    assert isr == [(0, 2), (2, 0), (3, 1), (5, 2)]


def test_too_many_operations_are_told_by_their_rates(
    run: TracedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perfetto, "MOST_OPERATIONS", 2)
    trace = trace_of(run)
    assert events_of(trace, "b") == []
    assert "the clients' 3 operations are shown by their rates alone" in trace.decode()


def test_without_a_clock_events_of_nodes_are_left_out_and_a_note_says_so(run: TracedRun) -> None:
    trace = trace_of(replace(run, start_wall_ns=None, violation=None))
    assert "events" not in rows(trace).values()
    assert "without clock.json" in trace.decode()


def test_a_run_that_nobody_looked_at_has_a_trace(run: TracedRun) -> None:
    nothing = replace(run.evidence, looks=(), traces=(), histories={})
    assert events_of(trace_of(replace(run, evidence=nothing, faults=(), gaps=())))


def test_messages_have_both_sides() -> None:
    found = messages_of(TRACES)
    assert [(each.request, each.sender, each.receiver, each.sent_ns // MS) for each in found] == [
        ("LeaderAndIsr", 1000, 1, 2_100),
        ("LeaderAndIsr", 1000, 1, 2_200),
        ("AlterPartition", 1, 1000, 3_000),
        ("Fetch", 0, 1, 3_500),
    ]
    assert [each.handled_ns and each.handled_ns // MS for each in found] == (
        [2_110, None, 3_010, None]
    )
    assert [each.answered_ns and each.answered_ns // MS for each in found] == (
        [2_120, None, 3_020, 3_510]
    )
    assert found[0].partitions == (AT,)
    assert [each.is_refused for each in found] == [False, False, False, True]


@pytest.mark.parametrize("bad", [[], {}, "x", None, 2.5])
def test_a_trace_with_anything_in_its_details_makes_no_error(bad: object) -> None:
    damaged = [replace(each, detail=dict.fromkeys(each.detail, bad)) for each in TRACES]
    assert messages_of(damaged) == []


def test_lanes_that_are_free_are_taken_again() -> None:
    assert lanes([(0, 10), (2, 5), (5, 6), (5, 9), (10, 11), (10, 10), (10, 12)]) == (
        [0, 1, 1, 2, 0, 1, 2]
    )


def test_looks_without_answers_have_states_alone(run: TracedRun) -> None:
    looks = (Look(0, {0: None}), Look(S, {0: None}))
    trace = trace_of(replace(run, evidence=replace(run.evidence, looks=looks)))
    assert spans_on(trace, pid_of(0), "state") == [("does not answer", 0, 1_000_000)]
