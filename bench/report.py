"""A run's result: on the terminal, as JSON, as Markdown. Makes text; measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from bench.machine import Machine
from bench.quietness import Quietness
from bench.summary import Summary, format_number, format_summary, ratio, summarize
from bench.targets import Measure, Outcome


@dataclass(frozen=True, slots=True)
class Result:
    """systems: in the table's order, Highwater first; samples by system and measure key.

    quietness: None of a result of an earlier version, or of a machine that does not say.
    """

    date: str
    duration_s: float
    quick: bool
    machine: Machine
    systems: Sequence[str]
    samples: Mapping[str, Mapping[str, Sequence[float]]]
    notes: Sequence[str] = field(default=())
    quietness: Quietness | None = None

    def summaries(self, system: str) -> dict[str, Summary]:
        """Return the summaries of the system's samples, by measure key."""
        return {key: summarize(values) for key, values in self.samples[system].items()}


def table_rows(result: Result, measures: Sequence[Measure]) -> list[list[str]]:
    """Return the table's cells: title with unit, each system's summary, and with two the ratio."""
    summaries = [result.summaries(system) for system in result.systems]
    rows = []
    for measure in measures:
        found = [summary.get(measure.key) for summary in summaries]
        if not any(found):
            continue
        cells = [f"{measure.title}, {measure.unit}"]
        cells += [format_summary(summary) if summary else "–" for summary in found]
        if len(found) == 2:
            ours, theirs = found
            times = ratio(ours, theirs) if ours and theirs else None
            cells.append("–" if times is None else f"{format_number(times)}×")
        rows.append(cells)
    return rows


def heading(result: Result) -> list[str]:
    """Return the table's column names."""
    return ["measure", *result.systems, *(["ratio"] if len(result.systems) == 2 else [])]


def print_result(
    console: Console, result: Result, measures: Sequence[Measure], outcomes: Sequence[Outcome]
) -> None:
    """Print the table, the targets and the machine."""
    table = Table(title=f"bench {result.date}: min / median / max (n)", title_justify="left")
    for index, name in enumerate(heading(result)):
        table.add_column(name, justify="left" if index == 0 else "right")
    for cells in table_rows(result, measures):
        table.add_row(*cells)
    console.print(table)
    if outcomes:
        console.print(_targets(outcomes))
    for line in (machine_line(result.machine), *notes_of(result)):
        console.print(line, markup=False)


def _targets(outcomes: Sequence[Outcome]) -> Table:
    table = Table(title="targets", title_justify="left")
    for name in ("target", "measured", "met"):
        table.add_column(name)
    for outcome in outcomes:
        table.add_row(outcome.target, outcome.measured, _met(outcome))
    return table


def markdown(result: Result, measures: Sequence[Measure], outcomes: Sequence[Outcome]) -> str:
    """Return the tables as docs/performance.md holds them."""
    lines = [
        f"Measured {result.date}{' (quick)' if result.quick else ''}, in "
        f"{result.duration_s / 60:.0f} minutes. Cells: min / median / max (n).",
        "",
        machine_line(result.machine),
        *(f"\n{note}" for note in notes_of(result)),
        "",
        *markdown_table(heading(result), table_rows(result, measures)),
        "",
        *markdown_table(
            ["target", "measured", "met"],
            [[outcome.target, outcome.measured, _met(outcome)] for outcome in outcomes],
        ),
        "",
    ]
    return "\n".join(lines)


def replace_between(text: str, begin: str, end: str, content: str) -> str:
    """Return the text with the lines between the two marker lines replaced.

    Raises:
        ValueError: the markers are not there, in this order.
    """
    head, found_begin, rest = text.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"no {begin} ... {end} to write between")
    return f"{head}{begin}\n{content.strip()}\n{end}{tail}"


def notes_of(result: Result) -> list[str]:
    """Return whether the machine was quiet, where that is known, and the notes."""
    return [*([str(result.quietness)] if result.quietness else []), *result.notes]


def machine_line(machine: Machine) -> str:
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB, Linux "
        f"{machine.kernel}, Docker {machine.engine}, Python {machine.python}, client librdkafka "
        f"{machine.client}; load average {machine.load_average_start:.2f} before, "
        f"{machine.load_average_end:.2f} after."
    )


def _met(outcome: Outcome) -> str:
    return {True: "yes", False: "no", None: "–"}[outcome.met]


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the table's lines; all columns but the first are numbers."""
    alignment = ["---", *("---:" for _ in names[1:])]
    return [_markdown_row(names), _markdown_row(alignment), *map(_markdown_row, rows)]


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
