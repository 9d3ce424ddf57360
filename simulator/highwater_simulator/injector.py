"""Carries out a plan's steps in a world: finds their moment and target, does and undoes them.

A step acts between events, never in the middle of a node's. A step that is impossible at its moment
(to kill a node that does not run) is noted as missed, and not done later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Step, When
from highwater_chaos.words import say_step
from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent
from highwater_core.messages import FailPointAction
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.failed_folders import failed_folders, stopped_for_want_of_folders
from highwater_simulator.liveness import Core
from highwater_simulator.observed import find_node, holds
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.waits import Timer
from highwater_simulator.world import World
from highwater_simulator.world_faults import ARMED, TELL, WorldFaults

STOP_POLL_MS = 20

Revert = Callable[[], None]
Acted = Callable[[], None]


def _stays() -> None:
    """Undo nothing: what an operator did stays."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A step that waits for its condition."""

    step: Step
    when: When
    seen: int = 0


@dataclass(slots=True, eq=False)
class _Attempt:
    """A step that was carried out at its time; it counts as done once it has acted."""

    step: Step
    at_ms: int
    has_acted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _ArmedPoint:
    """A fail-point that stays armed through its node's restarts."""

    point: str
    action: FailPointAction
    count: int
    delay_ms: int
    restart_after_ms: int | None
    acted: Acted


@dataclass(slots=True, eq=False)
class _CrashLoop:
    """A node that is killed every_ms after each start, `left` times more."""

    node: int
    every_ms: int
    left: int


class Clients(Protocol):
    """The injector's interface to a plan's clients; names are p0, c0, ... or any."""

    def kill(self, name: str) -> tuple[str, ...]:
        """Kill the running clients of that name, and return their names."""
        ...

    def start_again(self, names: Sequence[str] | None = None) -> None:
        """Start the next incarnation of stopped clients: of these names, or all."""
        ...


@dataclass(slots=True)
class Outcome:
    """The outcomes of the steps.

    An armed fail-point, or an armed loss of a reply, has fired when a node reached it.
    """

    fired: list[Step] = field(default_factory=list)
    """The steps that acted, in this order."""
    fired_at_ms: list[int] = field(default_factory=list)
    """When each of the fired steps was done or armed, in the plan's time."""
    missed: list[Step] = field(default_factory=list)
    """The steps without a target."""
    not_reached: list[Step] = field(default_factory=list)
    """The steps whose condition never held, or whose fail-point no node reached."""


class FaultInjector:
    """One run's faults."""

    def __init__(
        self, world: World, oracle: Oracle, steps: Sequence[Step], clients: Clients | None = None
    ) -> None:
        self._world = world
        self._clients = clients
        self._faults = WorldFaults(world, oracle)
        self._steps = tuple(steps)
        self._timers: list[Timer] = []
        self._waiting: list[_Waiting] = []
        self._points: dict[int, list[_ArmedPoint]] = {}
        self._begin_ns = 0
        self._open = list(self._steps)
        """The steps that have neither acted nor been missed so far."""
        self.asked_to_stop: dict[int, None] = {}
        self.outcome = Outcome()
        world.on_start = self._node_starts

    # ------------------------------------------------------------ when

    def begin(self) -> None:
        """Begin the plan's time now."""
        self._begin_ns = self._world.kernel.now_ns()
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
        """Take a node's event: it may meet a condition, or a fail-point may have ended the node."""
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
        attempt = _Attempt(step, (self._world.kernel.now_ns() - self._begin_ns) // NS_PER_MS)
        acted = functools.partial(self._acted, attempt)
        revert = self._do(fault, node, acted)
        if revert is None:
            self._missed(step)
            return
        if not isinstance(fault, TELL):
            acted()
        elif not attempt.has_acted and not isinstance(fault, ARMED):
            self._met_nothing(step)
        self._world.trace.note("plan", say_step(step), **({} if node is None else {"on": node}))
        for_ms = getattr(fault, "for_ms", None)
        if for_ms is not None:
            self._later(for_ms, revert)

    def _acted(self, attempt: _Attempt) -> None:
        if not attempt.has_acted:  # an armed fault may act several times
            attempt.has_acted = True
            self._open.remove(attempt.step)
            self.outcome.fired.append(attempt.step)
            self.outcome.fired_at_ms.append(attempt.at_ms)

    def _missed(self, step: Step) -> None:
        self._met_nothing(step)
        self._world.trace.note("plan", f"missed: {say_step(step)}")

    def _met_nothing(self, step: Step) -> None:
        self._open.remove(step)
        self.outcome.missed.append(step)

    def _do(self, fault: f.Fault, node: int | None, acted: Acted) -> Revert | None:
        """Do the fault, and return its undo; None when it is impossible now."""
        if isinstance(fault, f.KillClient):
            return self._kill_clients(fault.client)
        revert = self._process_fault(fault, node, acted) if node is not None else None
        return self._faults.apply(fault, node, acted) if revert is None else revert

    def _kill_clients(self, client: str) -> Revert | None:
        clients = self._clients
        killed = () if clients is None else clients.kill(client)
        if clients is None or not killed:
            return None
        return functools.partial(clients.start_again, killed)

    def _process_fault(self, fault: f.Fault, node: int, acted: Acted) -> Revert | None:
        """Do a fault that ends or arms a node; None for other faults, or when impossible now."""
        match fault:
            case f.Kill() | f.PowerLoss() | f.FlipBit():
                return self._end(fault, node, acted)
            case f.FailFolder():
                return self._fail_folder(fault, node)
            case f.CrashLoop():
                return self._crash_again_and_again(fault, node)
            case f.Terminate():
                return self._terminate(node)
            case f.Upgrade():
                return self._upgrade(node, fault.preset)
            case f.CrashAt(point=point, restart_after_ms=after_ms):
                armed = _ArmedPoint(point, FailPointAction.EXIT, 1, 0, after_ms, acted)
                return self._arm(node, armed)
            case f.DelayAt(point=point, delay_ms=delay_ms, count=count):
                return self._arm(
                    node, _ArmedPoint(point, FailPointAction.DELAY, count, delay_ms, None, acted)
                )
            case _:
                return None

    def _end(
        self, fault: f.Kill | f.PowerLoss | f.FlipBit, node: int, acted: Acted
    ) -> Revert | None:
        is_running = self._world.handle(node).is_running
        if not is_running and not isinstance(fault, f.PowerLoss):
            return None
        if self._faults.end(fault, node, is_running=is_running):
            acted()
        return functools.partial(self._start, node)

    def _fail_folder(self, fault: f.FailFolder, node: int) -> Revert | None:
        mend = self._faults.apply(fault, node)
        if mend is None:
            return None

        def mend_and_start_again() -> None:
            mend()
            if failed_folders(self._world, node):
                self._world.kill(node)
            self._start(node)

        return mend_and_start_again

    def start_again_on_sound_folders(self, core: Core) -> None:
        """Restart brokers whose failed log folders are repaired, as an operator would.

        A broker stopped by itself if all of its several log folders had failed.
        """
        for node in core.brokers:
            if failed_folders(self._world, node):
                self._world.kill(node)
                self._start(node)
            elif stopped_for_want_of_folders(self._world, node):
                self._start(node)

    def _crash_again_and_again(self, fault: f.CrashLoop, node: int) -> Revert | None:
        """Kill the node, and again after each start, until all kills are done or the fault ends.

        A start takes no time here, unlike on containers.
        """
        if not self._world.handle(node).is_running:
            return None
        loop = _CrashLoop(node, fault.every_ms, fault.times)
        self._crash(loop)
        return functools.partial(self._end_loop, loop)

    def _crash(self, loop: _CrashLoop) -> None:
        if not loop.left or not self._world.handle(loop.node).is_running:
            return  # the fault is over, or another fault stopped the node and starts it later
        loop.left -= 1
        self._faults.end(f.Kill(""), loop.node)
        self._start(loop.node)
        self._later(loop.every_ms, functools.partial(self._crash, loop))

    def _end_loop(self, loop: _CrashLoop) -> None:
        loop.left = 0

    def _terminate(self, node: int) -> Revert | None:
        if not self._world.handle(node).is_running:
            return None
        self._world.request_stop(node)
        self.asked_to_stop[node] = None
        return functools.partial(self._start_once_stopped, node)

    def _upgrade(self, node: int, preset: Preset | None) -> Revert | None:
        """Ask the node to stop, and start it with that preset once it has; None: with its own."""
        handle = self._world.handle(node)
        stopping = self._terminate(node)
        if stopping is None:
            return None
        handle.preset = preset or handle.preset
        stopping()
        return _stays

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
        if others:  # another fault at the same point goes on
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
                armed.acted()
                if armed.restart_after_ms is not None:
                    self._later(armed.restart_after_ms, functools.partial(self._start, event.node))

    # ------------------------------------------------------------ phase two

    def heal(self, core: Core) -> None:
        """End all faults: the core is healed for good, all other nodes are cut off for good."""
        for timer in self._timers:
            timer.cancel()
        self.outcome.not_reached.extend(self._open)
        self._waiting.clear()
        self._points.clear()
        self._faults.heal_all()
        if self._clients is not None:
            self._clients.start_again()
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
