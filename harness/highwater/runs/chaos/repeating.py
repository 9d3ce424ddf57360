"""Runs one plan several times: to count its verdicts, or until one is not unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from highwater.runs.plans.outcome import PlanResult
from highwater_checker.verdict import WORST_FIRST, Outcome


def repeat(times: int, run: Callable[[int], PlanResult]) -> list[PlanResult]:
    """Return the results of run(1), run(2), ..."""
    return [run(number) for number in range(1, times + 1)]


def until_known(
    tries: int, run: Callable[[], PlanResult], say: Callable[[str], None]
) -> PlanResult:
    """Return the first result that is not unknown, else the last one of so many tries.

    On a busy machine a fault may not be proven in time, and then a run proves nothing. A failed run
    is never repeated.
    """
    for left in range(tries - 1, -1, -1):
        result = run()
        if result.verdict.outcome is not Outcome.UNKNOWN:
            break
        if left:
            say(f"proves nothing: {'; '.join(result.verdict.reasons)}; tried again")
    return result


def counted_outcomes(results: Sequence[PlanResult]) -> dict[Outcome, int]:
    """Return how often each verdict came, the worst first; absent verdicts are left out."""
    counts = Counter(result.verdict.outcome for result in results)
    return {outcome: counts[outcome] for outcome in WORST_FIRST if outcome in counts}
