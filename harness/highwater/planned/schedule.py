"""A plan's steps on a real clock: due by time or by what is seen, done in threads, taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from highwater.observation import Look
from highwater.planned.conditions import Waiting, find_node
from highwater.planned.container_faults import NotDone, Revert
from highwater_chaos import faults as f
from highwater_chaos.plan import Step
from highwater_chaos.words import say_step
from highwater_core.events import TraceEvent

POLL_S = 0.01

Apply = Callable[[f.Fault, int], Revert]


@dataclass(slots=True)
class StepDone:
    """What became of a step.

    Units: all by the plan's time. due_ms: its time, or that at which its condition was seen, plus
    then_after_ms; None while it never was. drift_ms: how much later it was begun. done_ms: when
    it was proven.
    """

    step: Step
    due_ms: int | None = None
    begun_ms: int | None = None
    done_ms: int | None = None
    node: int | None = None
    missed: str = "its condition was not seen"

    @property
    def has_fired(self) -> bool:
        return not self.missed

    @property
    def drift_ms(self) -> int | None:
        if self.begun_ms is None or self.due_ms is None:
            return None
        return self.begun_ms - self.due_ms

    def __str__(self) -> str:
        if self.missed:
            return f"missed: {self.missed}"
        return (
            f"node {self.node} at {self.begun_ms} ms, {self.drift_ms} ms late, "
            f"proven at {self.done_ms} ms"
        )


class Schedule:
    """Carries steps out; made when the plan's time begins.

    look and news tell what is seen: the newest look, and the events since the last call.
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
    ) -> None:
        self.steps = [StepDone(step) for step in steps]
        self._names = names
        self._apply = apply
        self._look = look
        self._news = news
        self._said = said
        self._clock = clock
        self._pause = pause
        self._begin_s = clock()
        self._to_come = list(self.steps)
        self._waiting: list[tuple[StepDone, Waiting]] = []
        self._due: list[StepDone] = []
        self._to_revert: list[tuple[int, Revert]] = []
        self._running: list[Future[None]] = []

    def now_ms(self) -> int:
        return round((self._clock() - self._begin_s) * 1000)

    def run_until(self, end_ms: int) -> None:
        """Do what is due until the plan's time is end_ms; return once nothing is under way.

        Raises:
            APIError: a fault could not be taken back.
        """
        with ThreadPoolExecutor(max(1, len(self.steps)), thread_name_prefix="step") as pool:
            while self.now_ms() < end_ms:
                self._look_around()
                self._do_what_is_due(pool)
                self._pause(POLL_S)
            for running in self._running:
                running.result()

    def _look_around(self) -> None:
        now_ms = self.now_ms()
        news = self._news()
        for done in tuple(self._to_come):
            if done.step.at_ms > now_ms:
                continue
            self._to_come.remove(done)
            if done.step.when is None:
                self._let_be_due(done, done.step.at_ms)
            else:
                self._waiting.append((done, Waiting(done.step.when)))
        for each in tuple(self._waiting):
            done, waiting = each
            if waiting.is_met(self._look(), news, self._names):
                self._waiting.remove(each)
                self._let_be_due(done, now_ms + waiting.when.then_after_ms)

    def _let_be_due(self, done: StepDone, due_ms: int) -> None:
        done.due_ms = due_ms
        done.missed = "the faults ended before it"
        self._due.append(done)

    def _do_what_is_due(self, pool: ThreadPoolExecutor) -> None:
        now_ms = self.now_ms()
        for done in tuple(self._due):
            if done.due_ms is not None and done.due_ms <= now_ms:
                self._due.remove(done)
                done.node = find_node(self._look(), self._names, getattr(done.step.do, "node", ""))
                self._running.append(pool.submit(self._carry_out, done))
        for each in tuple(self._to_revert):
            if each[0] <= now_ms:
                self._to_revert.remove(each)
                self._running.append(pool.submit(each[1]))

    def _carry_out(self, done: StepDone) -> None:
        done.begun_ms = self.now_ms()
        if done.node is None:
            done.missed = "nobody is that now"
            self._said(f"missed: {say_step(done.step)}: {done.missed}")
            return
        try:
            revert = self._apply(done.step.do, done.node)
        except NotDone as why:
            done.missed = str(why)
            self._said(f"missed: {say_step(done.step)}: {why}")
            return
        done.done_ms = self.now_ms()
        done.missed = ""
        self._said(f"{say_step(done.step)} (node {done.node}, {done.drift_ms} ms late)")
        for_ms = getattr(done.step.do, "for_ms", None)
        if for_ms is not None:
            start_ms = done.done_ms if isinstance(done.step.do, f.Terminate) else done.begun_ms
            self._to_revert.append((start_ms + for_ms, revert))
