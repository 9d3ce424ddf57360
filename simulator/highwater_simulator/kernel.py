"""Virtual time: a heap of actions keyed by (nanosecond, sequence), and coroutines driven by it.

Satisfies highwater_core.runtime. Nothing here draws random numbers or reads a clock: the order of
equal deadlines is the order in which they were asked for, so one program gives one run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from highwater_core.check import BugFound, check
from highwater_simulator.tasks import NodeRuntime

NS_PER_MS = 1_000_000

WALL_CLOCK_START_MS = 1_767_225_600_000
"""What the wall clock shows when virtual time begins: 2026-01-01T00:00:00Z."""

MAX_EVENTS = 20_000_000
"""Events of a whole run; more is a run that nobody meant to start."""
MAX_EVENTS_AT_ONE_INSTANT = 200_000
"""Events without time moving; more is a livelock."""


class SimulationFailed(Exception):
    """A task met an error that it did not handle: a bug in node code or in the simulator."""


class LimitPassed(Exception):
    """What was waited for did not happen within its virtual time."""


class Timer:
    """An action at a virtual time; cancelling it leaves its place in the heap empty."""

    __slots__ = ("action", "deadline_ns")

    def __init__(self, deadline_ns: int, action: Callable[[], None]) -> None:
        self.deadline_ns = deadline_ns
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Kernel:
    """Runs actions in the order of their virtual time, first asked first among equals."""

    def __init__(
        self,
        *,
        max_events: int = MAX_EVENTS,
        max_events_at_one_instant: int = MAX_EVENTS_AT_ONE_INSTANT,
    ) -> None:
        self._now_ns = 0
        self._heap: list[tuple[int, int, Timer]] = []
        self._next_seq = 0
        self._max_events = max_events
        self._max_events_at_one_instant = max_events_at_one_instant
        self._events_at_this_instant = 0
        self._runtimes: dict[str, NodeRuntime] = {}
        self._failure: tuple[str, BaseException] | None = None
        self.event_count = 0

    # ------------------------------------------------------------ time

    def now_ns(self) -> int:
        return self._now_ns

    def wall_clock_ms(self) -> int:
        return WALL_CLOCK_START_MS + self._now_ns // NS_PER_MS

    def call_at(self, deadline_ns: int, action: Callable[[], None]) -> Timer:
        """Run the action at deadline_ns, or now when that is past; after all asked for before."""
        timer = Timer(max(deadline_ns, self._now_ns), action)
        heapq.heappush(self._heap, (timer.deadline_ns, self._next_seq, timer))
        self._next_seq += 1
        return timer

    def call_later(self, delay_ns: int, action: Callable[[], None]) -> Timer:
        return self.call_at(self._now_ns + delay_ns, action)

    # ------------------------------------------------------------ nodes

    def runtime(self, node_name: str) -> NodeRuntime:
        """Return the runtime of the node's next incarnation, from 1; the last must be dead."""
        last = self._runtimes.get(node_name)
        check(last is None or not last.is_alive, f"{node_name} runs already")
        incarnation = 1 if last is None else last.incarnation + 1
        self._runtimes[node_name] = NodeRuntime(self, node_name, incarnation)
        return self._runtimes[node_name]

    def fail(self, where: str, error: BaseException) -> None:
        """Stop the simulation after this event; the first failure is the one reported."""
        if self._failure is None:
            self._failure = (where, error)

    # ------------------------------------------------------------ running

    def run_for(self, duration_ms: int) -> None:
        """Run everything that is due within the next duration_ms.

        Raises:
            SimulationFailed: a task failed.
        """
        limit_ns = self._now_ns + duration_ms * NS_PER_MS
        while self._run_next(limit_ns):
            pass
        self._now_ns = limit_ns

    def run_until(
        self, predicate: Callable[[], bool], limit_ms: int, what: str = "the condition"
    ) -> None:
        """Run until the predicate holds; it is asked before the first and after each event.

        Raises:
            LimitPassed: limit_ms went by; the message says what every task waits for.
            SimulationFailed: a task failed.
        """
        limit_ns = self._now_ns + limit_ms * NS_PER_MS
        while not predicate():
            if not self._run_next(limit_ns):
                self._now_ns = limit_ns
                message = f"{what} did not hold within {limit_ms} ms of virtual time"
                raise LimitPassed(f"{message}\n{self.describe()}")

    def describe(self) -> str:
        """Return the last state for a failure's message: time, events, tasks and their awaits."""
        lines = [f"at {self._now_ns / NS_PER_MS:.3f} ms after {self.event_count} events"]
        for runtime in self._runtimes.values():
            lines.extend(runtime.describe())
        return "\n".join(lines)

    def close(self) -> None:
        """Drop every node's tasks, so that no coroutine outlives the run."""
        for runtime in self._runtimes.values():
            runtime.kill()
        self._heap.clear()

    def _run_next(self, limit_ns: int) -> bool:
        """Run the next action that is due by limit_ns; return whether there was one."""
        while self._heap and self._heap[0][0] <= limit_ns:
            deadline_ns, _, timer = heapq.heappop(self._heap)
            action = timer.action
            if action is None:
                continue
            self._count(deadline_ns)
            timer.action = None
            action()
            if self._failure is not None:
                where, error = self._failure
                raise SimulationFailed(
                    f"{where}: {type(error).__name__}: {error}\n{self.describe()}"
                ) from error
            return True
        return False

    def _count(self, deadline_ns: int) -> None:
        if deadline_ns > self._now_ns:
            self._now_ns = deadline_ns
            self._events_at_this_instant = 0
        self.event_count += 1
        self._events_at_this_instant += 1
        if self.event_count > self._max_events:
            raise BugFound(f"more than {self._max_events} events\n{self.describe()}")
        if self._events_at_this_instant > self._max_events_at_one_instant:
            limit = self._max_events_at_one_instant
            raise BugFound(f"livelock: {limit} events at one instant\n{self.describe()}")
