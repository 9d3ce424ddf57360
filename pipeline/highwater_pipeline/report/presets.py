"""The page of presets side by side: what each fix bought."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highwater_checker.catalogue.rows import CATALOGUE
from highwater_checker.verdict import Outcome
from highwater_pipeline.comparing.presets import CUTS, LOSSES, PresetCosts
from highwater_pipeline.report.pages import Page
from highwater_pipeline.report.plots import as_svg, styled
from highwater_pipeline.report.sections import Section, shown_interval
from highwater_pipeline.tables import Row

_LOSS, _OUTAGE, _CALLS = "#d55e00", "#e69f00", "#0072b2"
_HOW = (
    "Every preset ran the same schedules. losing per 1000: schedules in which committed records or "
    f"offsets are lost or differ ({', '.join(LOSSES)}), with the interval of 95 %. cutting per "
    f"1000: those in which an ISR member cuts committed records off ({', '.join(CUTS)}): they "
    "are lost if it leads next, and the run ends before that is seen. failing: those that no "
    "historical bug explains. unavailable ms per fault: virtual time in which a partition to which "
    "records were sent acknowledged none, over all partitions and faults that acted. "
    "calls (requests between controllers and brokers) and ZooKeeper's requests: of the time of the "
    "faults, for each change of a leader. A run ends with its first violation, so that a preset "
    "that loses records has shorter runs."
)
_PANELS = (
    ("losing_per_1000", "schedules of 1,000 that lose something", _LOSS),
    ("cutting_per_1000", "schedules of 1,000 that cut committed records off", _LOSS),
    ("unavailable_ms_per_fault", "unavailable ms per fault", _OUTAGE),
    ("control_calls_per_leader_change", "calls per leader change", _CALLS),
    ("zookeeper_requests_per_leader_change", "ZooKeeper requests per leader change", _CALLS),
)
_INTERVALS = {
    "losing_per_1000": ("low", "high"),
    "cutting_per_1000": ("cutting_low", "cutting_high"),
}
"""The columns of a measure's interval."""


def page_of_presets(found: PresetCosts) -> Page:
    """Return the page; its files are `presets` as HTML, Markdown and a CSV file a section."""
    return Page(
        name="presets",
        title="What each fix bought",
        tone=Outcome.PASS,
        lead=lead_of_presets(found),
        notes=found.notes,
        sections=(
            Section(
                "Presets",
                found.rows,
                note=_HOW,
                svg=_panels(found.rows),
                shown=[shown_costs(row) for row in found.rows],
            ),
            Section(
                "Bugs",
                [_named(row) for row in found.bugs],
                note="Schedules whose violation the bug explains; several may explain one.",
            ),
        ),
    )


def lead_of_presets(found: PresetCosts) -> str:
    """Return the comparison in a sentence."""
    losses = ", ".join(f"{row['preset']} {row['losing_per_1000']:.1f}" for row in found.rows)
    cuts = ", ".join(f"{row['preset']} {row['cutting_per_1000']:.1f}" for row in found.rows)
    return (
        f"Of 1,000 schedules lose something: {losses}; a replica cuts committed records off: "
        f"{cuts}. {found.schedules:,} schedules each."
    )


def shown_costs(row: Row) -> Row:
    """Return a preset's row for people."""
    losing = shown_interval(row["losing_per_1000"], row["low"], row["high"])
    cutting = shown_interval(row["cutting_per_1000"], row["cutting_low"], row["cutting_high"])
    left_out = {name for name in row if name.startswith(("losing", "cutting"))} | {"low", "high"}
    told = {
        name.replace("_", " "): round(value, 1) if isinstance(value, float) else value
        for name, value in row.items()
        if name not in left_out
    }
    per_1000 = {"losing per 1000": losing, "cutting per 1000": cutting}
    return {"preset": told.pop("preset"), **per_1000, **told}


def _named(row: Row) -> Row:
    bug = CATALOGUE[row["row"] - 1]
    return {"row": row["row"], "bug": bug.ids[0], "title": bug.title} | row


def _panels(rows: Sequence[Row]) -> str:
    """Draw a bar for each preset and measure."""
    with styled():
        figure = Figure(figsize=(9, 1.6 + 1.05 * len(rows)), layout="constrained")
        places = list(figure.subplots(3, 2).flat)
        for axes, (measure, says, colour) in zip(places, _PANELS, strict=False):
            _bars(axes, rows, measure, says, colour)
        for axes in places[len(_PANELS) :]:
            axes.remove()
        return as_svg(figure)


def _bars(axes: Axes, rows: Sequence[Row], measure: str, says: str, colour: str) -> None:
    values = [row[measure] or 0.0 for row in rows]
    ends, places = values, range(len(rows))
    axes.barh(places, values, color=colour, height=0.6)
    if measure in _INTERVALS:
        low, high = _INTERVALS[measure]
        reach = [
            [row[measure] - row[low] for row in rows],
            [row[high] - row[measure] for row in rows],
        ]
        axes.errorbar(values, places, xerr=reach, fmt="none", ecolor="#222222", capsize=2)
        ends = [row[high] for row in rows]
    for place, value, end in zip(places, values, ends, strict=True):
        axes.annotate(f" {value:,.1f}", (end, place), va="center", fontsize=7)
    axes.set_yticks(places, [row["preset"] for row in rows], parse_math=False)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.margins(x=0.15)
    axes.set_xlabel(says)
