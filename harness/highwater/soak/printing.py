"""The plans of a soak, or of a campaign of its plans, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from highwater.output import RESULTS
from highwater.soak.hooks import command_again
from highwater.soak.ledger import Entry
from highwater.soak.page import shares_of
from highwater_checker.verdict import Outcome


def in_a_line(entry: Entry) -> str:
    """Return a plan's result in one line."""
    what = ", ".join(entry.invariants) or (entry.reasons[0][:100] if entry.reasons else "")
    return (
        f"plan {entry.number}: {entry.outcome.value} in {entry.took_s:.0f} s; "
        f"{entry.preset.value}, {entry.client.value}, {entry.brokers} brokers, "
        f"{entry.faults} faults, {entry.acknowledged} records, load {entry.load:g}"
        + (f", round {entry.round} of cluster {entry.cluster}" if entry.cluster else "")
        + (f"; {what}" if what and entry.outcome is not Outcome.PASS else "")
    )


def print_shares(entries: Sequence[Entry]) -> None:
    """Print the numbers of plans by preset, clients and size of the cluster."""
    table = Table("plans with", "passed", "failed", "prove nothing")
    for share in shares_of(entries):
        table.add_row(share.kind, str(share.passed), str(share.failed), str(share.unknown))
    RESULTS.print(table)


def print_with_command(folder: Path, entry: Entry) -> None:
    """Print the plan's result, and the command that runs the plan again. folder: the soak's."""
    RESULTS.print(in_a_line(entry), markup=False, soft_wrap=True)
    RESULTS.print(f"  {command_again(folder, entry)}", markup=False, soft_wrap=True)
