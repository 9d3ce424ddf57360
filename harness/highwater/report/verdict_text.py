"""A verdict on a terminal: the checks' findings, the reasons, and the outcome."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from highwater.output import RESULTS
from highwater_checker.verdict import Outcome, Verdict

_STYLES = {Outcome.PASS: "bold green", Outcome.FAIL: "bold red", Outcome.UNKNOWN: "bold yellow"}
_MAX_REASONS = 20


def checks_table(verdict: Verdict) -> Table:
    """Return a table of the checks, a row each: the number examined, and the findings."""
    table = Table("check", "examined", "found")
    for check in verdict.checks:
        noted = "".join(f"; {name}: {count}" for name, count in check.noted)
        found = str(len(check.findings)) if check.findings else "nothing"
        table.add_row(Text(check.check), str(check.examined), found + noted)
    return table


def print_outcome(verdict: Verdict, where: str = "") -> None:
    """Print the first reasons and the outcome, followed by where."""
    style = _STYLES[verdict.outcome]
    for reason in verdict.reasons[:_MAX_REASONS]:
        RESULTS.print(Text(reason, style=style), soft_wrap=True)
    if len(verdict.reasons) > _MAX_REASONS:
        RESULTS.print(f"... and {len(verdict.reasons) - _MAX_REASONS} more in verdict.json")
    RESULTS.print(Text(f"verdict: {verdict.outcome.value}{where}", style=style))
