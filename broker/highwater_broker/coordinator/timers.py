"""Timers by key: each calls its action once when it is due, unless it is set anew or cancelled.

One task serves all timers. Timers that are due at the same time are called in the order in which
they were set.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count

from highwater_core.runtime import Event, Runtime, TaskScope


class _Timer:
    __slots__ = ("action", "due_ms")

    def __init__(self, due_ms: int, action: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.action = action


class Timers:
    """Invariant: every timer has an entry in the heap that is not later than its due time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._timers: dict[Hashable, _Timer] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._listed_ms: dict[Hashable, int] = {}
        """When the earliest entry of each key in the heap is due."""
        self._numbers = count()
        self._earlier: Event = runtime.event()

    def __len__(self) -> int:
        return len(self._timers)

    def start(self, scope: TaskScope) -> None:
        scope.spawn("GroupTimers", self._run())

    def set(self, key: Hashable, delay_ms: int, action: Callable[[], None]) -> None:
        """Call the action after the delay; this replaces the key's former timer.

        The action does not wait. It is never called in the same pass that set it: clients choose
        delays, and an action that sets its own timer anew with none would be called for ever.
        """
        due_ms = self._runtime.now_ms() + max(delay_ms, 1)
        self._timers[key] = _Timer(due_ms, action)
        # A timer that is put off, as each heartbeat does, keeps its older entry in the heap.
        if key not in self._listed_ms or due_ms < self._listed_ms[key]:
            self._list(key, due_ms)

    def cancel(self, key: Hashable) -> None:
        """Forget the timer, if there is one."""
        self._timers.pop(key, None)

    def _list(self, key: Hashable, due_ms: int) -> None:
        self._listed_ms[key] = due_ms
        heapq.heappush(self._heap, (due_ms, next(self._numbers), key))
        if self._heap[0][2] == key:
            self._earlier.set()

    async def _run(self) -> None:
        while True:
            self._call_due()
            self._earlier.clear()
            left_ms = self._heap[0][0] - self._runtime.now_ms() if self._heap else None
            await self._earlier.wait(left_ms)

    def _call_due(self) -> None:
        now_ms = self._runtime.now_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, _, key = heapq.heappop(self._heap)
            if self._listed_ms.get(key) != due_ms:
                continue  # set anew meanwhile, for an earlier time
            del self._listed_ms[key]
            timer = self._timers.get(key)
            if timer is None:
                continue
            if timer.due_ms > now_ms:
                self._list(key, timer.due_ms)
                continue
            del self._timers[key]
            timer.action()
