"""Makes a failing case small: fewer steps, then simpler ones, as long as the failure stays."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.fuzz.cases import Case, Fuzzer, failure_of

TRIES = 400
CPU_SECONDS = 90.0
"""What one minimisation may take: so many runs, and so much time of them together."""


def minimise(fuzzer: Fuzzer, case: Case, signature: str, tries: int = TRIES) -> Case:
    """Return a smaller case with a failure of the same signature; the case itself at worst."""
    left = [tries]
    end = time.process_time() + CPU_SECONDS

    def fails(candidate: Case) -> bool:
        if left[0] <= 0 or time.process_time() > end or not candidate:
            return False
        left[0] -= 1
        failure = failure_of(fuzzer, candidate)
        return failure is not None and failure.signature == signature

    return _with_simpler_steps(fuzzer, _with_fewer_steps(case, fails), fails)


def _with_fewer_steps(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Leave out ranges of steps, long ones first (delta debugging)."""
    size = max(1, len(case) // 2)
    while size:
        start = max(0, len(case) - size)
        while True:
            shorter = case[:start] + case[start + size :]
            if fails(shorter):
                case = shorter
            if start == 0:
                break
            start = max(0, start - size)
        size //= 2
    return case


def _with_simpler_steps(fuzzer: Fuzzer, case: Case, fails: Callable[[Case], bool]) -> Case:
    """Take simpler steps where the failure stays, until none is."""
    at = 0
    while at < len(case):
        for simpler in fuzzer.simpler(case[at]):
            candidate = (*case[:at], simpler, *case[at + 1 :])
            if fails(candidate):
                case = candidate
                break
        else:
            at += 1
    return case
