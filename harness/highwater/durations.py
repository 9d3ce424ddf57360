"""Durations on the command line."""

from __future__ import annotations

from typing import TypeVar

import typer

MOST_S = 86_400
"""A day: longer than anything here is waited for."""

Seconds = TypeVar("Seconds", int, float)


def seconds(value: Seconds) -> Seconds:
    """Return the duration.

    Raises:
        typer.BadParameter: it is no number above 0, or more than a day.
    """
    if not 0 < value <= MOST_S:  # nan, too
        raise typer.BadParameter(f"{value} is not between 0 and {MOST_S} seconds")
    return value
