"""Writes the verdicts of runs as Markdown, for a job's page in a CI or a pull request's comment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.output import printable
from highwater.report.again import Again, again_of
from highwater.report.explained import Explained, command_to_explain, judge_and_explain, kinds_of
from highwater.report.page import PAGE
from highwater.run_folder import name_of_test
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
MOST_REASONS = 10
"""Of an unknown run."""
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
    again: Again | None = None
    test: str = ""
    """Its test, "" without one."""
    has_page: bool = False


def judged(folder: Path, *, is_told: bool) -> ToldRun:
    """Judge the run of the folder; with is_told, explain its first finding, if it has one."""
    test, has_page = name_of_test(folder), (folder / PAGE).is_file()
    verdict, told = judge_and_explain(folder) if is_told else (judge_run(folder), None)
    return ToldRun(folder, verdict, told, again_of(folder), test, has_page)


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
    unknown = [run for run in runs if run.verdict.outcome is Outcome.UNKNOWN]
    for run in unknown[:MOST_TOLD]:
        lines += ["", *_reasons_of(run)]
    if len(unknown) > MOST_TOLD:
        lines += ["", f"{len(unknown) - MOST_TOLD} more unknown runs are in the table alone."]
    return "\n".join(lines) + "\n"


def _headline(runs: Sequence[ToldRun]) -> str:
    counts = Counter(run.verdict.outcome for run in runs)
    words = [f"{counts[each]} {_WORDS[each]}" for each in WORST_FIRST if each in counts]
    return ", ".join(words) or "no run"


def _table_of_runs(runs: Sequence[ToldRun]) -> Iterator[str]:
    rows = [
        (
            _cell(str(run.folder)),
            _cell(run.test),
            run.verdict.outcome.value,
            _cell(next(iter(run.verdict.reasons), "")),
        )
        for run in sorted(runs, key=lambda run: WORST_FIRST.index(run.verdict.outcome))
    ]
    head = ("run", "test", "verdict", "first reason")
    return _table(head, "| --- | --- | --- | --- |", rows, MOST_ROWS)


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
    yield from _ways_of(run, run.again.explain if run.again else command_to_explain(run.folder))
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


def _reasons_of(run: ToldRun) -> Iterator[str]:
    """Yield why the verdict is unknown, and how the run is done again."""
    yield f"### {_span(str(run.folder))}: unknown"
    yield ""
    reasons = list(run.verdict.reasons)
    for reason in reasons[:MOST_REASONS]:
        yield f"- {_span(reason)}"
    if len(reasons) > MOST_REASONS:
        yield f"- ... and {len(reasons) - MOST_REASONS} more"
    yield ""
    yield from _ways_of(run)


def _ways_of(run: ToldRun, *more: str) -> Iterator[str]:
    """Yield the command that runs the same again, other commands, and the run's page."""
    again = run.again.command if run.again else ""
    commands = [each for each in (again, *more) if each]
    if commands:
        yield "See it again:"
        yield ""
        yield from _code([printable(each) for each in commands])
        yield ""
    if run.has_page:
        yield f"Its page: {_span(str(run.folder / PAGE))}"
        yield ""


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
        yield f"| ... and {len(rows) - most} more |{' |' * (len(head) - 1)}"


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
