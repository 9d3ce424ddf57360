"""`python -m bench.compare BEFORE AFTER`: what changed between two results of the bench.

Each is a result's file or a folder of them, of which all samples count. Where both have a second
system, as Apache Kafka, the changes are of the ratio to it: the hours' differences are in both.
A measure that it lacks is compared by itself.
Exits with 1 where a measure became worse by more than 5 %, with 2 where nothing can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from bench.command import run_command
from bench.confidence import Change, change_of
from bench.report import Result
from bench.summary import format_number, summarize
from bench.targets import Better, Measure, make_repetitions, rows
from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json

MEASURES = {each.key: each for each in rows(make_repetitions(quick=False))}


@dataclass(frozen=True, slots=True)
class Compared:
    """One measure on both sides. before, after: the samples, or their ratios to the second system.

    change: None where there are too few.
    """

    measure: Measure
    before: Sequence[float]
    after: Sequence[float]
    change: Change | None
    is_ratio: bool = False

    @property
    def is_worse(self) -> bool:
        """Whether it became worse by more than 5 %."""
        return self._is_better is False and self.change is not None and self.change.is_large

    @property
    def _is_better(self) -> bool | None:
        """None where nobody can tell."""
        if self.change is None or not self.change.is_told:
            return None
        return (self.change.factor > 1) == (self.measure.better is Better.HIGHER)

    def in_words(self) -> str:
        """Return whether it changed, and how sure that is."""
        if self.change is None:
            return "too few samples"
        by = f"{self.change.low - 1:+.0%} to {self.change.high - 1:+.0%}"
        if self._is_better is not None:
            return f"{'better' if self._is_better else 'worse'}: {by}"
        return f"unchanged: {by}" if self.change.is_none else f"cannot be told: {by}"


def compare(
    before: Annotated[Path, typer.Argument(help="A result, or a folder of results.")],
    after: Annotated[Path, typer.Argument(help="Likewise, of later.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare the results of the bench, measure by measure."""
    old, new = read_results(before), read_results(after)
    beside = common_second(old, new)
    compared = compared_measures(old, new, beside)
    if not compared:
        raise HarnessError(f"{before} and {after} have no measure of the bench in common")
    if json:
        print_json({"beside": beside, "measures": compared})
    else:
        RESULTS.print(_table(compared, beside))
        for told in sorted({told_busy(result) for result in (*old, *new)} - {""}):
            RESULTS.print(told, markup=False)
    raise typer.Exit(int(any(each.is_worse for each in compared)))


def read_results(path: Path) -> list[Result]:
    """Return the results of the file, or of the folder's files.

    Raises:
        HarnessError: there is none, or one is no result of the bench.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise HarnessError(f"{path}: no result is in it")
    found = []
    for file in files:
        try:
            result = msgspec.json.decode(file.read_bytes(), type=Result)
        except OSError as error:
            raise HarnessError(f"{file}: {error.strerror}") from error
        except (msgspec.DecodeError, ValueError) as error:
            raise HarnessError(f"{file} is no result of the bench: {error}") from error
        if not result.systems or any(name not in result.samples for name in result.systems):
            raise HarnessError(f"{file} is no result of the bench: a system has no samples")
        found.append(result)
    return found


def common_second(old: Sequence[Result], new: Sequence[Result]) -> str:
    """Return the second system where all results have the same one, "" otherwise."""
    seconds = {tuple(result.systems[1:2]) for result in (*old, *new)}
    return "".join(seconds.pop()) if len(seconds) == 1 else ""


def compared_measures(old: Sequence[Result], new: Sequence[Result], beside: str) -> list[Compared]:
    """Return the measures that both sides have, in the order of the bench's table."""
    found = []
    for measure in MEASURES.values():
        own = [_samples(side, measure.key, "") for side in (old, new)]
        ratios = [_samples(side, measure.key, beside) for side in (old, new)] if beside else own
        is_ratio = bool(beside) and all(ratios)
        before, after = ratios if is_ratio else own
        if before and after:
            change = change_of(before, after)
            found.append(Compared(measure, before, after, change, is_ratio))
    return found


def _samples(results: Iterable[Result], key: str, beside: str) -> list[float]:
    """Return Highwater's samples; beside another system, each with that of the same turn."""
    samples: list[float] = []
    for result in results:
        own = result.samples[result.systems[0]].get(key, ())
        if not beside:
            samples += own
            continue
        theirs = result.samples[beside].get(key, ())
        samples += [one / other for one, other in zip(own, theirs, strict=False) if other > 0]
    return samples


def told_busy(result: Result) -> str:
    """Return a sentence about a result of a busy machine, "" of another."""
    if result.quietness is None or result.quietness.is_quiet:
        return ""
    return f"{result.date}: {result.quietness}"


def _table(compared: Sequence[Compared], beside: str) -> Table:
    of = f"ratios to {beside}" if beside else "Highwater's own numbers"
    table = Table(title=f"{of}: medians (n), and the change with its 95 % interval")
    table.title_justify = "left"
    for name in ("measure", "before", "after", "change"):
        table.add_column(name, justify="left" if name in ("measure", "change") else "right")
    for each in compared:
        unit = "" if each.is_ratio else f", {each.measure.unit}"
        style = "red" if each.is_worse else ""
        cells = map(_cell, (each.before, each.after))
        table.add_row(f"{each.measure.title}{unit}", *cells, each.in_words(), style=style)
    return table


def _cell(samples: Sequence[float]) -> str:
    summary = summarize(samples)
    return f"{format_number(summary.median)} ({summary.count})"


if __name__ == "__main__":
    run_command("bench.compare", compare)
