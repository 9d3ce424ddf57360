"""Whether two sets of samples differ, and by how much, without an assumption on their spread.

Source: J. L. Hodges, E. L. Lehmann, "Estimates of location based on rank tests", 1963; the
interval is of the exact distribution of Mann and Whitney's statistic.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95
TOLD = 0.05
"""The change that is to be told from noise."""


@dataclass(frozen=True, slots=True)
class Change:
    """By what factor samples changed: the estimate, and the bounds of its interval."""

    factor: float
    low: float
    high: float

    @property
    def is_told(self) -> bool:
        """Whether there is a change: the interval does not contain 1."""
        return not self.low <= 1.0 <= self.high

    @property
    def is_none(self) -> bool:
        """Whether there is no change that counts: the interval lies within 5 % of 1."""
        return self.low >= 1 - TOLD and self.high <= 1 + TOLD


def change_of(
    before: Sequence[float], after: Sequence[float], confidence: float = CONFIDENCE
) -> Change | None:
    """Return the change from before to after.

    None where there are too few samples for the confidence (three and three are, four and four are
    not), or one is not above 0.
    """
    if not before or not after or min(*before, *after, math.inf) <= 0:
        return None
    rank = rank_of_bound(len(before), len(after), confidence)
    if rank is None:
        return None
    shifts = sorted(math.log(new / old) for old in before for new in after)
    low, high = shifts[rank - 1], shifts[len(shifts) - rank]
    return Change(*map(math.exp, (statistics.median(shifts), low, high)))


def rank_of_bound(before: int, after: int, confidence: float) -> int | None:
    """Return which of the ascending shifts is the interval's lower bound, from 1; None of none."""
    orders = math.comb(before + after, before)
    tail, rank = 0, 0
    for statistic in range(before * after):
        tail += _orders_with(before, after, statistic)
        if tail / orders > (1 - confidence) / 2:
            break
        rank = statistic + 1
    return rank or None


@cache
def _orders_with(before: int, after: int, statistic: int) -> int:
    """Return in how many orders of all samples so many pairs have the later one first."""
    if statistic < 0:
        return 0
    if before == 0 or after == 0:
        return int(statistic == 0)
    return _orders_with(before - 1, after, statistic - after) + _orders_with(
        before, after - 1, statistic
    )
