"""How sure many comparisons at once are. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

ALPHA = 0.05
"""How often, at most, any one of all comparisons may show a difference where there is none."""


def two_sided(z: float) -> float:
    """Return how probable a value as far from 0 as z is under the standard normal law."""
    return math.erfc(abs(z) / math.sqrt(2))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return each p-value as it counts among all of them, in their order.

    Of m p-values the least is multiplied by m, the next by m - 1, and so on; none becomes less than
    the one before it, nor more than 1. Who believes those below ALPHA errs anywhere in at most that
    share of cases, however the comparisons depend on each other.
    Source: S. Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    in_order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [1.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(in_order):
        least = max(least, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = least
    return adjusted
