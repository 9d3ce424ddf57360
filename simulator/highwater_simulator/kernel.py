"""Virtual time: actions in the order of their nanosecond, and coroutines driven by them.

Implements highwater_core.runtime. No clock is read. Equal deadlines are run in the order of their
requests, or in an order drawn from a given stream, so that one program gives one run.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from highwater_core.check import BugFound, check
from highwater_core.ports import Rng
from highwater_simulator.clocks import NS_PER_MS, NodeClock
from highwater_simulator.tasks import NodeRuntime
from highwater_simulator.turns import DrawnTurns
from highwater_simulator.waits import Timer, Wait

MAX_EVENTS = 20_000_000
"""Most events of a run; more is a mistake."""
MAX_EVENTS_AT_ONE_INSTANT = 200_000
"""Most events at one instant; more is a livelock."""
_SWEEP_FROM = 1_024
"""Timers in the heap from which on cancelled ones are removed."""


class SimulationFailed(Exception):
    """A task raised an error: a bug in node code or in the simulator."""


class LimitPassed(Exception):
    """An awaited condition did not hold within its virtual time."""


class Kernel:
    """Runs actions in the order of their virtual time, equal ones in the order of their requests.

    With ties, the order of equal ones is drawn; those of one node or pipe stay in order.

    Invariant: the heap has no deadline before time_ns. The ready queue has the actions that were
    requested at this instant for this instant, so the heap's actions at time_ns are older.
    """

    def __init__(
        self,
        *,
        ties: Rng | None = None,
        max_events: int = MAX_EVENTS,
        max_events_at_one_instant: int = MAX_EVENTS_AT_ONE_INSTANT,
    ) -> None:
        self.time_ns = 0
        """Virtual time. Only the kernel moves it."""
        self.event_count = 0
        self.after_event: Callable[[], None] | None = None
        """Called when an event is over, unless it failed."""
        self._heap: list[tuple[int, int, Timer]] = []
        self._sweep_at = _SWEEP_FROM
        self._next_seq = 0
        self._ready: deque[Callable[[], None]] = deque()
        self._turns = None if ties is None else DrawnTurns(ties)
        self._max_events = max_events
        self._max_events_at_one_instant = max_events_at_one_instant
        self._event_limit = min(max_events, max_events_at_one_instant)
        self._runtimes: dict[str, NodeRuntime] = {}
        self._failure: tuple[str, BaseException] | None = None

    # ------------------------------------------------------------ time

    def now_ns(self) -> int:
        return self.time_ns

    def call_at(self, deadline_ns: int, action: Callable[[], None]) -> Timer:
        """Run the action at deadline_ns, or now when that is past; after all earlier requests."""
        timer = Timer(action)
        self.arm(timer, deadline_ns)
        return timer

    def call_later(self, delay_ns: int, action: Callable[[], None]) -> Timer:
        return self.call_at(self.time_ns + delay_ns, action)

    def arm(self, timer: Timer, deadline_ns: int) -> None:
        """Run the timer's action at deadline_ns, as call_at does."""
        if deadline_ns <= self.time_ns:
            self.soon(timer.run, timer.owner)
            return
        heap = self._heap
        heapq.heappush(heap, (deadline_ns, self._next_seq, timer))
        self._next_seq += 1
        if len(heap) >= self._sweep_at:
            heap[:] = [entry for entry in heap if entry[2].action is not None]
            heapq.heapify(heap)
            self._sweep_at = max(_SWEEP_FROM, 2 * len(heap))

    def soon(self, action: Callable[[], None], owner: object) -> None:
        """Run the action at this instant, after all actions of its owner that are due."""
        if self._turns is None:
            self._ready.append(action)
        else:
            self._turns.add(owner, action)

    def rearm(self, runtime: NodeRuntime) -> None:
        """Move the deadlines of a node's waits after a change of its clock."""
        waits = [
            timer
            for _, _, timer in sorted(self._heap)
            if isinstance(timer, Wait) and timer.owner is runtime and timer.action is not None
        ]
        moved = dict.fromkeys(map(id, waits))
        self._heap[:] = [entry for entry in self._heap if id(entry[2]) not in moved]
        heapq.heapify(self._heap)
        for wait in waits:
            if wait.deadline_ns is not None:
                runtime.arm(wait, wait.deadline_ns)

    # ------------------------------------------------------------ nodes

    def runtime(self, node_name: str) -> NodeRuntime:
        """Return the runtime of the node's next incarnation, from 1; the last must be dead."""
        last = self._runtimes.get(node_name)
        check(last is None or not last.is_alive, f"{node_name} runs already")
        incarnation, clock = (
            (1, NodeClock()) if last is None else (last.incarnation + 1, last.clock)
        )
        self._runtimes[node_name] = NodeRuntime(self, node_name, incarnation, clock)
        return self._runtimes[node_name]

    def fail(self, where: str, error: BaseException) -> None:
        """Stop the simulation after this event; the first failure is the one reported."""
        if self._failure is None:
            self._failure = (where, error)

    # ------------------------------------------------------------ running

    def run_for(self, duration_ms: int) -> None:
        """Run all actions that are due within the next duration_ms.

        Raises:
            SimulationFailed: a task failed.
        """
        limit_ns = self.time_ns + duration_ms * NS_PER_MS
        while self._run_next(limit_ns):
            pass
        self.time_ns = limit_ns

    def run_until(
        self, predicate: Callable[[], bool], limit_ms: int, what: str = "the condition"
    ) -> None:
        """Run until the predicate holds; it is called before the first and after each event.

        Raises:
            LimitPassed: limit_ms went by; the message has the await of every task.
            SimulationFailed: a task failed.
        """
        limit_ns = self.time_ns + limit_ms * NS_PER_MS
        while not predicate():
            if not self._run_next(limit_ns):
                self.time_ns = limit_ns
                message = f"{what} did not hold within {limit_ms} ms of virtual time"
                raise LimitPassed(f"{message}\n{self.describe()}")

    def describe(self) -> str:
        """Return the last state for a failure's message: time, events, tasks and their awaits."""
        lines = [f"at {self.time_ns / NS_PER_MS:.3f} ms after {self.event_count} events"]
        for runtime in self._runtimes.values():
            lines.extend(runtime.describe())
        return "\n".join(lines)

    def close(self) -> None:
        """Drop every node's tasks, so that no coroutine outlives the run."""
        for runtime in self._runtimes.values():
            runtime.kill()
        self._heap.clear()
        self._ready.clear()
        if self._turns is not None:
            self._turns.clear()

    def _run_next(self, limit_ns: int) -> bool:
        """Run the next action that is due by limit_ns; return whether there was one."""
        action = self._next(limit_ns) if self._turns is None else self._draw(self._turns, limit_ns)
        if action is None:
            return False
        self.event_count += 1
        if self.event_count > self._event_limit:
            self._stop_run_without_end()
        action()
        if self._failure is not None:
            where, error = self._failure
            raise SimulationFailed(
                f"{where}: {type(error).__name__}: {error}\n{self.describe()}"
            ) from error
        if self.after_event is not None:
            self.after_event()
        return True

    def _next(self, limit_ns: int) -> Callable[[], None] | None:
        """Take the next action, and move time to its deadline if none is due now."""
        heap = self._heap
        while heap:
            deadline_ns = heap[0][0]
            if deadline_ns > self.time_ns and (self._ready or deadline_ns > limit_ns):
                break
            timer = heapq.heappop(heap)[2]
            action = timer.action
            if action is not None:
                timer.action = None
                if deadline_ns > self.time_ns:
                    self._move_time(deadline_ns)
                return action
        return self._ready.popleft() if self._ready else None

    def _draw(self, turns: DrawnTurns, limit_ns: int) -> Callable[[], None] | None:
        """Take the drawn action, and move time to its deadline if none is due now."""
        heap = self._heap
        while (action := turns.take()) is None and heap and heap[0][0] <= limit_ns:
            if heap[0][0] > self.time_ns:
                self._move_time(heap[0][0])
            while heap and heap[0][0] == self.time_ns:
                timer = heapq.heappop(heap)[2]
                if timer.action is not None:
                    turns.add(timer.owner, timer.run)
        return action

    def _move_time(self, time_ns: int) -> None:
        self.time_ns = time_ns
        self._event_limit = min(
            self._max_events, self.event_count + self._max_events_at_one_instant
        )

    def _stop_run_without_end(self) -> None:
        if self.event_count > self._max_events:
            raise BugFound(f"more than {self._max_events} events\n{self.describe()}")
        limit = self._max_events_at_one_instant
        raise BugFound(f"livelock: {limit} events at one instant\n{self.describe()}")
