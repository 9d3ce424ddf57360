"""Answers small requests while large ones are in work.

A request with hundreds of items, or a search through a log, is done in steps of some milliseconds.
Only one such request does a step at a time, the one with the least work left; other ready tasks run
between two steps. However many small ones come, a step of a large one waits at most for the time of
its own remaining work, and one step of each waiting request.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar

from highwater_core.runtime import Event, Runtime

CHUNK = 100
"""Items done in one step."""
LARGE = 1_000
"""Items; only one larger answer is gathered at a time."""
SHARED = 300
"""Items of small requests in one shared step."""
NS_PER_THING = 50_000
"""Time of an item: a later request goes first only if its work is shorter by more than that."""

T = TypeVar("T")
R = TypeVar("R")


class _Waiter:
    """A request that waits for a step. is_over: it was called, or has left."""

    __slots__ = ("called", "is_over")

    def __init__(self, called: Event) -> None:
        self.called = called
        self.is_over = False


class _Line:
    """Requests that wait for a resource that one has at a time.

    Ordering: each is due when its remaining work could be done, counted from the begin of its wait;
    the earliest comes first. Among requests since the same moment that is the one with the least
    work left; among equals the first one.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: list[tuple[int, int, _Waiter]] = []
        self._numbers = count()
        self.is_taken = False

    async def take(self, left: int) -> None:
        """Return once the caller has the resource, which it must hand over."""
        if self.is_taken:
            await self._wait(left)
        self.is_taken = True

    async def _wait(self, left: int) -> None:
        waiter = _Waiter(self._runtime.event())
        due_ns = self._runtime.now_ns() + left * NS_PER_THING
        heapq.heappush(self._waiting, (due_ns, next(self._numbers), waiter))
        is_ours = False
        try:
            is_ours = await waiter.called.wait()
        finally:
            if not is_ours and waiter.is_over:  # called, and cancelled before it could run
                self.hand_over()
            waiter.is_over = True

    def hand_over(self) -> None:
        """Call the next request, which has the resource from now on."""
        while self._waiting:
            _, _, waiter = heapq.heappop(self._waiting)
            if not waiter.is_over:
                waiter.is_over = True
                waiter.called.set()
                return
        self.is_taken = False


class _SharedStep:
    """A waiting step, with the number of items of its requests."""

    __slots__ = ("begun", "size")

    def __init__(self, begun: Event, size: int) -> None:
        self.begun = begun
        self.size = size


class Turns:
    """The turns of large requests.

    A request that just had a turn waits again only after the next one was chosen.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._steps = _Line(runtime)
        self._answers = _Line(runtime)
        self._shared: _SharedStep | None = None
        """The shared step that requests may still join."""

    @property
    def is_free(self) -> bool:
        """Whether no request has a turn, or waits for one."""
        return not self._steps.is_taken

    @asynccontextmanager
    async def alone(self, size: int) -> AsyncIterator[None]:
        """Let one request at a time gather an answer that is much larger than the request.

        Waiting ones keep only their request in memory.
        size: in items, as in `each`; an answer of up to LARGE waits for no other.
        """
        if size <= LARGE:
            yield
            return
        await self._answers.take(size)
        try:
            yield
        finally:
            self._answers.hand_over()

    async def each(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return work's result for each item, in order.

        Up to CHUNK items are done at once, without waiting. Otherwise the state that work reads may
        change between two items.
        """
        if len(items) <= CHUNK:
            return [work(item) for item in items]
        results: list[R] = []
        for start in range(0, len(items), CHUNK):
            await self.next(len(items) - start)
            results.extend([work(item) for item in items[start : start + CHUNK]])
        return results

    async def share(self, size: int) -> None:
        """Return at the turn of a step that small requests share, until the caller's next await.

        size: the caller's items, at most SHARED. One event may wake thousands of requests: they are
        done in a few steps, instead of a step each or all at once.
        """
        step = self._shared
        if step is not None and step.size + size <= SHARED:
            step.size += size
            await step.begun.wait()
            return
        step = self._shared = _SharedStep(self._runtime.event(), size)
        try:
            await self.next(SHARED)
        finally:  # requests that joined keep their step when its first one leaves
            if self._shared is step:
                self._shared = None
            step.begun.set()

    async def next(self, left: int = 1) -> None:
        """Return when it is the caller's turn, which lasts until its next await.

        left: the caller's remaining work, in any unit.
        """
        await self._steps.take(left)
        try:
            await self._runtime.sleep(0)  # the pass of the loop for this step alone
        finally:
            self._steps.hand_over()
