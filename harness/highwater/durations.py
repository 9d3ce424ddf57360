"""Durations on the command line."""

from __future__ import annotations

import re
from typing import TypeVar

import typer

from highwater.errors import HarnessError

MOST_S = 86_400
"""A day: no command waits longer for one thing."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_MOST_DIGITS = 12
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Seconds = TypeVar("Seconds", int, float)


def seconds(value: Seconds) -> Seconds:
    """Return the duration.

    Raises:
        typer.BadParameter: it is no number above 0, or more than a day.
    """
    if not 0 < value <= MOST_S:  # nan, too
        raise typer.BadParameter(f"{value} is not between 0 and {MOST_S} seconds")
    return value


def duration_ms(text: str) -> int:
    """Return the duration in ms of "500ms", "60s", "1.5m", "8h" or "2d".

    Raises:
        HarnessError: the text is no duration.
    """
    parsed = _DURATION.fullmatch(text.strip())
    if parsed is None or len(parsed[1]) > _MOST_DIGITS:
        raise HarnessError(f"{text!r} is no length of time; write 500ms, 60s, 2m, 8h or 2d")
    return round(float(parsed[1]) * _MS[parsed[2]])
