"""Draws of a plan: all from one random stream, so that a seed and the code give the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from highwater_core.check import BugFound
from highwater_core.ports import Rng

Item = TypeVar("Item")


class Draw:
    """Draws from one stream; every draw of a plan goes through it, in a fixed order."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def of(self, items: Sequence[Item]) -> Item:
        return items[self._rng.randrange(0, len(items))]

    def between(self, start: int, stop: int) -> int:
        """Return an integer in [start, stop)."""
        return self._rng.randrange(start, stop)

    def weighted(self, weights: Sequence[tuple[Item, int]]) -> Item:
        at = self._rng.randrange(0, sum(weight for _, weight in weights))
        for item, weight in weights:
            if at < weight:
                return item
            at -= weight
        raise BugFound("weights add up")

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """Return the items in a drawn order."""
        left = list(items)
        return [left.pop(self._rng.randrange(0, len(left))) for _ in items]
