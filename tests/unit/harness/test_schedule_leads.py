"""Slow faults are begun before they are due, and report when they acted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from highwater.faults.done import Done, Find
from highwater.runs.plans.schedule import (
    IN_TIME_MS,
    MOST_LATE_MS,
    POLL_S,
    Schedule,
    StepDone,
    held_ms,
)
from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Step, When
from highwater_checker.looks import Look
from highwater_core.events import EventKind, TraceEvent

LEAD_MS = 600
POLL_MS = round(POLL_S * 1000)
CUT = f.Cut("broker-0", "broker-1", "replication", for_ms=2_000)


class World:
    """Time that passes with each pause; a fault acts acts_after_ms after it was begun."""

    def __init__(self, acts_after_ms: int | None = LEAD_MS) -> None:
        self.now_ns = 5_000_000_000
        self._begin_ns = self.now_ns
        self._acts_after_ms = acts_after_ms
        self.begun_ms: list[int] = []
        self.reverted_ms: list[int] = []
        self.schedule: Schedule

    @property
    def now_ms(self) -> int:
        return round((self.now_ns - self._begin_ns) / 1e6)

    def pause(self, pause_s: float) -> None:
        for future in self.schedule._running:  # work in threads takes no time here
            future.result()
        self.now_ns += round(pause_s * 1e9)

    def apply(self, fault: f.Fault, find: Find) -> Done:
        self.begun_ms.append(self.now_ms)
        acts_ms = self._acts_after_ms if isinstance(fault, f.Cut) else None
        acted_ns = None if acts_ms is None else self.now_ns + acts_ms * 1_000_000
        return Done(None, "seen", self.revert, acted_ns)

    def revert(self) -> str:
        self.reverted_ms.append(self.now_ms)
        return "gone"

    def news(self) -> tuple[TraceEvent, ...]:
        return (TraceEvent(0, 1, 1, 0, EventKind.ISR_CHANGED),) if self.now_ms == 1_500 else ()

    def run(self, *steps: Step, until_ms: int = 5_000) -> Schedule:
        self.schedule = Schedule(
            steps, {}, self.apply, lambda: Look(0, {}), self.news,
            clock=lambda: self.now_ns / 1e9, pause=self.pause,
            lead_ms=lambda fault: LEAD_MS if isinstance(fault, f.Cut) else 0,
        )  # fmt: skip
        self.schedule.run_until(until_ms)
        return self.schedule


def test_a_timed_fault_is_begun_by_its_lead_earlier_and_acts_on_time() -> None:
    world = World()
    (step,) = world.run(Step(1_000, CUT)).steps
    assert world.begun_ms == [400]
    assert (step.due_ms, step.begun_ms, step.acted_ms, step.drift_ms) == (1_000, 400, 1_000, 0)


def test_its_length_counts_from_when_it_acted() -> None:
    world = World(acts_after_ms=LEAD_MS + 300)
    (step,) = world.run(Step(1_000, CUT)).steps
    assert (step.acted_ms, step.drift_ms) == (1_300, 300)
    assert world.reverted_ms == [3_300]


def test_what_comes_after_a_late_fault_keeps_its_distance_and_so_does_the_end() -> None:
    """Work on links takes seconds on a busy machine, and the rest of the plan waits for it."""
    world = World(acts_after_ms=LEAD_MS + 2_000)
    cut, pause, again = world.run(
        Step(1_000, CUT), Step(1_500, f.Pause("broker-0")), Step(1_000, f.Pause("broker-1"))
    ).steps
    assert (cut.acted_ms, cut.drift_ms) == (3_000, 2_000)
    assert (pause.due_ms, pause.begun_ms) == (3_500, 3_500)
    assert (again.due_ms, again.begun_ms) == (1_000, 1_000), "its time is no later than the cut's"
    assert world.now_ms == 7_000


def test_of_two_steps_of_one_condition_the_later_keeps_its_distance_from_a_late_one() -> None:
    when = When(Observed.EVENT, event="isr_changed")
    world = World(acts_after_ms=LEAD_MS + 3_000)
    cut, kill = world.run(
        Step(1_000, CUT, when),
        Step(1_000, f.Kill("broker-0"), replace(when, then_after_ms=2_500)),
        until_ms=9_000,
    ).steps
    assert (cut.due_ms, cut.acted_ms) == (1_500, 5_100)
    assert (kill.due_ms, kill.begun_ms) == (7_600, 7_600)


def test_a_fault_that_is_a_little_late_puts_nothing_off() -> None:
    world = World(acts_after_ms=LEAD_MS + IN_TIME_MS)
    _, pause = world.run(Step(1_000, CUT), Step(1_500, f.Pause("broker-0"))).steps
    assert (pause.due_ms, world.now_ms) == (1_500, 5_000)


@pytest.mark.parametrize("late_ms", [IN_TIME_MS + 1, MOST_LATE_MS, MOST_LATE_MS + 1])
def test_a_step_waits_for_a_link_that_is_not_cut_yet_for_a_bounded_time(late_ms: int) -> None:
    """One that was begun by its lead earlier, and is not late yet, puts nothing off."""

    def held(step: StepDone, due_ms: int, now_ms: int) -> int:
        return held_ms(due_ms, [step], now_ms, takes_long=lambda fault: fault is CUT)

    begun = StepDone(Step(1_000, CUT), begun_ms=400)
    assert held(begun, 2_000, 900) == 0
    assert held(begun, 2_000, 1_000 + late_ms) == min(late_ms, MOST_LATE_MS)
    assert held(begun, 1_000, 1_000 + late_ms) == 0
    missed = StepDone(Step(1_000, CUT), begun_ms=400, over_ms=1_000 + late_ms, missed="why")
    assert held(missed, 2_000, 99_999) == min(late_ms, MOST_LATE_MS), "what waited stays apart"


def test_a_node_may_be_killed_while_another_one_takes_its_time_to_stop() -> None:
    stopping = StepDone(Step(500, f.Terminate("broker-0")), begun_ms=510)
    assert held_ms(1_000, [stopping], 3_000) == 0
    late = StepDone(Step(500, f.Terminate("broker-0")), begun_ms=510 + IN_TIME_MS)
    assert held_ms(1_000, [late], 3_000) == 10 + IN_TIME_MS


def test_a_fault_that_acts_at_once_acted_when_it_was_begun() -> None:
    world = World(acts_after_ms=None)
    (step,) = world.run(Step(1_000, f.Pause("broker-0", 500))).steps
    assert (step.begun_ms, step.acted_ms) == (1_000, 1_000)
    assert world.reverted_ms == [1_500]


def test_a_fault_due_before_its_lead_is_late_and_says_so() -> None:
    (step,) = World().run(Step(100, CUT)).steps
    assert (step.begun_ms, step.acted_ms, step.drift_ms) == (0, 600, 500)
    assert "500 ms late" in str(step)


def test_a_condition_is_not_looked_for_before_its_time() -> None:
    world = World()
    when = When(Observed.EVENT, event="isr_changed", then_after_ms=1_000)
    (step,) = world.run(Step(1_490, CUT, when)).steps
    assert step.due_ms == 2_500
    assert world.begun_ms == [2_500 - LEAD_MS]
    early = World()
    (missed,) = early.run(Step(1_500 + POLL_MS, CUT, when)).steps
    assert not missed.has_fired
