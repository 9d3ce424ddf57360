"""A failover's phases: detection, election, the first acknowledgement, a whole ISR."""

from __future__ import annotations

import pytest

from highwater.report.failover_phases import failover_phases
from highwater.report.faults_in_run import FaultSpan
from highwater_chaos import faults as f
from highwater_checker.history import Acknowledged
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition

MS = 1_000_000
START_WALL_NS = 10**18
LED, DECIDED, ISR = EventKind.BECAME_LEADER, EventKind.LEADERSHIP_DECIDED, EventKind.ISR_CHANGED


def event(at_ms: int, node: int, kind: EventKind, epoch: int, *isr: int) -> TraceEvent:
    at_ns, detail = START_WALL_NS + at_ms * MS, {"isr": [*isr]}
    return TraceEvent(
        at_ns, node, 1, at_ms, kind, "t", partition=0, leader_epoch=epoch, detail=detail
    )


def acknowledged(at_ms: int, partition: int = 0) -> Acknowledged:
    return Acknowledged("t", partition, 0, "v", 0, at_ms * MS)


TRACES = [
    event(0, 0, LED, 0, 0, 1, 2),
    event(3_000, 1000, DECIDED, 1),
    event(3_020, 1, LED, 1, 1, 2),
    event(5_000, 1, ISR, 1, 0, 1, 2),
    event(9_000, 2, LED, 2, 2),
]
ACKS = [acknowledged(100), acknowledged(3_050, partition=1), acknowledged(3_070)]
KILL = FaultSpan(f.Kill("broker-0"), "kill broker-0", 0, "dead", 1_000 * MS, None)


def test_a_failover_is_split_into_its_phases() -> None:
    first, second = failover_phases(TRACES, ACKS, [KILL], START_WALL_NS, None)
    assert (first.at, first.leader_epoch, first.leader) == (TopicPartition("t", 0), 1, 1)
    assert first.deed == "kill broker-0 (broker-0)"
    assert first.elected_s == pytest.approx(3.02)
    times = first.detect_ms, first.elect_ms, first.first_ack_ms, first.isr_whole_ms
    assert times == (2_000, 20, 50, 1_980)
    times = second.detect_ms, second.elect_ms, second.first_ack_ms, second.isr_whole_ms
    assert times == (None, None, None, None), "no controller decided, and nothing came of it"


def test_what_happens_after_the_next_leader_is_not_the_first_ones() -> None:
    later = [acknowledged(9_500)]
    first, second = failover_phases(TRACES, later, [KILL], START_WALL_NS, None)
    assert (first.first_ack_ms, second.first_ack_ms) == (None, 500)


def test_a_fault_after_the_decision_was_not_detected() -> None:
    late = FaultSpan(f.Kill("broker-2"), "kill broker-2", 2, "", 3_010 * MS, None)
    first, _ = failover_phases(TRACES, ACKS, [KILL, late], START_WALL_NS, None)
    assert (first.deed, first.detect_ms) == ("kill broker-2 (broker-2)", None)


def test_leaders_after_the_last_look_are_no_failovers() -> None:
    (only,) = failover_phases(TRACES, ACKS, [], START_WALL_NS, 4_000 * MS)
    assert (only.leader_epoch, only.deed, only.detect_ms) == (1, "", None)


def test_without_the_runs_start_nothing_has_a_time() -> None:
    assert failover_phases(TRACES, ACKS, [KILL], None, None) == []


def test_a_damaged_isr_is_left_out() -> None:
    odd = event(3_030, 1, ISR, 1)
    odd.detail["isr"] = "0, 1, 2, 3, 4"
    first, _ = failover_phases([*TRACES, odd], ACKS, [KILL], START_WALL_NS, None)
    assert first.isr_whole_ms == 1_980
