"""The verdict of all comparisons: one row a fault and measure, and one sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from highwater_pipeline.comparing.significance import ALPHA, holm, two_sided
from highwater_pipeline.comparing.values import MEASURES, TOTAL, WHOLE_RUN
from highwater_pipeline.metrics.confidence import (
    COMPARABLE_FROM,
    FASTER,
    NOT_SHOWN,
    SLOWER,
    TOO_FEW,
)
from highwater_pipeline.tables import Row

LISTED_MAX = 3
"""Values of a column that a sentence lists."""


class Answer(StrEnum):
    """Whether b is slower than a."""

    SLOWER = "b is slower"
    NOT_SHOWN = "nothing is shown to be slower"
    NOT_ENOUGH = "not enough to tell"


def compared(measured: Iterable[Row], tests: Iterable[Row], a: str, b: str) -> tuple[Row, ...]:
    """Return one row a fault and measure: both groups side by side, and the verdict.

    measured, tests: rows of values.measured and values.tested.

    Columns:
        fault, measure.
        count_a, median_a, low_a, high_a, lacking_a, and the same of side b.
        ratio: b's median divided by a's.
        b_is_greater, z: as in confidence.comparison.
        p: adjusted by holm, over every row with enough values.
        verdict: the test's, or NOT_SHOWN if the adjusted p is not significant.
    Sort key: fault, then the measures' own order.
    """
    sides: dict[tuple[str, str], dict[str, Row]] = {}
    for row in measured:
        if row["group"] in (a, b):
            sides.setdefault((row["fault"], row["measure"]), {})[row["group"]] = row
    of_tests = {(row["fault"], row["measure"]): row for row in tests}
    found = [
        _row(place, sides[place].get(a, {}), sides[place].get(b, {}), of_tests.get(place, {}))
        for place in sorted(sides, key=lambda each: (each[0], MEASURES.index(each[1])))
    ]
    able = [row for row in found if row["verdict"] != TOO_FEW]
    for row, p in zip(able, holm([two_sided(row["z"]) for row in able]), strict=True):
        row["p"] = p
        if p >= ALPHA:
            row["verdict"] = NOT_SHOWN
    return tuple(found)


def _row(place: tuple[str, str], a: Row, b: Row, test: Row) -> Row:
    fault, measure = place
    of_sides = {
        f"{name}_{side}": row.get(name, 0 if name in ("count", "lacking") else None)
        for side, row in (("a", a), ("b", b))
        for name in ("count", "median", "low", "high", "lacking")
    }
    median_a, median_b = of_sides["median_a"], of_sides["median_b"]
    return {
        "fault": fault,
        "measure": measure,
        "verdict": test.get("verdict", TOO_FEW),
        **of_sides,
        "ratio": median_b / median_a if median_a and median_b is not None else None,
        "b_is_greater": test.get("b_is_greater"),
        "z": test.get("z"),
        "p": None,
    }


def answer_of(rows: Sequence[Row]) -> Answer:
    """Return the answer.

    NOT_ENOUGH: no comparison of whole failovers has enough values; or b lacks a greater share of
    values than a, since the slowest failovers may be missing: those that never ended.
    """
    if any(row["verdict"] == SLOWER for row in rows):
        return Answer.SLOWER
    could_tell = any(row["measure"] == TOTAL and row["verdict"] != TOO_FEW for row in rows)
    return Answer.NOT_SHOWN if could_tell and not _hiding(rows) else Answer.NOT_ENOUGH


def _hiding(rows: Sequence[Row]) -> list[Row]:
    """Return the rows in which side b lacks a greater share of values than side a."""
    return [row for row in rows if _lacking_share(row, "b") > _lacking_share(row, "a")]


def _lacking_share(row: Row, side: str) -> float:
    lacking, count = row[f"lacking_{side}"], row[f"count_{side}"]
    return lacking / (lacking + count) if lacking else 0.0


def sentence(rows: Sequence[Row], a: str, b: str) -> str:
    """Return the answer in words, then its basis. a, b: names of the sides."""
    slower, faster = (
        "; ".join(_shown(row) for row in rows if row["verdict"] == verdict)
        for verdict in (SLOWER, FASTER)
    )
    few = [_name(row) for row in rows if row["verdict"] == TOO_FEW]
    head = {
        Answer.SLOWER: f"{b} is slower than {a}: {slower}.",
        Answer.NOT_SHOWN: f"Nothing shows that {b} is slower than {a}.",
        Answer.NOT_ENOUGH: f"There is not enough to tell whether {b} is slower to fail over than "
        f"{a}: {TOTAL} takes {COMPARABLE_FROM} runs with one kind of fault on each side, and no "
        f"more runs without one on {b} than on {a}.",
    }  # fmt: skip
    parts = [head[answer_of(rows)]]
    if faster:
        parts.append(f"It is faster: {faster}.")
    if hiding := [f"{_name(row)} ({row['lacking_b']})" for row in _hiding(rows)]:
        parts.append(f"More runs of {b} than of {a} lack: {', '.join(hiding)}.")
    parts.append(f"Compared: {len(rows) - len(few)} of {len(rows)}.")
    if few:
        parts.append(f"Too few values: {', '.join(few)}.")
    return " ".join(parts)


def _name(row: Row) -> str:
    where = "of whole runs" if row["fault"] == WHOLE_RUN else f"after {row['fault']}"
    return f"{row['measure']} {where}"


def _shown(row: Row) -> str:
    times = "" if row["ratio"] is None else f", the median {row['ratio']:.3g} times"
    return f"{_name(row)} (greater in {row['b_is_greater']:.0%} of pairs{times})"


def differences(a: Sequence[Row], b: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Return the other columns in which the two sides' runs differ, one text a column."""
    return [
        f"{column} ({_listed(of_a)}; {_listed(of_b)})"
        for column in columns
        for of_a, of_b in ((_values(a, column), _values(b, column)),)
        if of_a != of_b
    ]


def _values(runs: Sequence[Row], column: str) -> list[str]:
    return sorted({"" if run[column] is None else str(run[column]) for run in runs})


def _listed(values: Sequence[str]) -> str:
    more = len(values) - LISTED_MAX
    shown = ", ".join(value or "none" for value in values[:LISTED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
