"""What a comparison and a trend say, as pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from highwater_checker.verdict import Outcome
from highwater_pipeline.comparing.sides import Comparison, name_of
from highwater_pipeline.comparing.significance import ALPHA
from highwater_pipeline.comparing.values import LATENCY, TOTAL
from highwater_pipeline.comparing.verdicts import Answer
from highwater_pipeline.report.pages import Page
from highwater_pipeline.report.sections import Section
from highwater_pipeline.report.trend_plot import medians_by_build
from highwater_pipeline.tables import Row
from highwater_pipeline.trend import Trend

TONES = {
    Answer.SLOWER: Outcome.FAIL,
    Answer.NOT_SHOWN: Outcome.PASS,
    Answer.NOT_ENOUGH: Outcome.UNKNOWN,
}
"""What an answer is worth, as of verdicts: by it go the page's colour and the exit code."""
HOW = (
    "In milliseconds, one value a run and, where one is named, kind of fault (the median over its "
    "faults, of each that over the partitions that it moved). low and high hold the median with "
    "95 %, from six values on. ratio: of the "
    "medians, b's to a's. b_is_greater: the share of pairs in which b's value is the greater; 0.5 "
    "is no difference. z: Mann and Whitney's. p: after Holm's correction, so that anything at all "
    f"is wrongly shown in at most {ALPHA:.0%} of such comparisons. lacking: runs without the "
    "measure, as of a leader that was replaced before it acknowledged anything; where one side "
    "lacks more, its slowest failovers may be among those."
)
UPRIGHT = {
    TOTAL: "fault to acknowledgement, s",
    LATENCY: "a run's 99th percentile\nof send latency, s",
}
LEFT_OUT = "they do not say of which build they are, or no run of their build says when it began"


def page_of_comparison(found: Comparison) -> Page:
    """Return the page of two sides."""
    return Page(
        name="compare",
        title=f"{name_of(found.by, found.b)} beside {name_of(found.by, found.a)}",
        tone=TONES[found.answer],
        lead=found.sentence,
        notes=notes_of(found),
        sections=(Section("Comparisons", found.rows, note=HOW),),
    )


def notes_of(found: Comparison) -> tuple[str, ...]:
    """Return which side is which, and what else may have made a difference."""
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
    notes = () if found.comparison is None else notes_of(found.comparison)
    if found.left_out:
        notes += (f"{found.left_out} runs are left out: {LEFT_OUT}.",)
    return Page(
        name="trend",
        title=f"{len(builds)} builds, by {found.by}",
        tone=tone_of_trend(found),
        lead=lead_of_trend(found),
        notes=notes,
        sections=(
            Section(
                "Trend", found.rows, note="In the order of the builds' first runs.", svg=pictures
            ),
            Section("Builds", _builds(found.builds)),
            Section("Last build", found.comparison.rows if found.comparison else (), note=HOW),
        ),
    )


def tone_of_trend(found: Trend) -> Outcome:
    """Return what the last build's comparison is worth; one build alone has none."""
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
