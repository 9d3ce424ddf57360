"""A finding's story on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from highwater.output import RESULTS, printable
from highwater.report.explained import Explained, kinds_of
from highwater_checker.finding import Finding
from highwater_checker.run_folder.evidence_lines import EvidenceLine
from highwater_checker.stories.display import display_line
from highwater_checker.verdict import Verdict

_MOST_LINES = 20
"""Lines of evidence that a terminal shows; JSON has all."""
_MOST_COLUMNS = 160


def print_explained(told: Explained) -> None:
    """Print the finding, what its invariant demands, the story, replicas and evidence."""
    _say(str(told.finding), "bold red")
    for other in told.also:
        _say(other, "red")
    if told.meaning:
        _say(f"{told.finding.invariant} demands: {told.meaning}")
    _head("What happened (the run's time in ms)")
    for line in told.story.lines():
        _say(line)
    if told.finding.around:
        _head("What the replicas have there")
        for line in told.finding.around:
            _say(line)
    if told.evidence:
        _head("Where it is written")
        for line in shown_lines(told.evidence):
            _say(line, "dim")


def print_lacking(verdict: Verdict, told: Explained) -> None:
    """Print which evidence is missing, and what the story has not for that reason."""
    lacking = (*told.lacks, *verdict.without_findings)
    if lacking:
        _head("What is missing, or did not happen")
        for line in lacking:
            _say(line, "yellow")


def explained_json(verdict: Verdict, told: Explained | None) -> dict[str, Any]:
    """Return the verdict's outcome and reasons, and the finding with its story, for programs.

    story: for each entry its at_ns, who and line.
    """
    found: dict[str, Any] = {"outcome": verdict.outcome, "reasons": verdict.reasons, "told": None}
    if told is not None:
        found["told"] = {
            "number": told.number,
            "finding": told.finding,
            "also": told.also,
            "meaning": told.meaning,
            "story": [
                {"at_ns": each.at_ns, "who": each.who, "line": display_line(each)}
                for each in told.story.entries
            ],
            "evidence": told.evidence,
            "lacks": told.lacks,
        }
    return found


def print_other_findings(findings: Sequence[Finding], told: Explained) -> None:
    """Print a table of all findings by invariant and partition, if there are others."""
    if len(findings) == 1:
        return
    _head(f"All {len(findings)} findings")
    table = Table("invariant", "partition", "findings", "shown with")
    for kind in kinds_of(findings):
        at = f"{kind.topic}-{kind.partition}" if kind.topic else ""
        cells = (kind.invariant, at, str(kind.count), f"--finding {kind.first}")
        table.add_row(*(Text(printable(each)) for each in cells))
    RESULTS.print(table)


def shown_lines(evidence: Sequence[EvidenceLine]) -> Iterator[str]:
    """Yield the first lines of evidence, with their files and numbers, none of them too long."""
    for each in evidence[:_MOST_LINES]:
        text = f"{each.file}:{each.line}: {each.text}"
        yield text if len(text) <= _MOST_COLUMNS else f"{text[: _MOST_COLUMNS - 4]} ..."
    if len(evidence) > _MOST_LINES:
        yield f"... and {len(evidence) - _MOST_LINES} more"


def _head(text: str) -> None:
    RESULTS.print()
    RESULTS.print(Text(text, style="bold"), soft_wrap=True)


def _say(text: str, style: str = "") -> None:
    RESULTS.print(Text(printable(text), style=style), soft_wrap=True)
