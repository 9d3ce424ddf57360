"""The report of a search: one value, printed as tables or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from highwater.output import STYLES
from highwater.search.options import SearchOptions
from highwater.search.searching import Search, families_of, plan_name, replay_command
from highwater_checker.verdict import Outcome
from highwater_simulator.known_marks import never_reached, read_known_marks
from highwater_simulator.search import Kind, Summary

RAREST = 8
NEVER_SHOWN = 20
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class FaultCounts:
    """Counts of one kind of fault: done, without a target, its moment never came."""

    fault: str
    fired: int
    missed: int
    not_reached: int


@dataclass(frozen=True, slots=True)
class ViolationReport:
    """Violations of one kind; message, evidence and replay are the first one's."""

    invariant: str
    rows: tuple[int, ...]
    ids: tuple[str, ...]
    is_documented: bool
    schedules: int
    first_seed: int
    family: str
    message: str
    evidence: str
    plan: str
    replay: str


@dataclass(frozen=True, slots=True)
class LostReport:
    """A schedule that has no outcome."""

    seed: int
    family: str
    why: str


@dataclass(frozen=True, slots=True)
class SearchReport:
    """Units: *_s in seconds; percent of the schedules with disk faults; marks by schedules.

    lost: schedules without an outcome; of a campaign the first ones alone.
    lost_schedules: the number of all of them.
    """

    verdict: Outcome
    reasons: tuple[str, ...]
    options: SearchOptions
    schedules: int
    wall_s: float
    schedules_per_minute: float
    cpu_s: float
    simulated_s: float
    simulated_s_per_cpu_s: float
    events: int
    events_per_cpu_s: float
    acknowledged: int
    excused_schedules: int
    excused_percent: float
    flagged: dict[str, int]
    faults: tuple[FaultCounts, ...]
    marks: dict[str, int]
    marks_never_reached: tuple[str, ...]
    violations: tuple[ViolationReport, ...]
    lost_schedules: int
    lost: tuple[LostReport, ...]


def report_of(found: Search, folder: Path | None = None) -> SearchReport:
    """Return the search's report; folder has its plan files."""
    totals, options = found.totals, found.options
    reached = totals.reached_by()
    simulated_s, cpu_s = totals.simulated_ns / _NS_PER_S, totals.cpu_ns / _NS_PER_S
    return SearchReport(
        verdict=found.outcome,
        reasons=tuple(found.reasons()),
        options=options,
        schedules=totals.schedules,
        wall_s=round(found.wall_s, 3),
        schedules_per_minute=_per(60 * totals.schedules, found.wall_s),
        cpu_s=round(cpu_s, 3),
        simulated_s=round(simulated_s, 3),
        simulated_s_per_cpu_s=_per(simulated_s, cpu_s),
        events=totals.events,
        events_per_cpu_s=_per(totals.events, cpu_s),
        acknowledged=totals.acknowledged,
        excused_schedules=totals.excused,
        excused_percent=round(found.excused_percent, 2),
        flagged={str(kind): count for kind, count in sorted(totals.flagged.items())},
        faults=tuple(
            FaultCounts(name, totals.fired[name], totals.missed[name], totals.not_reached[name])
            for name in sorted({*totals.fired, *totals.missed, *totals.not_reached})
        ),
        marks=dict(sorted(reached.items(), key=lambda item: (item[1], item[0]))),
        marks_never_reached=tuple(
            never_reached(
                read_known_marks(), options.preset, families_of(options.families), reached
            )
        ),
        violations=tuple(
            _violation_report(kind, totals.kinds[kind], totals.first[kind], options, folder)
            for kind in sorted(totals.kinds)
        ),
        lost_schedules=len(found.lost) + found.more_lost,
        lost=tuple(
            LostReport(lost.schedule.seed, lost.schedule.family, lost.why) for lost in found.lost
        ),
    )


def _per(amount: float, of: float) -> float:
    return round(amount / of, 1) if of else 0.0


def _violation_report(
    kind: Kind, count: int, first: Summary, options: SearchOptions, folder: Path | None
) -> ViolationReport:
    plan_file = None if folder is None else folder / plan_name(first)
    found = first.found
    return ViolationReport(
        invariant=kind.invariant,
        rows=kind.rows,
        ids=() if found is None else found.ids,
        is_documented=found is not None and found.is_documented,
        schedules=count,
        first_seed=first.schedule.seed,
        family=first.schedule.family,
        message="" if found is None else str(found.violation),
        evidence="" if found is None else found.evidence,
        plan="" if plan_file is None else str(plan_file),
        replay=replay_command(first, options, plan_file),
    )


# ---------------------------------------------------------------- tables


def print_report(report: SearchReport, console: Console) -> None:
    """Print the report: numbers, faults, coverage, violations, verdict."""
    console.print(_numbers(report))
    if report.faults:
        console.print(_faults(report.faults))
    _print_coverage(report, console)
    if report.violations:
        console.print(_violations(report.violations))
        for each in report.violations:
            _print_violation(each, console)
    for lost in report.lost:
        console.print(Text(f"seed {lost.seed}, {lost.family}: {lost.why}", style="yellow"))
    for reason in report.reasons:
        console.print(Text(reason.splitlines()[0], style="yellow"), soft_wrap=True)
    console.print(Text(f"verdict: {report.verdict.value}", style=STYLES[report.verdict]))


def _numbers(report: SearchReport) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    options = report.options
    planted = f", planted bug {options.bug}" if options.bug else ""
    mutants = ", with coverage feedback" if options.has_feedback else ""
    what = f"{options.families} from seed {options.first_seed} on, preset {options.preset}"
    rows = (
        ("schedules", f"{report.schedules:,}", what + planted + mutants),
        ("wall clock", f"{report.wall_s:,.1f} s", f"{report.schedules_per_minute:,.0f} a minute"),
        (
            "simulated",
            f"{report.simulated_s:,.0f} s",
            f"{report.simulated_s_per_cpu_s:,.1f} s a CPU second",
        ),
        ("events", f"{report.events:,}", f"{report.events_per_cpu_s:,.0f} a CPU second"),
        ("acknowledged records", f"{report.acknowledged:,}", ""),
        (
            "schedules with an excused loss",
            f"{report.excused_schedules:,}",
            f"{report.excused_percent:.1f} % of those with disk faults (disks, joins)",
        ),
    )
    for row in rows:
        table.add_row(*row)
    for invariant, count in report.flagged.items():
        table.add_row(f"flagged {invariant}", f"{count:,}", "")
    return table


def _faults(faults: Sequence[FaultCounts]) -> Table:
    table = Table("fault", "done", "nobody to act on", "moment never came", box=None)
    for each in faults:
        counts = (each.fired, each.missed, each.not_reached)
        table.add_row(each.fault.replace("_", " "), *(f"{count:,}" for count in counts))
    total = [sum(getattr(each, name) for each in faults) for name in FaultCounts.__slots__[1:]]
    table.add_row("all", *(f"{count:,}" for count in total), style="bold")
    return table


def _print_coverage(report: SearchReport, console: Console) -> None:
    never = report.marks_never_reached
    console.print(f"coverage marks: {len(report.marks)} reached, {len(never)} known ones never")
    rarest = list(report.marks.items())[:RAREST]
    for mark, count in rarest:
        console.print(
            f"  in {count} of {report.schedules} schedules: {mark}", markup=False, soft_wrap=True
        )
    for mark in never[:NEVER_SHOWN]:
        console.print(f"  never: {mark}", markup=False, soft_wrap=True)
    if len(never) > NEVER_SHOWN:
        console.print(f"  ... and {len(never) - NEVER_SHOWN} more in search.json")


def _violations(violations: Sequence[ViolationReport]) -> Table:
    table = Table("violation", "row", "named", "schedules", "first seed", "family")
    for each in violations:
        table.add_row(
            each.invariant,
            ", ".join(str(row) for row in each.rows) or "-",
            ", ".join(each.ids) or "-",
            f"{each.schedules:,}",
            str(each.first_seed),
            each.family,
            style="" if each.is_documented else "red",
        )
    return table


def _print_violation(each: ViolationReport, console: Console) -> None:
    said = f" [{each.evidence}]" if each.evidence else ""
    console.print(Text(f"{each.message}{said}"), soft_wrap=True)
    for line in (each.replay, each.plan):
        if line:
            console.print(Text(f"  {line}", style="cyan"), soft_wrap=True)
