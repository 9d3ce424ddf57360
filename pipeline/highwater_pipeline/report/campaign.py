"""The page of a campaign: its violations and its coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from highwater_checker.verdict import Outcome
from highwater_pipeline.report.pages import Page
from highwater_pipeline.report.plots import as_svg, styled
from highwater_pipeline.report.sections import Section
from highwater_pipeline.tables import Row


@dataclass(frozen=True, slots=True)
class CampaignRows:
    """The rows of the page's tables.

    found: one row a kind of violation.
    shrunk: one row a minimal plan.
    families: one row a family, with its numbers.
    coverage: mark, first (number of the first schedule that reached the mark), and the number of
        each family's schedules that did.
    faults: one row a kind of fault, with its outcomes.
    """

    found: Sequence[Row]
    shrunk: Sequence[Row]
    families: Sequence[Row]
    coverage: Sequence[Row]
    never_reached: Sequence[str]
    faults: Sequence[Row]
    schedules: int


def page_of_campaign(
    name: str, outcome: Outcome, lead: str, notes: Sequence[str], rows: CampaignRows
) -> Page:
    """Return the page; its files are campaign.html, campaign.md and a CSV file a section."""
    never = [{"mark": mark} for mark in rows.never_reached]
    return Page(
        name="campaign",
        title=f"Campaign {name}",
        tone=outcome,
        lead=lead,
        notes=tuple(notes),
        sections=(
            Section(
                "Found",
                rows.found,
                note="The message is the first one's, and replay shows it again.",
                shown=_found(rows.found),
                says_none=True,
            ),
            Section("Shrunk", rows.shrunk),
            Section("Families", rows.families, note="CPU of one schedule, judging included."),
            Section(
                "Coverage",
                rows.coverage,
                note="Schedules of each family that reached a mark, rare ones first.",
                svg=marks_by_schedule([row["first"] for row in rows.coverage], rows.schedules),
            ),
            Section("Never reached", never, note="Marks that other searches have reached."),
            Section("Faults", rows.faults),
        ),
    )


def _found(rows: Sequence[Row]) -> list[Row]:
    """Return the kinds of violations for people, undocumented ones first."""
    names = ("outcome", "invariant", "schedules", "message", "named", "replay")
    in_order = sorted(rows, key=lambda row: row["outcome"] != Outcome.FAIL)
    return [{name: row[name] for name in names} for row in in_order]


def marks_by_schedule(firsts: Sequence[int], schedules: int) -> str:
    """Draw the number of reached marks over the number of schedules; "" without any mark.

    firsts: for each mark, the number of the first schedule that reached it.
    """
    if not firsts:
        return ""
    places = [first + 1 for first in sorted(firsts)]
    with styled():
        figure = Figure(figsize=(9, 2.6), layout="constrained")
        axes = figure.subplots()
        axes.step(
            [*places, schedules], [*range(1, len(places) + 1), len(places)], where="post",
            color="#0072b2",
        )  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("schedules")
        axes.set_ylabel("coverage marks reached")
        return as_svg(figure)
