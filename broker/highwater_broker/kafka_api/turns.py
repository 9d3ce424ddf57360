"""Lets small requests be answered while large ones are worked on.

A request that names hundreds of things, or looks through a log, is done in steps of a millisecond
or a few. Of all such requests one does one step at a time, the one with the least to do; whatever
else is ready runs between two steps. However many small ones come, no step of a large one is held
up for longer than what its request has left would take alone, and one step of each that waits.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar

from highwater_core.runtime import Event, Runtime

CHUNK = 100
"""Things done in one step."""
LARGE = 1_000
"""Things; of larger answers one is gathered at a time."""
SHARED = 300
"""Things that small requests, which wait for a step together, do in one."""
NS_PER_THING = 50_000
"""Of two requests the later one goes first only if it has so much less to do than it is later."""

T = TypeVar("T")
R = TypeVar("R")


class _Waiter:
    """One who waits for a step; is_over: it was called, or has gone."""

    __slots__ = ("called", "is_over")

    def __init__(self, called: Event) -> None:
        self.called = called
        self.is_over = False


class _Line:
    """Those who wait for something that one has at a time.

    Ordering: each is due when all that it has left to do could be done, counted from when it began
    to wait; the earliest comes first. Of those that wait since the same moment that is the one with
    the least left; of equals, who came first.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: list[tuple[int, int, _Waiter]] = []
        self._numbers = count()
        self.is_taken = False

    async def take(self, left: int) -> None:
        """Return once the caller has it, who must hand it over."""
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
        """Call the next one, who has it from now on."""
        while self._waiting:
            _, _, waiter = heapq.heappop(self._waiting)
            if not waiter.is_over:
                waiter.is_over = True
                waiter.called.set()
                return
        self.is_taken = False


class _SharedStep:
    """A step that waits, and how many things those are to do in it who wait for it."""

    __slots__ = ("begun", "size")

    def __init__(self, begun: Event, size: int) -> None:
        self.begun = begun
        self.size = size


class Turns:
    """Whose turn it is among the large requests.

    Who just had a turn begins to wait when the next one is chosen already.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._steps = _Line(runtime)
        self._answers = _Line(runtime)
        self._shared: _SharedStep | None = None
        """The one that others may still join."""

    @property
    def is_free(self) -> bool:
        """Whether nobody has a turn, or waits for one."""
        return not self._steps.is_taken

    @asynccontextmanager
    async def alone(self, size: int) -> AsyncIterator[None]:
        """Let one request at a time gather an answer that is much larger than what asked for it.

        Those who wait hold nothing but their request. size: in things, as in `each`; an answer of
        up to LARGE waits for no other.
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

        Up to CHUNK items are done at once, without waiting. Else what work looks at may change
        between two items.
        """
        if len(items) <= CHUNK:
            return [work(item) for item in items]
        results: list[R] = []
        for start in range(0, len(items), CHUNK):
            await self.next(len(items) - start)
            results.extend([work(item) for item in items[start : start + CHUNK]])
        return results

    async def share(self, size: int) -> None:
        """Return when it is the turn of a step that small requests do together, which lasts until
        the caller's next await.

        size: how many things the caller has to do, at most SHARED. One event may wake thousands of
        requests: they are done in a few steps, instead of a step each or all at once.
        """
        step = self._shared
        if step is not None and step.size + size <= SHARED:
            step.size += size
            await step.begun.wait()
            return
        step = self._shared = _SharedStep(self._runtime.event(), size)
        try:
            await self.next(SHARED)
        finally:  # who joined a step whose first one leaves does not wait for another
            if self._shared is step:
                self._shared = None
            step.begun.set()

    async def next(self, left: int = 1) -> None:
        """Return when it is the caller's turn, which lasts until its next await.

        left: how much the caller has to do, in whatever it counts.
        """
        await self._steps.take(left)
        try:
            await self._runtime.sleep(0)  # the pass of the loop that this step has to itself
        finally:
            self._steps.hand_over()
