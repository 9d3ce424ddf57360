"""Writes the verdicts of runs as Markdown, for a job's page in a CI or a pull request's comment."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.output import printable
from highwater.report.explained import Explained, command_to_explain, explain_finding, kinds_of
from highwater_checker.catalogue.rows import CATALOGUE
from highwater_checker.judging import judge_evidence
from highwater_checker.run_folder.evidence import read_evidence
from highwater_checker.verdict import Outcome, Verdict

MOST_TOLD = 10
"""Failed runs of which the story is told: a job's page on GitHub takes 1 MiB."""
MOST_LINES = 60
"""Lines of a story, the last ones: it ends with the finding."""
MOST_CHARACTERS = 300
"""Of a line, or a cell."""
MOST_ROWS = 500
"""Of the table of runs. Those that did not pass come first."""
MOST_KINDS = 20
"""Rows of a failed run's table of findings."""


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run's folder as the user named it, its verdict, and its first finding as a story."""

    folder: Path
    verdict: Verdict
    told: Explained | None


def judged(folder: Path) -> JudgedRun:
    """Judge the run of the folder, and explain its first finding, if it has one."""
    evidence = read_evidence(folder)
    verdict = judge_evidence(evidence)
    told = explain_finding(folder, evidence, verdict) if verdict.findings else None
    return JudgedRun(folder, verdict, told)


def summary_of(runs: Sequence[JudgedRun]) -> str:
    """Return Markdown: a table of all runs, then each failed run's first finding and its story.

    What a run's files say stays text: it is never taken for Markdown or HTML. Tables and stories
    are bounded, so that all of it fits a job's page.
    """
    failed = [(run, run.told) for run in runs if run.told is not None]
    lines = [f"## Highwater: {_headline(runs)}", "", *_table(runs)]
    for run, told in failed[:MOST_TOLD]:
        lines += ["", *_story_of(run, told)]
    if len(failed) > MOST_TOLD:
        lines += ["", f"{len(failed) - MOST_TOLD} more failed runs are in the table alone."]
    return "\n".join(lines) + "\n"


def _headline(runs: Sequence[JudgedRun]) -> str:
    counts = [
        f"{count} {word}"
        for outcome, word in (
            (Outcome.FAIL, "failed"),
            (Outcome.UNKNOWN, "unknown"),
            (Outcome.PASS, "passed"),
        )
        if (count := sum(run.verdict.outcome is outcome for run in runs))
    ]
    return ", ".join(counts) or "no run"


def _table(runs: Sequence[JudgedRun]) -> Iterator[str]:
    yield "| run | verdict | first reason |"
    yield "| --- | --- | --- |"
    shown = sorted(runs, key=lambda run: run.verdict.outcome is Outcome.PASS)[:MOST_ROWS]
    for run in shown:
        reason = next(iter(run.verdict.reasons), "")
        yield f"| {_cell(str(run.folder))} | {run.verdict.outcome.value} | {_cell(reason)} |"
    if len(runs) > len(shown):
        yield f"| ... and {len(runs) - len(shown)} more | | |"


def _story_of(run: JudgedRun, told: Explained) -> Iterator[str]:
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
        yield from _kinds(run.verdict)


def _kinds(verdict: Verdict) -> Iterator[str]:
    yield "| invariant | partition | findings |"
    yield "| --- | --- | ---: |"
    kinds = kinds_of(verdict.findings)
    for kind in kinds[:MOST_KINDS]:
        at = f"{kind.topic}-{kind.partition}" if kind.topic else ""
        yield f"| {_cell(kind.invariant)} | {_cell(at)} | {kind.count} |"
    if len(kinds) > MOST_KINDS:
        yield f"| ... and {len(kinds) - MOST_KINDS} more | | |"


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
