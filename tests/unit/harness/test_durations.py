"""Durations on the command line: what is no time to wait is refused before anything is asked."""

from __future__ import annotations

import math

import pytest
import typer

from highwater.durations import MOST_S, seconds


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0, MOST_S + 1, 10**20])
def test_what_is_no_duration_is_refused(value: float) -> None:
    with pytest.raises(typer.BadParameter, match="is not between 0 and"):
        seconds(value)


@pytest.mark.parametrize("value", [0.1, 1, MOST_S])
def test_a_duration_is_taken(value: float) -> None:
    assert seconds(value) == value
