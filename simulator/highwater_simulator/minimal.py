"""Finds minimal lists and numbers for which a predicate still fails; knows nothing of plans.

`fails` is called with smaller and smaller values; the last one that failed is the best so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

SIMPLE_NUMBERS = (0, *(lead * 10**power for power in range(8) for lead in (1, 2, 5)))
"""0, 1, 2, 5, 10, 20, 50, ...: numbers that look arbitrarily chosen to a reader."""


def minimal_subset(
    items: Sequence[Item], fails: Callable[[tuple[Item, ...]], bool]
) -> tuple[Item, ...]:
    """Return a subset, in order, that fails and of which no single item can be left out.

    The whole list must fail. Delta debugging (Zeller's ddmin), with the complements only: a part of
    a schedule seldom fails where the rest of it does not.
    """
    kept = tuple(items)
    if kept and fails(()):
        return ()
    parts = 2
    while len(kept) >= 2:
        reduced = _without_one_part(kept, parts, fails)
        if reduced is not None:
            kept, parts = reduced, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept


def _without_one_part(
    items: tuple[Item, ...], parts: int, fails: Callable[[tuple[Item, ...]], bool]
) -> tuple[Item, ...] | None:
    """Return the items without the first of `parts` equal parts that is not needed to fail."""
    edges = [len(items) * part // parts for part in range(parts + 1)]
    for number in reversed(range(parts)):  # the last items are most often not needed
        rest = items[: edges[number]] + items[edges[number + 1] :]
        if len(rest) < len(items) and rest and fails(rest):
            return rest
    return None


def minimal_number(value: int, fails: Callable[[int], bool], least: int = 0) -> int:
    """Return a simple number from `least` up to value that fails, or value; by bisection.

    It is the least one that fails if larger numbers fail too.
    """
    simple = [number for number in SIMPLE_NUMBERS if least <= number < value]
    low, high = 0, len(simple)  # of the simple numbers, those from `high` on are known to fail
    while low < high:
        middle = (low + high) // 2
        if fails(simple[middle]):
            high = middle
        else:
            low = middle + 1
    return simple[high] if high < len(simple) else value
