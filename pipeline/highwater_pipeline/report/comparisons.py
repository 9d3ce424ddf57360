"""The pages of a comparison and of a trend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from highwater_checker.verdict import Outcome
from highwater_pipeline.comparing.sides import Comparison, name_of
from highwater_pipeline.comparing.significance import ALPHA
from highwater_pipeline.comparing.values import LATENCY, TOTAL
from highwater_pipeline.comparing.verdicts import Answer
from highwater_pipeline.metrics.confidence import FASTER, NOT_SHOWN, SLOWER, TOO_FEW
from highwater_pipeline.report.pages import Page
from highwater_pipeline.report.plots import sides_beside
from highwater_pipeline.report.sections import Section, shown_interval, with_short_commits
from highwater_pipeline.report.trend_plot import medians_by_build
from highwater_pipeline.tables import Row
from highwater_pipeline.trend import Trend

TONES = {
    Answer.SLOWER: Outcome.FAIL,
    Answer.NOT_SHOWN: Outcome.PASS,
    Answer.NOT_ENOUGH: Outcome.UNKNOWN,
}
"""The verdict's outcome whose colour and exit code an answer has."""
HOW = (
    "In milliseconds, one value a run and, where one is named, kind of fault (the median over its "
    "faults, of each that over the partitions that it moved). a, b: the sides' medians, and the "
    "interval that holds each with 95 %, from six values on. ratio: of the medians, b's to a's. "
    "b_is_greater: the share of pairs in which b's value is the greater; 0.5 is no difference. "
    "p: of Mann and Whitney's test, after Holm's correction, so that anything at all is wrongly "
    f"shown in at most {ALPHA:.0%} of such comparisons. runs, lacking: of a, of b; lacking are "
    "those without the measure, as of a leader that was replaced before it acknowledged anything; "
    "where one side lacks more, its slowest failovers may be among those."
)
HOW_OF_TREND = (
    "In the order of the builds' first runs: medians in milliseconds, and the interval that holds "
    "each with 95 %, from six values on."
)
UPRIGHT = {
    TOTAL: "fault to acknowledgement, s",
    LATENCY: "a run's 99th percentile\nof send latency, s",
}
LEFT_OUT = "they do not say of which build they are, or no run of their build says when it began"


def page_of_comparison(found: Comparison) -> Page:
    """Return the page of two sides."""
    lead, basis = _answer_and_basis(found)
    return Page(
        name="compare",
        title=with_short_commits(
            f"{name_of(found.by, found.b)} beside {name_of(found.by, found.a)}"
        ),
        tone=TONES[found.answer],
        lead=lead,
        notes=(basis, *map(with_short_commits, notes_of(found))),
        sections=(_comparisons("Comparisons", found),),
    )


def _answer_and_basis(found: Comparison) -> tuple[str, str]:
    """Return the sentence's answer, and its basis, which may be long."""
    answer, basis = _BASIS.split(with_short_commits(found.sentence), maxsplit=1)
    return answer, basis


_BASIS = re.compile(r"(?<=\.) (?=It is faster: |More runs of |Compared: )")


def _comparisons(title: str, found: Comparison) -> Section:
    in_order = sorted(found.rows, key=lambda row: _VERDICTS.index(row["verdict"]))
    names = [with_short_commits(name_of(found.by, side)) for side in (found.a, found.b)]
    return Section(
        title,
        found.rows,
        note=HOW,
        svg=sides_beside(in_order, names),
        shown=[_side_by_side(row) for row in in_order],
    )


_VERDICTS = (SLOWER, FASTER, NOT_SHOWN, TOO_FEW)


def _side_by_side(row: Row) -> Row:
    def both(name: str) -> str:
        return f"{row[f'{name}_a']}, {row[f'{name}_b']}"

    sides = {
        side: shown_interval(*(row[f"{name}_{side}"] for name in ("median", "low", "high")))
        for side in ("a", "b")
    }
    told = {name: row[name] for name in ("ratio", "b_is_greater", "p")}
    of_what = {"fault": row["fault"] or "whole run"}
    of_what |= {name: row[name] for name in ("measure", "verdict")}
    return of_what | sides | told | {"runs": both("count"), "lacking": both("lacking")}


def notes_of(found: Comparison) -> tuple[str, ...]:
    """Return notes: the names of the sides, and other causes that a difference may have."""
    sides = (
        f"a: {name_of(found.by, found.a)}, {found.runs_a} runs; "
        f"b: {name_of(found.by, found.b)}, {found.runs_b} runs."
    )
    if not found.differences:
        return (sides,)
    others = "; ".join(found.differences)
    return sides, f"The sides also differ in {others}: a difference may come from that."


def page_of_trend(found: Trend) -> Page:
    """Return the page of builds over time."""
    builds = [build["build"] for build in found.builds]
    pictures = "".join(
        medians_by_build([row for row in found.rows if row["measure"] == measure], builds, says)
        for measure, says in UPRIGHT.items()
    )
    lead, last = lead_of_trend(found), Section("Last build", ())
    notes: tuple[str, ...] = ()
    if (compared := found.comparison) is not None:
        lead, basis = _answer_and_basis(compared)
        notes = (basis, *map(with_short_commits, notes_of(compared)))
        last = _comparisons("Last build", compared)
    if found.left_out:
        notes += (f"{found.left_out} runs are left out: {LEFT_OUT}.",)
    return Page(
        name="trend",
        title=f"{len(builds)} builds, by {found.by}",
        tone=tone_of_trend(found),
        lead=lead,
        notes=notes,
        sections=(
            Section("Trend", found.rows, note=HOW_OF_TREND, svg=pictures, shown=_by_build(found)),
            last,
            Section("Builds", _builds(found.builds)),
        ),
    )


def _by_build(found: Trend) -> list[Row]:
    """Return one row a build, with the medians of each fault and measure side by side."""
    columns = list(dict.fromkeys(map(_column, found.rows)))
    table: dict[str, Row] = {
        build["build"]: {"build": with_short_commits(build["build"])} | dict.fromkeys(columns, "")
        for build in found.builds
    }
    for row in found.rows:
        told = shown_interval(row["median"], row["low"], row["high"])
        table[row["build"]][_column(row)] = told
    return list(table.values())


def _column(row: Row) -> str:
    return f"{row['fault']} {row['measure']}".strip()


def tone_of_trend(found: Trend) -> Outcome:
    """Return the tone of the last build's comparison; one build alone has none."""
    return Outcome.UNKNOWN if found.comparison is None else TONES[found.comparison.answer]


def lead_of_trend(found: Trend) -> str:
    if found.comparison is None:
        (build,) = found.builds
        return f"There is one build alone, {name_of(found.by, build['build'])}: no trend."
    return found.comparison.sentence


def _builds(builds: Sequence[Row]) -> list[Row]:
    return [
        {"build": build["build"], "runs": build["runs"], "first_run": _at(build["first_ns"])}
        for build in builds
    ]


def _at(wall_ns: int) -> str:
    return f"{datetime.fromtimestamp(wall_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
