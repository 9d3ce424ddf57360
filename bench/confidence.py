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
EXACT_UP_TO = 2_500
"""Pairs of samples; for more the statistic is normal enough."""


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
    def is_large(self) -> bool:
        """Whether there is a change of more than 5 %: of many measures one in twenty changes by
        chance, and seldom by as much."""
        return self.high < 1 - TOLD or self.low > 1 + TOLD

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
    tail = (1 - confidence) / 2
    if before * after > EXACT_UP_TO:
        mean, spread = before * after / 2, math.sqrt(before * after * (before + after + 1) / 12)
        return int(mean - statistics.NormalDist().inv_cdf(1 - tail) * spread)
    orders, share, rank = _orders(before, after), 0.0, 0
    total = sum(orders)
    for count in orders:
        share += count / total
        if share > tail:
            break
        rank += 1
    return rank or None


@cache
def _orders(before: int, after: int) -> list[int]:
    """Return in how many orders of all samples 0, 1, ... pairs have the later one first.

    They are the coefficients of Gauss's binomial: products of 1 - q^k are made one by one.
    """
    counts = [1] + [0] * (before * after)
    for k in range(1, after + 1):
        for place in range(len(counts) - 1, before + k - 1, -1):
            counts[place] -= counts[place - before - k]
        for place in range(k, len(counts)):
            counts[place] += counts[place - k]
    return counts
