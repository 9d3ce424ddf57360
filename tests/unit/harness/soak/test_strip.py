"""A soak over time: bars in rows, letters of verdicts, the machine's load, short pauses."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from highwater.runs.stock.libraries import ClientKind
from highwater.soak.ledger import Entry
from highwater.soak.strip import (
    LONGEST_PAUSE_S,
    MOST_ROWS,
    NAME_WIDTH,
    PLOT_WIDTH,
    Strip,
    strip_of,
)
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN


def entry(
    number: int, minute: float, took_s: float = 60, outcome: Outcome = PASS, load: float = 1
) -> Entry:
    hours, minutes = divmod(minute, 60)
    days, hours = divmod(hours, 24)
    began = f"2026-01-{1 + int(days):02}T{int(hours):02}:{int(minutes):02}:00+00:00"
    return Entry(
        number=number,
        seed=number,
        preset=Preset.FENCED,
        client=ClientKind.OWN,
        brokers=3,
        controllers=2,
        faults=1,
        outcome=outcome,
        run=f"run-{number}",
        began=began,
        took_s=took_s,
        load=load,
    )


def bars(strip: Strip) -> list[list[tuple[str, float, float]]]:
    return [[(bar.letter, bar.x, bar.x + bar.width) for bar in row.bars] for row in strip.rows]


def test_each_plan_is_where_it_ran_and_has_its_letter() -> None:
    plans = [entry(1, 0), entry(2, 2, outcome=FAIL), entry(3, 3, outcome=UNKNOWN)]
    strip = strip_of(plans)
    (row,) = strip.rows
    assert row.name == "Jan 01 00:00"
    quarter = PLOT_WIDTH / 4
    for bar, place, letter in zip(row.bars, (0, 2, 3), "PFU", strict=True):
        assert bar.x == NAME_WIDTH + place * quarter
        assert bar.width == pytest.approx(quarter, abs=1)
        assert bar.letter == letter
    assert [says for _, says in strip.ticks] == ["+0 min", "+1 min", "+2 min", "+3 min", "+4 min"]


def test_a_long_soak_has_rows_of_whole_hours_and_at_most_so_many() -> None:
    plans = [entry(number, number, 58) for number in range(30 * 60)]
    strip = strip_of(plans)
    assert len(strip.rows) == 15 <= MOST_ROWS
    assert strip.ticks[-1][1] == "+2 h"
    for row in strip.rows:
        assert all(one.x + one.width <= other.x for one, other in pairwise(row.bars))
        assert row.bars[-1].x + row.bars[-1].width <= NAME_WIDTH + PLOT_WIDTH


def test_a_plan_that_ends_in_the_next_row_has_a_part_in_both_and_one_letter() -> None:
    plans = [entry(1, 0, 50 * 60), entry(2, 50, 15 * 60, FAIL), entry(3, 65)]
    first, second = bars(strip_of(plans))
    assert [letter for letter, _, _ in first] == ["P", "F"]
    assert [letter for letter, _, _ in second] == ["", "P"]


def test_plans_without_room_have_no_letter() -> None:
    plans = [entry(number, number / 60, 1) for number in range(3)]
    assert [letter for letter, _, _ in bars(strip_of(plans))[0]] == ["", "", ""]


def test_a_pause_of_days_is_cut_short_and_told() -> None:
    strip = strip_of([entry(1, 0), entry(2, 5 * 24 * 60)])
    assert (len(strip.rows), strip.pauses) == (1, 1)
    first, second = strip.rows[0].bars
    row_s = 12 * 60
    assert second.x - first.x == pytest.approx(PLOT_WIDTH * (60 + LONGEST_PAUSE_S) / row_s, abs=0.1)


def test_clocks_that_went_back_and_times_that_are_none_make_no_overlap() -> None:
    without = msgspec.structs.replace(entry(4, 0), began="yesterday")
    (row,) = strip_of([entry(1, 5), entry(2, 5), entry(3, 0, took_s=600), without]).rows
    assert all(one.x + one.width <= other.x for one, other in pairwise(row.bars))
    assert len(row.bars) == 4


def test_the_load_is_a_line_to_the_highest() -> None:
    strip = strip_of([entry(1, 0, load=2), entry(2, 1, load=8)])
    low, high = (float(point.split(",")[1]) for point in strip.rows[0].load.split())
    assert strip.most_load == 8
    assert (low - high) == pytest.approx(26 * 6 / 8, abs=0.1)


def test_without_plans_there_is_no_row() -> None:
    assert strip_of([]).rows == ()
