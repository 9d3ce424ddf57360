"""The report of a campaign: that of a search, and the sections that only a campaign has.

The sums come from Spark as rows; verdict, reasons and tables are those of `highwater sim run`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from highwater.output import table_of_columns
from highwater.search.options import Families, SearchOptions
from highwater.search.pool import Lost
from highwater.search.report import SearchReport, print_report, report_of
from highwater.search.schedule_rows import kind_of, summary_of
from highwater.search.searching import Search
from highwater.search.shrinking import command_for
from highwater_chaos.words import counted
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset
from highwater_pipeline.campaign.state import Settings
from highwater_pipeline.report.campaign import CampaignRows
from highwater_pipeline.tables import Row
from highwater_simulator.generate import Family
from highwater_simulator.search import Schedule, Totals

_NS_PER_MS, _NS_PER_HOUR = 1e6, 3.6e12


@dataclass(frozen=True, slots=True)
class Sums:
    """Spark's sums (highwater_pipeline.campaign.sums), and the rows of SHRUNK."""

    families: Sequence[Row]
    entries: Sequence[Row]
    chosen: Sequence[Row]
    lost: Sequence[Row]
    shrunk: Sequence[Row]


@dataclass(frozen=True, slots=True)
class ShrunkPlan:
    """A failing schedule's shrunk plan; plan "" where shrinking failed, and words say why."""

    invariant: str
    rows: tuple[int, ...]
    seed: int
    family: str
    steps_before: int | None
    steps_after: int | None
    runs: int | None
    is_minimal: bool
    plan: str
    words: str


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """A campaign for machines.

    groups: number of groups.
    groups_now: groups that this process ran.
    search: a report as of `highwater sim run`; its wall clock is summed over all processes, its
    jobs mean nothing, its marks count schedules.
    families, coverage: rows of the page.
    """

    campaign: str
    verdict: Outcome
    settings: Settings
    master: str
    groups: int
    groups_now: int
    search: SearchReport
    families: tuple[Row, ...]
    coverage: tuple[Row, ...]
    shrunk: tuple[ShrunkPlan, ...]
    page: str


def search_of(settings: Settings, families: Families, sums: Sums, wall_s: float) -> Search:
    """Return the campaign's result as a search."""
    options = SearchOptions(
        schedules=settings.schedules,
        first_seed=settings.first_seed,
        preset=Preset(settings.preset),
        families=families,
        bug=settings.planted,
    )
    lost = [
        Lost(Schedule(row["seed"], Family(row["family"])), settings.planted, row["message"])
        for row in sums.lost
    ]
    more_lost = sum(row["lost"] for row in sums.families) - len(lost)
    return Search(options, totals_of(sums), lost, wall_s, more_lost=more_lost)


def totals_of(sums: Sums) -> Totals:
    """Return the totals that highwater_simulator.search.total gives for the same schedules."""
    totals = Totals()
    for row in sums.families:
        family = Family(row["family"])
        totals.by_family[family] = row["schedules"] - row["lost"]
        totals.reached[family] = Counter()
        totals.failing += row["fail"]
        for name in ("excused", "events", "simulated_ns", "cpu_ns", "acknowledged"):
            setattr(totals, name, getattr(totals, name) + row[name])
    for row in sums.entries:
        if row["what"] == "marks":
            totals.reached[Family(row["family"])][row["entry"]] = row["count"]
        elif row["what"] == "flagged":
            totals.flagged[kind_of(row["entry"])] += row["count"]
        else:
            getattr(totals, row["what"])[row["entry"]] += row["count"]
    for row in sums.chosen:
        summary = summary_of(row)
        if summary.found is not None:
            kind = summary.found.kind
            totals.kinds[kind] = row["of_kind"]
            totals.first.setdefault(kind, summary)
    return totals


# ---------------------------------------------------------------- rows of the page


def families_of_campaign(families: Iterable[Row]) -> tuple[Row, ...]:
    """Return one row a family. Units: simulated_h virtual hours; CPU milliseconds a schedule."""
    return tuple(
        {
            **{name: row[name] for name in ("family", "schedules", "pass", "fail")},
            **{name: row[name] for name in ("documented", "lost", "excused", "events")},
            "simulated_h": row["simulated_ns"] / _NS_PER_HOUR,
            "cpu_s": row["cpu_ns"] / 1e9,
            "cpu_mean_ms": row["cpu_ns"] / _NS_PER_MS / row["schedules"],
            "cpu_median_ms": row["cpu_median_ns"] / _NS_PER_MS,
            "cpu_p99_ms": row["cpu_p99_ns"] / _NS_PER_MS,
        }
        for row in families
    )


def coverage_of(entries: Iterable[Row], families: Sequence[str]) -> tuple[Row, ...]:
    """Return one row a mark, rare ones first: first, schedules, and those of each family."""
    marks: dict[str, Row] = {}
    for row in entries:
        if row["what"] == "marks":
            zero = {"mark": row["entry"], "first": row["first"], "schedules": 0}
            mark = marks.setdefault(row["entry"], zero | dict.fromkeys(families, 0))
            mark["first"] = min(mark["first"], row["first"])
            mark["schedules"] += row["count"]
            mark[row["family"]] = row["count"]
    return tuple(sorted(marks.values(), key=lambda mark: (mark["schedules"], mark["mark"])))


def page_rows(report: CampaignReport) -> CampaignRows:
    search = report.search
    return CampaignRows(
        found=[
            {
                "invariant": each.invariant,
                "rows": ", ".join(map(str, each.rows)),
                "named": ", ".join(each.ids),
                "outcome": "documented" if each.is_documented else "fail",
                "schedules": each.schedules,
                "first_seed": each.first_seed,
                "family": each.family,
                "message": each.message,
                "plan": each.plan,
                "replay": each.replay,
            }
            for each in search.violations
        ],
        shrunk=[
            {
                "invariant": each.invariant,
                "seed": each.seed,
                "family": each.family,
                "steps": each.steps_before,
                "left": each.steps_after,
                "is_minimal": each.is_minimal,
                "plan": each.plan or each.words,
            }
            for each in report.shrunk
        ],
        families=report.families,
        coverage=report.coverage,
        never_reached=search.marks_never_reached,
        faults=[
            {
                "fault": each.fault,
                "done": each.fired,
                "nobody_to_act_on": each.missed,
                "moment_never_came": each.not_reached,
            }
            for each in search.faults
        ],
        schedules=search.schedules,
    )


def shrunk_plans(rows: Iterable[Row], plans: Path) -> tuple[ShrunkPlan, ...]:
    """Return the minimal plans, by their file names."""
    return tuple(
        ShrunkPlan(
            invariant=row["invariant"],
            rows=tuple(row["rows"]),
            seed=row["seed"],
            family=row["family"],
            steps_before=row["steps_before"],
            steps_after=row["steps_after"],
            runs=row["runs"],
            is_minimal=bool(row["is_minimal"]),
            plan=str(plans / shrunk_name(row)) if row["plan"] is not None else "",
            words=row["words"],
        )
        for row in rows
    )


def shrunk_name(row: Row) -> str:
    """Return the file name of a minimal plan; searching.plan_name is that of the plan as found."""
    return f"seed-{row['seed']}-{row['family']}.shrunk.json"


def make_report(
    found: Search, settings: Settings, sums: Sums, plans: Path, **of_campaign: Any
) -> CampaignReport:
    """Return the report; of_campaign: campaign, master, groups, groups_now, page."""
    return CampaignReport(
        verdict=found.outcome,
        settings=settings,
        search=report_of(found, plans),
        families=families_of_campaign(sums.families),
        coverage=coverage_of(sums.entries, settings.families),
        shrunk=shrunk_plans(sums.shrunk, plans),
        **of_campaign,
    )


def lead_of(report: CampaignReport) -> str:
    """Return the campaign in a sentence."""
    failing = sum(row["fail"] for row in report.families)
    simulated_h = sum(row["simulated_h"] for row in report.families)
    return (
        f"{report.verdict.value}: {failing:,} of {counted(report.settings.schedules, 'schedule')} "
        f"fail; {report.search.events:,} events in {simulated_h:,.1f} simulated hours, each judged"
    )


def notes_of(report: CampaignReport) -> list[str]:
    """Return notes on the run, and the reasons where the campaign proves nothing."""
    settings = report.settings
    planted = f", planted bug {settings.planted}" if settings.planted else ""
    commit = f", commit {settings.commit}" if settings.commit else ""
    last = settings.first_seed + settings.seeds - 1
    return [
        f"Seeds {settings.first_seed} to {last}, {', '.join(settings.families)}, preset "
        f"{settings.preset}{planted}; code {settings.code[:16]}{commit}; on {report.master}.",
        *report.search.reasons,
    ]


# ---------------------------------------------------------------- on the terminal


def print_campaign(report: CampaignReport, console: Console) -> None:
    """Print the families, the minimal plans, and a search's report."""
    console.print(table_of_columns(report.families, "family", _cell))
    for each in report.shrunk:
        _print_shrunk(each, console)
    print_report(report.search, console)
    console.print(Text(report.page), soft_wrap=True)


def _cell(value: float) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def _print_shrunk(each: ShrunkPlan, console: Console) -> None:
    if not each.plan:
        said = f"{each.invariant}, seed {each.seed}, {each.family}: {each.words}"
        console.print(Text(said, style="yellow"), soft_wrap=True)
        return
    ending = "" if each.is_minimal else ", its runs used up"
    said = f"{each.invariant}, seed {each.seed}, {each.family}: "
    steps = f"{each.steps_before} steps, {each.steps_after} left{ending}"
    console.print(Text(said + steps), soft_wrap=True)
    console.print(Text(f"  {command_for(Path(each.plan))}", style="cyan"), soft_wrap=True)
