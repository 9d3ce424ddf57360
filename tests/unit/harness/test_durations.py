"""Durations on the command line: text that is none is refused before anything is asked."""

from __future__ import annotations

import math

import pytest
import typer

from highwater.durations import MOST_S, duration_ms, seconds
from highwater.errors import HarnessError


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0, MOST_S + 1, 10**20])
def test_what_is_no_duration_is_refused(value: float) -> None:
    with pytest.raises(typer.BadParameter, match="is not between 0 and"):
        seconds(value)


@pytest.mark.parametrize("value", [0.1, 1, MOST_S])
def test_a_duration_is_taken(value: float) -> None:
    assert seconds(value) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500),
        ("1.5s", 1_500),
        ("60s", 60_000),
        ("2m", 120_000),
        ("0.5h", 1_800_000),
        ("8h", 28_800_000),
        ("2d", 172_800_000),
    ],
)
def test_durations_have_units(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["60", "s", "-3s", "1w", "1 m 2 s", "", "9" * 400 + "s"])
def test_a_duration_without_its_unit_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match="no length of time"):
        duration_ms(text)
