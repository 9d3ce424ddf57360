"""Runs one plan several times: to count how it ends, or until a run proves something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from highwater.runs.plans.outcome import PlanResult
from highwater_checker.verdict import Outcome

_WORST_FIRST = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS)


def repeat(times: int, run: Callable[[int], PlanResult]) -> list[PlanResult]:
    """Return the results of run(1), run(2), ..."""
    return [run(number) for number in range(1, times + 1)]


def until_known(
    tries: int, run: Callable[[], PlanResult], say: Callable[[str], None]
) -> PlanResult:
    """Return the first result that is no unknown, else that of the last of so many tries.

    A run that is unknown proves nothing, neither good nor bad: on a busy machine a fault may not
    be proven in its time. One that failed is never tried again.
    """
    for left in range(tries - 1, -1, -1):
        result = run()
        if result.verdict.outcome is not Outcome.UNKNOWN:
            break
        if left:
            say(f"proves nothing: {'; '.join(result.verdict.reasons)}; tried again")
    return result


def counted_outcomes(results: Sequence[PlanResult]) -> dict[Outcome, int]:
    """Return how often which verdict came, the worst first; those that did not are left out."""
    counts = Counter(result.verdict.outcome for result in results)
    return {outcome: counts[outcome] for outcome in _WORST_FIRST if outcome in counts}


def worst(results: Sequence[PlanResult]) -> Outcome:
    """Return fail if any failed, else unknown if any is."""
    return next(iter(counted_outcomes(results)))
