"""The bench of faults as text: on a terminal and as Markdown. Measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from bench.fault_times import FaultTimes
from bench.machine import Machine
from bench.report import machine_line, markdown_table
from bench.suite_time import SuiteTime
from bench.summary import Summary, format_number, ratio, summarize

FAULT_COLUMNS = (
    "fault", "acts", "is proven", "is proven gone", "bare calls", "do", "ratio", "undo", "ratio",
)  # fmt: skip
RUN_COLUMNS = ("a run's fixed cost", "s")
SUITE_COLUMNS = ("tests", "s")
NOT_MEASURED = "–"
LONGEST_FILES = 8


@dataclass(frozen=True, slots=True)
class FaultResult:
    """The results of one bench of faults.

    ours: our times of each fault, by example_name.
    bare_calls: the bare call beside each fault, by example_name.
    bare: the seconds to do and to undo each bare call, by its description.
    run: the seconds of each phase of a run, in order.
    """

    date: str
    duration_s: float
    machine: Machine
    ours: Mapping[str, Sequence[FaultTimes]]
    bare: Mapping[str, Sequence[tuple[float, float]]]
    bare_calls: Mapping[str, str]
    run: Mapping[str, Sequence[float]]
    suite: SuiteTime | None = None


def joined(one: FaultResult, other: FaultResult) -> FaultResult:
    """Return both results as one, with the other's date and machine; they have different faults."""
    return replace(
        other,
        duration_s=one.duration_s + other.duration_s,
        ours={**one.ours, **other.ours},
        bare={**one.bare, **other.bare},
        bare_calls={**one.bare_calls, **other.bare_calls},
        run={**one.run, **other.run},
        suite=other.suite or one.suite,
    )


def fault_rows(result: FaultResult) -> list[list[str]]:
    """Return each fault's cells; our times beside the bare calls' of the same turns."""
    return [_fault_row(result, name) for name in result.ours]


def _fault_row(result: FaultResult, name: str) -> list[str]:
    times = result.ours[name]
    acts = _summary([each.acts_s for each in times if each.acts_s is not None])
    proven = _summary([each.proven_s for each in times])
    gone = _summary([each.gone_s for each in times])
    bare_calls = result.bare_calls.get(name, NOT_MEASURED)
    bare = result.bare.get(bare_calls, ())
    do, undo = _summary([each for each, _ in bare]), _summary([each for _, each in bare])
    return [
        f"`{name}`",
        *map(_median_and_maximum, (acts, proven, gone)),
        bare_calls,
        _median_and_maximum(do),
        _times(proven, do),
        _median_and_maximum(undo),
        _times(gone, undo),
    ]


def run_rows(result: FaultResult) -> list[list[str]]:
    """Return the phases of a run without steps."""
    return [[phase, _median_and_maximum(_summary(took))] for phase, took in result.run.items()]


def suite_rows(suite: SuiteTime) -> list[list[str]]:
    """Return the suite's wall time, and the seconds of its longest files."""
    whole = [f"all {suite.tests}, wall time", f"{suite.wall_s:.0f}"]
    return [whole, *([f"`{name}`", f"{took:.0f}"] for name, took in suite.files[:LONGEST_FILES])]


def markdown(result: FaultResult) -> str:
    """Return the tables as docs/performance.md holds them."""
    count = max((len(times) for times in result.ours.values()), default=0)
    lines = [
        f"Measured {result.date}, in {result.duration_s / 60:.0f} minutes; seconds, median "
        f"(maximum) of {count}, of a run's phases of {_runs(result)}.",
        "",
        machine_line(result.machine),
        "",
        *markdown_table(FAULT_COLUMNS, fault_rows(result)),
        "",
        *markdown_table(RUN_COLUMNS, run_rows(result)),
    ]
    if result.suite is not None:
        lines += ["", *markdown_table(SUITE_COLUMNS, suite_rows(result.suite))]
    return "\n".join(lines)


def print_result(console: Console, result: FaultResult) -> None:
    """Print the tables and the machine."""
    _print_table(console, "faults, s: median (maximum)", FAULT_COLUMNS, fault_rows(result))
    _print_table(console, "a run without steps", RUN_COLUMNS, run_rows(result))
    if result.suite is not None:
        _print_table(console, "a suite of tests", SUITE_COLUMNS, suite_rows(result.suite))
    console.print(machine_line(result.machine), markup=False)


def _print_table(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for cells in rows:
        table.add_row(*cells)
    console.print(table)


def _runs(result: FaultResult) -> int:
    return max((len(took) for took in result.run.values()), default=0)


def _summary(samples: Sequence[float]) -> Summary | None:
    return summarize(samples) if samples else None


def _median_and_maximum(found: Summary | None) -> str:
    if found is None:
        return NOT_MEASURED
    return f"{format_number(found.median)} ({format_number(found.maximum)})"


def _times(ours: Summary | None, bare: Summary | None) -> str:
    times = ratio(ours, bare) if ours and bare else None
    return NOT_MEASURED if times is None else f"{format_number(times)}×"
