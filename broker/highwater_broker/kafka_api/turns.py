"""Lets small requests be answered while large ones are worked on.

A request that names thousands of things is done in chunks, one such request at a time; whatever
else is ready runs between two chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater_core.runtime import Event, Runtime

CHUNK = 100
"""Things done in one go: a few milliseconds."""
MAX_TURN_WAIT_MS = 60_000
"""A large request that waited so long begins beside the others."""

T = TypeVar("T")
R = TypeVar("R")


class Turns:
    """Whose turn it is among the large requests: the first of those that came."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turns: dict[Event, None] = {}

    def __len__(self) -> int:
        """Return how many large requests there are, the one whose turn it is included."""
        return len(self._turns)

    async def each(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return work's result for each item, in order.

        Up to CHUNK items are done at once, without waiting. Else what work looks at may change
        between two items.
        """
        if len(items) <= CHUNK:
            return [work(item) for item in items]
        turn = self._runtime.event()
        self._turns[turn] = None
        results: list[R] = []
        try:
            if len(self._turns) > 1:
                await turn.wait(MAX_TURN_WAIT_MS)
            for start in range(0, len(items), CHUNK):
                await self._runtime.sleep(0)
                results.extend([work(item) for item in items[start : start + CHUNK]])
        finally:
            del self._turns[turn]
            following = next(iter(self._turns), None)
            if following is not None:
                following.set()
        return results
