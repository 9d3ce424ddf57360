"""Writes the verdicts of runs as Markdown, for a job's page in a CI or a pull request's comment."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.output import printable
from highwater.report.explained import Explained, command_to_explain, judge_and_explain, kinds_of
from highwater_checker.catalogue.rows import CATALOGUE
from highwater_checker.judging import judge_run
from highwater_checker.verdict import WORST_FIRST, Outcome, Verdict

MOST_TOLD = 10
"""Failed runs of which the story is told: a job's page on GitHub takes 1 MiB."""
MOST_LINES = 60
"""Lines of a story, the last ones: it ends with the finding."""
MOST_CHARACTERS = 300
"""Of a line, or a cell."""
MOST_ROWS = 500
"""Of the table of runs. Failed runs come first, then unknown ones."""
MOST_KINDS = 20
"""Rows of a failed run's table of findings."""
_WORDS = {Outcome.FAIL: "failed", Outcome.UNKNOWN: "unknown", Outcome.PASS: "passed"}


@dataclass(frozen=True, slots=True)
class ToldRun:
    """A run's folder as the user named it, its verdict, and its first finding as a story."""

    folder: Path
    verdict: Verdict
    told: Explained | None
    """None without findings, and of a run that is in the table alone."""


def judged(folder: Path, *, is_told: bool) -> ToldRun:
    """Judge the run of the folder; with is_told, explain its first finding, if it has one."""
    if is_told:
        return ToldRun(folder, *judge_and_explain(folder))
    return ToldRun(folder, judge_run(folder), None)


def summary_of(runs: Sequence[ToldRun]) -> str:
    """Return Markdown: a table of all runs, then each failed run's first finding and its story.

    What a run's files say stays text: it is never taken for Markdown or HTML. Tables and stories
    are bounded, so that all of it fits a job's page.
    """
    told = [(run, run.told) for run in runs if run.told is not None][:MOST_TOLD]
    lines = [f"## Highwater: {_headline(runs)}", "", *_table_of_runs(runs)]
    for run, explained in told:
        lines += ["", *_story_of(run, explained)]
    not_told = sum(bool(run.verdict.findings) for run in runs) - len(told)
    if not_told:
        lines += ["", f"{not_told} more failed runs are in the table alone."]
    return "\n".join(lines) + "\n"


def _headline(runs: Sequence[ToldRun]) -> str:
    counts = Counter(run.verdict.outcome for run in runs)
    words = [f"{counts[each]} {_WORDS[each]}" for each in WORST_FIRST if each in counts]
    return ", ".join(words) or "no run"


def _table_of_runs(runs: Sequence[ToldRun]) -> Iterator[str]:
    rows = [
        (
            _cell(str(run.folder)),
            run.verdict.outcome.value,
            _cell(next(iter(run.verdict.reasons), "")),
        )
        for run in sorted(runs, key=lambda run: WORST_FIRST.index(run.verdict.outcome))
    ]
    return _table(("run", "verdict", "first reason"), "| --- | --- | --- |", rows, MOST_ROWS)


def _story_of(run: ToldRun, told: Explained) -> Iterator[str]:
    yield f"### {_span(str(told.finding))}"
    yield ""
    if told.meaning:
        yield f"{_span(told.finding.invariant)} demands: {told.meaning}"
        yield ""
    for row in CATALOGUE:
        if row.number in told.finding.rows:
            yield f"A historical bug: {row.title} ({', '.join(row.ids)})."
            yield ""
    yield "See it again:"
    yield ""
    reproduce = f"highwater reproduce {shlex.quote(str(run.folder))}"
    yield from _code([printable(reproduce), printable(command_to_explain(run.folder))])
    yield ""
    story = list(told.story.lines())
    yield "<details><summary>What happened (the run's time in ms)</summary>"
    yield ""
    left_out = len(story) - MOST_LINES
    first = [f"... {left_out} lines before"] if left_out > 0 else []
    yield from _code([*first, *map(_short, story[-MOST_LINES:])])
    yield ""
    yield "</details>"
    if len(run.verdict.findings) > 1:
        yield ""
        yield from _table_of_kinds(run.verdict)


def _table_of_kinds(verdict: Verdict) -> Iterator[str]:
    rows = [
        (
            _cell(kind.invariant),
            _cell(f"{kind.topic}-{kind.partition}" if kind.topic else ""),
            str(kind.count),
        )
        for kind in kinds_of(verdict.findings)
    ]
    return _table(("invariant", "partition", "findings"), "| --- | --- | ---: |", rows, MOST_KINDS)


def _table(
    head: Sequence[str], alignment: str, rows: Sequence[Sequence[str]], most: int
) -> Iterator[str]:
    """Yield the table's lines: its first rows, and how many more there are."""
    yield f"| {' | '.join(head)} |"
    yield alignment
    for cells in rows[:most]:
        yield f"| {' | '.join(cells)} |"
    if len(rows) > most:
        yield f"| ... and {len(rows) - most} more | | |"


def _cell(text: str) -> str:
    """Return the text as code in a cell of a table."""
    return _span(text).replace("|", "\\|")


def _span(text: str) -> str:
    """Return the text on one line as code: it means nothing in Markdown or HTML, names nobody."""
    shown = _short(text).replace("`", "'")
    return f"`{shown}`" if shown else ""


def _code(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines as code. Each begins with a word or a time, so none ends it."""
    yield "```"
    yield from lines
    yield "```"


def _short(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 4]} ..."
