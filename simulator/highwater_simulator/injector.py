"""Carries out a plan's steps in a world: when they are due, on whom, and takes them back.

A step acts between events, never in the middle of a node's. What cannot be done at that moment
(to kill a node that does not run) is noted as missed, not done later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Step, When
from highwater_core.events import EventKind, TraceEvent
from highwater_core.messages import FailPointAction
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.liveness import Core
from highwater_simulator.observed import find_node, holds
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.waits import Timer
from highwater_simulator.world import World
from highwater_simulator.world_faults import WorldFaults

STOP_POLL_MS = 20

Revert = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Waiting:
    """A step that waits for its condition."""

    step: Step
    when: When
    seen: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _ArmedPoint:
    """A fail-point that stays armed through its node's restarts."""

    point: str
    action: FailPointAction
    count: int
    delay_ms: int
    restart_after_ms: int | None


@dataclass(slots=True)
class Outcome:
    """What became of the steps: fired, missed (nobody to act on), not reached (no such state)."""

    fired: list[Step] = field(default_factory=list)
    missed: list[Step] = field(default_factory=list)
    not_reached: list[Step] = field(default_factory=list)


class FaultInjector:
    """One run's faults."""

    def __init__(self, world: World, oracle: Oracle, steps: Sequence[Step]) -> None:
        self._world = world
        self._faults = WorldFaults(world, oracle)
        self._steps = tuple(steps)
        self._timers: list[Timer] = []
        self._waiting: list[_Waiting] = []
        self._points: dict[int, list[_ArmedPoint]] = {}
        self._open = list(self._steps)
        """The steps that were neither done nor missed so far."""
        self.asked_to_stop: dict[int, None] = {}
        self.outcome = Outcome()
        world.on_start = self._node_starts

    # ------------------------------------------------------------ when

    def begin(self) -> None:
        """Let the plan's time begin now."""
        for step in self._steps:
            self._later(step.at_ms, functools.partial(self._due, step))

    def _later(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        timer = self._world.kernel.call_later(delay_ms * NS_PER_MS, action)
        self._timers.append(timer)
        return timer

    def _due(self, step: Step) -> None:
        if step.when is None:
            self._apply(step)
            return
        waiting = _Waiting(step, step.when)
        self._waiting.append(waiting)
        if step.when.state is not Observed.EVENT and holds(self._world, step.when):
            self._met(waiting)

    def event_traced(self, event: TraceEvent) -> None:
        """Hear of a node's event: conditions may hold now, a fail-point may have ended a node."""
        if event.kind is EventKind.FAIL_POINT_HIT:
            self._point_hit(event)
        if not self._waiting:
            return
        for waiting in tuple(self._waiting):
            if waiting.when.state is Observed.EVENT:
                if waiting.when.event == event.kind and self._is_of(waiting.when, event):
                    waiting.seen += 1
                    if waiting.seen >= waiting.when.count:
                        self._met(waiting)
            elif self._is_of(waiting.when, event) and holds(self._world, waiting.when):
                self._met(waiting)

    def _is_of(self, when: When, event: TraceEvent) -> bool:
        if when.partition and when.partition != f"{event.topic}-{event.partition}":
            return False
        return not when.node or find_node(self._world, when.node) == event.node

    def _met(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        self._later(waiting.when.then_after_ms, functools.partial(self._apply, waiting.step))

    # ------------------------------------------------------------ what

    def _apply(self, step: Step) -> None:
        fault = step.do
        words = getattr(fault, "node", None)
        node = None if words is None else find_node(self._world, words)
        if words is not None and node is None:
            self._missed(step)
            return
        revert = self._process_fault(fault, node) if node is not None else None
        if revert is None:
            revert = self._faults.apply(fault, node)
        if revert is None:
            self._missed(step)
            return
        self._close(step)
        self.outcome.fired.append(step)
        self._world.trace.note("plan", step.describe(), **({} if node is None else {"on": node}))
        for_ms = getattr(fault, "for_ms", None)
        if for_ms is not None:
            self._later(for_ms, revert)

    def _missed(self, step: Step) -> None:
        self._close(step)
        self.outcome.missed.append(step)
        self._world.trace.note("plan", f"missed: {step.describe()}")

    def _close(self, step: Step) -> None:
        self._open.remove(step)

    def _process_fault(self, fault: f.Fault, node: int) -> Revert | None:
        """Do what ends or arms a node; None when it is not of these, or cannot be done now."""
        match fault:
            case f.Kill() | f.PowerLoss() | f.FlipBit():
                return self._end(fault, node)
            case f.Terminate():
                return self._terminate(node)
            case f.CrashAt(point=point, restart_after_ms=after_ms):
                armed = _ArmedPoint(point, FailPointAction.EXIT, 1, 0, after_ms)
                return self._arm(node, armed)
            case f.DelayAt(point=point, delay_ms=delay_ms, count=count):
                return self._arm(
                    node, _ArmedPoint(point, FailPointAction.DELAY, count, delay_ms, None)
                )
            case _:
                return None

    def _end(self, fault: f.Kill | f.PowerLoss | f.FlipBit, node: int) -> Revert | None:
        if not self._world.handle(node).is_running:
            return None
        self._faults.end(fault, node)
        return functools.partial(self._start, node)

    def _terminate(self, node: int) -> Revert | None:
        if not self._world.handle(node).is_running:
            return None
        self._world.request_stop(node)
        self.asked_to_stop[node] = None
        return functools.partial(self._start_once_stopped, node)

    def _start_once_stopped(self, node: int) -> None:
        if self._world.handle(node).is_running and node in self.asked_to_stop:
            self._later(STOP_POLL_MS, functools.partial(self._start_once_stopped, node))
        else:
            self._start(node)

    def _start(self, node: int) -> None:
        if not self._world.handle(node).is_running:
            self._world.start(node)

    # ------------------------------------------------------------ fail-points

    def _arm(self, node: int, armed: _ArmedPoint) -> Revert:
        self._points.setdefault(node, []).append(armed)
        self._arm_now(node, armed)
        return functools.partial(self._disarm, node, armed)

    def _arm_now(self, node: int, armed: _ArmedPoint) -> None:
        points = self._world.fail_points(node)
        if points is not None:
            points.arm(armed.point, armed.action, armed.count, armed.delay_ms)

    def _disarm(self, node: int, armed: _ArmedPoint) -> None:
        left = [each for each in self._points.get(node, []) if each is not armed]
        self._points[node] = left
        others = [each for each in left if each.point == armed.point]
        points = self._world.fail_points(node)
        if others:  # one fault's end is not the end of another at the same point
            self._arm_now(node, others[-1])
        elif points is not None:
            points.arm(armed.point, FailPointAction.OFF, 0, 0)

    def _node_starts(self, node: int) -> None:
        self.asked_to_stop.pop(node, None)
        for armed in self._points.get(node, []):
            self._arm_now(node, armed)

    def _point_hit(self, event: TraceEvent) -> None:
        for armed in tuple(self._points.get(event.node, [])):
            hit = armed.point, armed.action.value
            if hit == (event.detail["name"], event.detail["action"]):
                self._points[event.node].remove(armed)
                if armed.restart_after_ms is not None:
                    self._later(armed.restart_after_ms, functools.partial(self._start, event.node))

    # ------------------------------------------------------------ phase two

    def heal(self, core: Core) -> None:
        """End all faults: the core is whole for good, whoever is outside it is cut off for good."""
        for timer in self._timers:
            timer.cancel()
        self.outcome.not_reached.extend(self._open)
        self._waiting.clear()
        self._points.clear()
        self._faults.heal_all()
        world = self._world
        for node in (*world.brokers, *world.controllers):
            if node in core.brokers or node in core.controllers:
                self._make_whole(node)
            else:
                self._faults.isolate(node)

    def _make_whole(self, node: int) -> None:
        world = self._world
        points = world.fail_points(node)
        if points is not None:
            points.disarm_all()
        self._faults.resume(node)
        if node in self.asked_to_stop and world.handle(node).is_running:
            self._start_once_stopped(node)
        else:
            self._start(node)
