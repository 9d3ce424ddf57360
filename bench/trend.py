"""`python -m bench.trend PICTURE`: how the bench's figures moved, from a file with a line a bench.

`python -m bench --trend bench/trend.jsonl` adds the line. A point is Highwater's median over Apache
Kafka's of the same run, so that the machines' own speed is in none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bench.command import run_command
from bench.report import Result
from bench.targets import Better, Measure, make_repetitions, rows
from highwater.errors import HarnessError
from highwater.output import say

TREND = Path(__file__).parent / "trend.jsonl"
SHOWN = (
    "bring_up",
    "failover_2000",
    "produce_mb_1024b_1p",
    "produce_mb_1024b_12p",
    "produce_mb_100b_1p",
    "produce_mb_100b_12p",
    "consume_mb_1024b_1p",
    "consume_mb_1024b_12p",
    "consume_mb_100b_1p",
    "consume_mb_100b_12p",
    "latency_p50",
    "requests",
)
"""The measures that are drawn, in this order."""


class TrendLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One bench. medians: by system, Highwater first, then by the measure's key, in its unit.

    is_quiet: whether the machine was, None where nobody looked. commit: "" where it is not known.
    """

    date: str
    medians: Mapping[str, Mapping[str, float]]
    processor: str
    cores: int
    commit: str = ""
    is_quiet: bool | None = None
    quick: bool = False


def line_of(result: Result, commit: str) -> TrendLine:
    """Return the result's line, with medians of six digits."""
    return TrendLine(
        date=result.date,
        medians={
            system: {
                key: float(f"{each.median:.6g}") for key, each in result.summaries(system).items()
            }
            for system in result.systems
        },
        processor=result.machine.processor,
        cores=result.machine.cores,
        commit=commit,
        is_quiet=None if result.quietness is None else result.quietness.is_quiet,
        quick=result.quick,
    )


def add_line(path: Path, line: TrendLine) -> None:
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")


def read_lines(path: Path) -> list[TrendLine]:
    """Return the benches, the earliest first.

    Raises:
        HarnessError: the file cannot be read, or has a line of another structure.
    """
    found = []
    try:
        content = path.read_bytes()
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from error
    for number, text in enumerate(content.splitlines(), 1):
        try:
            found.append(msgspec.json.decode(text, type=TrendLine))
        except (msgspec.DecodeError, ValueError) as error:
            raise HarnessError(f"{path}, line {number}: {error}") from error
    return sorted(found, key=lambda line: line.date)


def ratios(lines: Sequence[TrendLine], measure: Measure) -> list[tuple[TrendLine, float]]:
    """Return how many times better than the second system Highwater was, of whole benches of two.

    Above 1 is better, whatever the measure's unit.
    """
    found = []
    for line in lines:
        systems = list(line.medians.values())
        if line.quick or len(systems) < 2:
            continue
        ours, theirs = (each.get(measure.key, 0.0) for each in systems[:2])
        if ours > 0 and theirs > 0:
            is_higher = measure.better is Better.HIGHER
            found.append((line, ours / theirs if is_higher else theirs / ours))
    return found


def trend(
    picture: Annotated[Path, typer.Argument(help="The PNG to write.")],
    file: Annotated[Path, typer.Option("--from", help="The file with a line a bench.")] = TREND,
) -> None:
    """Draw how many times better than Apache Kafka each measure was."""
    lines = read_lines(file)
    measures = {each.key: each for each in rows(make_repetitions(quick=False))}
    drawn = [(measures[key], ratios(lines, measures[key])) for key in SHOWN]
    if not any(points for _, points in drawn):
        raise HarnessError(f"{file} has no bench beside Apache Kafka")
    draw(drawn, picture)
    say(f"{picture}: {len(lines)} benches of {file}")


def draw(drawn: Sequence[tuple[Measure, Sequence[tuple[TrendLine, float]]]], picture: Path) -> None:
    """Draw a panel a measure; a filled point is of a quiet machine, an open one of another."""
    from matplotlib.figure import Figure

    columns = 4
    figure = Figure(figsize=(13, 2.6 * -(-len(drawn) // columns)), layout="constrained")
    panels = figure.subplots(-(-len(drawn) // columns), columns, squeeze=False)
    for panel, (measure, points) in zip(panels.flat, drawn, strict=False):
        places = range(len(points))
        values = [value for _, value in points]
        panel.axhline(1.0, color="0.6", linewidth=1)
        panel.plot(places, values, color="#0072B2", linewidth=1)
        for place, (line, value) in zip(places, points, strict=True):
            fill = "#0072B2" if line.is_quiet else "white"
            panel.plot(place, value, "o", color="#0072B2", markerfacecolor=fill)
        panel.set_title(measure.title, fontsize=9)
        panel.set_ylim(0, 1.15 * max([1.0, *values]))
        panel.set_xlim(-0.5, max(1, len(points)) - 0.5)
        panel.set_xticks(places, [line.date[5:10] for line, _ in points], fontsize=7)
        panel.tick_params(axis="y", labelsize=7)
    figure.suptitle(
        "Times better than Apache Kafka in the same run; 1 is equal. Filled: a quiet machine",
        fontsize=10,
    )
    figure.savefig(picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    run_command("bench.trend", trend)
