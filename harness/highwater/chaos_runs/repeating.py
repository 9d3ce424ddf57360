"""Runs one plan several times, and counts how the runs ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from highwater.planned.outcome import PlanResult
from highwater_checker.verdict import Outcome

_WORST_FIRST = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS)


def repeat(times: int, run: Callable[[int], PlanResult]) -> list[PlanResult]:
    """Return the results of run(1), run(2), ..."""
    return [run(number) for number in range(1, times + 1)]


def counted_outcomes(results: Sequence[PlanResult]) -> dict[Outcome, int]:
    """Return how often which verdict came, the worst first; those that did not are left out."""
    counts = Counter(result.verdict.outcome for result in results)
    return {outcome: counts[outcome] for outcome in _WORST_FIRST if outcome in counts}


def worst(results: Sequence[PlanResult]) -> Outcome:
    """Return fail if any failed, else unknown if any is."""
    return next(iter(counted_outcomes(results)))
