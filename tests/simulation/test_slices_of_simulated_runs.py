"""A run that is judged in two parts shows what it shows as a whole: no more and no less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from highwater_chaos.plan import decode_plan
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.invariants.committed_before import check_committed_before
from highwater_checker.invariants.compactions import check_compactions
from highwater_checker.invariants.coordinators import check_coordinators
from highwater_checker.invariants.leader_uniqueness import check_leader_uniqueness
from highwater_checker.invariants.truncations import check_truncations
from highwater_checker.slices import kept_events
from highwater_core.events import TraceEvent
from highwater_simulator.runner import run_plan
from highwater_simulator.search import bug_or_none

CHECKS: Sequence[Callable[[Sequence[TraceEvent]], CheckResult]] = (
    check_committed_before,
    check_compactions,
    check_coordinators,
    check_leader_uniqueness,
    check_truncations,
)
SCENARIOS = Path(__file__).parents[1] / "scenarios"
PARTS = 12


def findings(events: Sequence[TraceEvent]) -> set[Finding]:
    return {finding for check in CHECKS for finding in check(events).findings}


@pytest.mark.parametrize(
    "scenario", ["a_load_that_ends_after_the_lead", "an_election_outside_the_isr"]
)
def test_a_run_cut_anywhere_shows_what_it_shows_as_a_whole(scenario: str) -> None:
    path = SCENARIOS / f"{scenario}.json"
    plan = decode_plan(path.read_bytes(), path)
    with bug_or_none(plan.planted):
        events = run_plan(plan).trace.events()
    topics = {event.topic for event in events if event.topic}
    whole = findings(events)
    assert whole
    for part in range(1, PARTS):
        cut = len(events) * part // PARTS
        before, after = events[:cut], events[cut:]
        found = findings([*kept_events(before, topics), *after])
        assert found <= whole
        assert whole <= found | findings(before)
