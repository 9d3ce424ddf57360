"""Lets small requests be answered while large ones are worked on.

A request that names hundreds of things is done in chunks. Of all large requests one does one chunk
at a time, that with the least to do; whatever else is ready runs between two chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater_core.runtime import Event, Runtime

CHUNK = 100
"""Things done in one go: a millisecond or a few."""
PATIENCE_MS = 10_000
"""A request that waited so long for one chunk goes before smaller ones."""

T = TypeVar("T")
R = TypeVar("R")


class _Turn:
    """One large request: what it has left to do, and the event that lets it do a chunk."""

    __slots__ = ("event", "left")

    def __init__(self, event: Event, left: int) -> None:
        self.event = event
        self.left = left


class Turns:
    """Whose turn it is among the large requests.

    Invariant: while there are any, one of them has the turn and its event is set.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turns: dict[_Turn, None] = {}
        self._current: _Turn | None = None

    def __len__(self) -> int:
        """Return how many large requests are under way."""
        return len(self._turns)

    async def each(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return work's result for each item, in order.

        Up to CHUNK items are done at once, without waiting. Else what work looks at may change
        between two items.
        """
        if len(items) <= CHUNK:
            return [work(item) for item in items]
        turn = _Turn(self._runtime.event(), len(items))
        self._turns[turn] = None
        results: list[R] = []
        try:
            for start in range(0, len(items), CHUNK):
                turn.left = len(items) - start
                await self._next(turn)
                results.extend([work(item) for item in items[start : start + CHUNK]])
        finally:
            del self._turns[turn]
            if self._current is turn:
                self._pass_on()
        return results

    async def _next(self, turn: _Turn) -> None:
        """Let others run; return when it is this one's turn."""
        turn.event.clear()
        if self._current is None or self._current is turn:
            self._pass_on()
        while not await turn.event.wait(PATIENCE_MS):
            turn.left = 0
        await self._runtime.sleep(0)

    def _pass_on(self) -> None:
        self._current = min(self._turns, key=lambda turn: turn.left, default=None)
        if self._current is not None:
            self._current.event.set()
