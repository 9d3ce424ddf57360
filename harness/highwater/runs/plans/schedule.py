"""A plan's steps on a real clock: due at a time or on a condition, done in threads, undone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec

from highwater.faults.done import Done, Find, NotDone
from highwater.runs.plans.conditions import Waiting, find_node
from highwater_chaos import faults as f
from highwater_chaos.plan import Step
from highwater_chaos.words import say_fault, say_step
from highwater_checker.looks import Look
from highwater_checker.run_folder.documents import StepOutcome
from highwater_core.events import TraceEvent

POLL_S = 0.01
MOST_LATE_MS = 30_000
"""By how much steps, and a plan's end, are put off at most."""
IN_TIME_MS = 250
"""A step that acts so much late puts nothing off."""
_SAID_CHARACTERS = 120
"""Printed characters of the reason for a missed step; StepDone has the whole of it."""

Apply = Callable[[f.Fault, Find], Done]


@dataclass(slots=True)
class StepDone:
    """The outcome of a step.

    Units: all in the plan's time.
    due_ms: its time, or the time at which its condition was seen plus then_after_ms; None before.
    begun_ms: when the work on it began; before it was due if that takes long.
    acted_ms: from when on it acted.
    done_ms: when it was proven.
    over_ms: when the work on it ended, proven or not.
    drift_ms: how much later than due it acted.
    """

    step: Step
    due_ms: int | None = None
    begun_ms: int | None = None
    acted_ms: int | None = None
    done_ms: int | None = None
    node: int | None = None
    proof: str = ""
    missed: str = "its condition was not seen"
    acting: Done | None = None
    over_ms: int | None = None

    @property
    def whom(self) -> str:
        return "" if self.node is None else f"node {self.node}, "

    @property
    def deed(self) -> str:
        """The fault and its target."""
        on = "" if self.node is None else f" (node {self.node})"
        return f"{say_fault(self.step.do)}{on}"

    @property
    def has_fired(self) -> bool:
        """Whether it was done and acted: a fail-point that was armed and never hit did not act."""
        return not self.missed and (self.acting is None or self.acting.has_acted())

    @property
    def later(self) -> str:
        """Its result after the proof, as a fail-point's hit; "" for faults that act at once."""
        return "" if self.acting is None else self.acting.later()

    @property
    def drift_ms(self) -> int | None:
        if self.acted_ms is None or self.due_ms is None:
            return None
        return self.acted_ms - self.due_ms

    def outcome(self) -> StepOutcome:
        """Return the step's outcome so far, as the run's folder has it."""
        return StepOutcome(
            step=msgspec.Raw(msgspec.json.encode(self.step)),
            fired=self.has_fired,
            node=self.node,
            due_ms=self.due_ms,
            begun_ms=self.begun_ms,
            acted_ms=self.acted_ms,
            done_ms=self.done_ms,
            drift_ms=self.drift_ms,
            proof=self.proof,
            later=self.later,
            missed=self.missed,
        )

    def __str__(self) -> str:
        if self.missed:
            return f"missed: {self.missed}"
        return (
            f"{self.whom}at {self.acted_ms} ms, {say_drift(self.drift_ms)}, "
            f"proven at {self.done_ms} ms: {self.proof}{'; ' if self.later else ''}{self.later}"
        )


def say_drift(drift_ms: int | None) -> str:
    """Return "12 ms late", "12 ms early"."""
    return f"{abs(drift_ms or 0)} ms {'early' if (drift_ms or 0) < 0 else 'late'}"


def out_of_order(steps: Sequence[StepDone]) -> str:
    """Return two steps that acted in another order than that of their times, in words; else "".

    Work on a fault of a link takes long on a busy machine. Steps with a condition have no time.
    """
    timed = [each for each in steps if each.step.when is None and each.acted_ms is not None]
    for one, other in itertools.permutations(timed, 2):
        if one.step.at_ms < other.step.at_ms and (one.acted_ms or 0) > (other.acted_ms or 0):
            return f"{one.deed} at {one.acted_ms} ms, after {other.deed} at {other.acted_ms} ms"
    return ""


def held_ms(
    due_ms: int,
    steps: Sequence[StepDone],
    now_ms: int,
    met_ms: int | None = None,
    takes_long: Callable[[f.Fault], bool] = lambda fault: False,
) -> int:
    """Return by how much what is due at due_ms is put off, since a step due earlier acts late.

    So steps keep their order, and at least their distances: work on a fault of a link takes seconds
    on a busy machine, and what is to come after it would come before. Other faults act as soon as
    the work on them begins, however long it takes: a node may be killed while another one stops.

    met_ms: when the condition of a step was met. Then steps count that were due since; else those
    that have a time.
    takes_long: whether a fault acts some time after the work on it began.
    """
    late_ms = IN_TIME_MS
    for each in steps:
        if met_ms is None:
            its_ms = each.step.at_ms if each.step.when is None else None
        else:
            its_ms = each.due_ms
        if its_ms is None or each.begun_ms is None or not (met_ms or 0) <= its_ms < due_ms:
            continue
        acted_ms = each.acted_ms
        if acted_ms is None and takes_long(each.step.do):
            acted_ms = now_ms if each.over_ms is None else each.over_ms
        late_ms = max(late_ms, (each.begun_ms if acted_ms is None else acted_ms) - its_ms)
    return min(MOST_LATE_MS, late_ms) if late_ms > IN_TIME_MS else 0


class Schedule:
    """Carries steps out; made when the plan's time begins.

    look: returns the newest look.
    news: returns the trace events since the last call.
    lead_ms: returns how long before its time the work on a fault must begin.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        names: Mapping[str, int],
        apply: Apply,
        look: Callable[[], Look],
        news: Callable[[], tuple[TraceEvent, ...]],
        said: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        lead_ms: Callable[[f.Fault], int] = lambda fault: 0,
    ) -> None:
        self.steps = [StepDone(step) for step in steps]
        self._names = names
        self._apply = apply
        self._look = look
        self._news = news
        self._said = said
        self._clock = clock
        self._pause = pause
        self._lead_ms = lead_ms
        self._begin_s = clock()
        self._to_come = list(self.steps)
        self._waiting: list[tuple[StepDone, Waiting]] = []
        self._due: list[StepDone] = []
        self._to_revert: list[tuple[int, Callable[[], str]]] = []
        self._running: list[Future[Any]] = []

    def now_ms(self) -> int:
        return round((self._clock() - self._begin_s) * 1000)

    def run_until(self, end_ms: int) -> None:
        """Do the steps that are due until end_ms in the plan's time; return once all are over.

        While steps are not begun yet, the end is put off by as long as an earlier one took: on a
        busy machine a kill may take seconds, and what waits for the node's return comes late. It is
        also put off as steps are (held_ms).
        """
        with ThreadPoolExecutor(max(1, len(self.steps)), thread_name_prefix="step") as pool:
            while self.now_ms() < end_ms + self._late_ms(end_ms):
                self._look_around()
                self._begin_due_steps(pool)
                self._pause(POLL_S)
            for running in self._running:
                running.result()

    def _late_ms(self, end_ms: int) -> int:
        """Return by how much the end is put off.

        As a step of that time would be; or, while steps are not begun yet, by as long as the
        slowest one took, or takes.
        """
        now_ms = self.now_ms()
        held = self._held_ms(end_ms, now_ms)
        if not (self._to_come or self._waiting or self._due):
            return held
        took = [
            (now_ms if each.over_ms is None else each.over_ms) - each.begun_ms
            for each in self.steps
            if each.begun_ms is not None
        ]
        return max(held, min(MOST_LATE_MS, max(took, default=0)))

    def _look_around(self) -> None:
        now_ms = self.now_ms()
        news = self._news()
        for done in tuple(self._to_come):
            at_ms = done.step.at_ms + self._held_ms(done.step.at_ms, now_ms)
            when = done.step.when
            if at_ms - (self._lead_ms(done.step.do) if when is None else 0) > now_ms:
                continue
            self._to_come.remove(done)
            if when is None:
                self._let_be_due(done, at_ms)
            else:
                self._waiting.append((done, Waiting(when)))
        for each in tuple(self._waiting):
            done, waiting = each
            if waiting.is_met(self._look(), news, self._names):
                self._waiting.remove(each)
                self._let_be_due(done, now_ms + waiting.when.then_after_ms)

    def _let_be_due(self, done: StepDone, due_ms: int) -> None:
        done.due_ms = due_ms
        done.missed = "the faults ended before it"
        self._due.append(done)

    def _begin_due_steps(self, pool: ThreadPoolExecutor) -> None:
        now_ms = self.now_ms()
        for done in tuple(self._due):
            due_ms = self._due_at(done, now_ms)
            if due_ms - self._lead_ms(done.step.do) <= now_ms:
                done.due_ms = due_ms
                self._due.remove(done)
                self._running.append(pool.submit(self._carry_out, done))
        for each in tuple(self._to_revert):
            if each[0] <= now_ms:
                self._to_revert.remove(each)
                self._running.append(pool.submit(each[1]))

    def _due_at(self, done: StepDone, now_ms: int) -> int:
        """Return when the step is due; one whose condition was met may be put off since then."""
        due_ms, when = done.due_ms or 0, done.step.when
        if when is None:
            return due_ms
        return due_ms + self._held_ms(due_ms, now_ms, due_ms - when.then_after_ms)

    def _held_ms(self, due_ms: int, now_ms: int, met_ms: int | None = None) -> int:
        return held_ms(due_ms, self.steps, now_ms, met_ms, lambda fault: self._lead_ms(fault) > 0)

    def _carry_out(self, done: StepDone) -> None:
        done.begun_ms = self.now_ms()
        look = self._look()
        try:
            acting = self._apply(done.step.do, lambda words: find_node(look, self._names, words))
        except NotDone as why:
            done.over_ms, done.missed = self.now_ms(), str(why)
            self._said(f"missed: {say_step(done.step)}: {done.missed[:_SAID_CHARACTERS]}")
            return
        done.done_ms = done.over_ms = self.now_ms()
        done.acting = acting
        done.acted_ms = done.begun_ms
        if acting.acted_ns is not None:
            done.acted_ms = round((acting.acted_ns / 1e9 - self._begin_s) * 1000)
        done.node, done.proof, done.missed = acting.node, acting.proof, ""
        self._said(f"{done.deed}, {say_drift(done.drift_ms)}")
        for_ms = getattr(done.step.do, "for_ms", None)
        if for_ms is not None:
            start_ms = done.done_ms if isinstance(done.step.do, f.Terminate) else done.acted_ms
            self._to_revert.append((start_ms + for_ms, acting.revert))
