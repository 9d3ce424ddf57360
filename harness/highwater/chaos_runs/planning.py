"""From what the command line asks for to a plan."""

from __future__ import annotations

import re

from highwater.errors import HarnessError
from highwater_chaos.plan import Plan
from highwater_chaos.random_plan import Wanted, random_plan

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_MS = {"ms": 1, "s": 1_000, "m": 60_000}


def plan_of(wanted: Wanted) -> Plan:
    """Return the plan of a seed and its options; equal ones give equal plans."""
    from highwater_simulator.rng import SeededRng

    return random_plan(wanted, SeededRng(wanted.seed).stream("chaos"))


def duration_ms(text: str) -> int:
    """Return what "60s", "1.5m" or "20000ms" says.

    Raises:
        HarnessError: it is no length of time.
    """
    parsed = _DURATION.fullmatch(text.strip())
    if parsed is None:
        raise HarnessError(f"{text!r} is no length of time; write 60s, 2m or 500ms")
    return round(float(parsed[1]) * _MS[parsed[2]])
