"""Finds minimal lists and numbers with which something still fails; knows nothing of plans.

`fails` is asked with smaller and smaller values and is told nothing back: what it said yes to last
is what the search goes on from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

SIMPLE_NUMBERS = (0, *(lead * 10**power for power in range(8) for lead in (1, 2, 5)))
"""0, 1, 2, 5, 10, 20, 50, ...: the numbers that a reader takes for arbitrary ones."""


def minimal_subset(
    items: Sequence[Item], fails: Callable[[tuple[Item, ...]], bool]
) -> tuple[Item, ...]:
    """Return a subset, in order, that fails and of which no single item can be left out.

    The whole is taken to fail. Delta debugging (Zeller's ddmin), with the complements only: a
    part of a schedule fails seldom where the rest of it does not.
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
    """Return the items without the first of `parts` equal parts that nobody misses."""
    edges = [len(items) * part // parts for part in range(parts + 1)]
    for number in reversed(range(parts)):  # what comes last is most often an aftermath
        rest = items[: edges[number]] + items[edges[number + 1] :]
        if len(rest) < len(items) and rest and fails(rest):
            return rest
    return None


def minimal_number(value: int, fails: Callable[[int], bool], least: int = 0) -> int:
    """Return a simple number from `least` up to value that fails, or value; by bisection.

    Wherever smaller numbers fail less, it is the least that does.
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
