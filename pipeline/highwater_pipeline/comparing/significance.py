"""The significance of many comparisons at once. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

ALPHA = 0.05
"""How often, at most, any one of all comparisons may show a difference where there is none."""


def two_sided(z: float) -> float:
    """Return the probability of a value at least as far from 0 as z, by the normal distribution."""
    return math.erfc(abs(z) / math.sqrt(2))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number, in the given order.

    Of m p-values the lowest is multiplied by m, the next by m - 1, and so on. An adjusted value is
    at least the one before it, and at most 1. The probability that any of the results below ALPHA
    is an error is at most ALPHA, however the comparisons depend on each other.
    Source: S. Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    in_order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [1.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(in_order):
        least = max(least, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = least
    return adjusted
