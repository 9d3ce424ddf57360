"""A verdict on a terminal: the checks' findings, the reasons, and the outcome."""

from __future__ import annotations

from itertools import chain, repeat

from rich.table import Table
from rich.text import Text

from highwater.output import RESULTS, STYLES, printable
from highwater_checker.verdict import Verdict

_MAX_REASONS = 20
_SHOWN_WITH_RECORDS = 2
"""Findings that are followed by the replicas' records around them, and the bytes that differ."""


def checks_table(verdict: Verdict) -> Table:
    """Return a table of the checks, a row each: the number examined, and the findings."""
    table = Table("check", "examined", "found")
    for check in verdict.checks:
        noted = "".join(f"; {name}: {count}" for name, count in check.noted)
        found = str(len(check.findings)) if check.findings else "nothing"
        name = Text(printable(check.check))
        table.add_row(name, str(check.examined), Text(printable(found + noted)))
    return table


def print_outcome(verdict: Verdict, all_are: str, where: str = "") -> None:
    """Print the first reasons and the outcome, followed by where.

    The first findings come with what the replicas have around them.

    all_are: where the reader finds all reasons if there are more; "" prints them all.
    """
    style = STYLES[verdict.outcome]
    shown = verdict.reasons[:_MAX_REASONS] if all_are else verdict.reasons
    around = (finding.around for finding in verdict.findings[:_SHOWN_WITH_RECORDS])
    # The findings are the first reasons.
    for reason, lines in zip(shown, chain(around, repeat(())), strict=False):
        RESULTS.print(Text(printable(reason), style=style), soft_wrap=True)
        for line in lines:
            RESULTS.print(Text(f"  {printable(line)}", style="dim"), soft_wrap=True)
    more = len(verdict.reasons) - len(shown)
    if more:
        RESULTS.print(Text(f"... and {more} more: all are {printable(all_are)}"), soft_wrap=True)
    RESULTS.print(Text(f"verdict: {verdict.outcome.value}{where}", style=style))
