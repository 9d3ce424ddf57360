"""`highwater runs list`: the runs in a folder, with their verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from highwater.commands.run import RUNS
from highwater.errors import HarnessError
from highwater.output import RESULTS, STYLES, print_json, printable
from highwater.runs.kept import KeptRun, chosen, kept_runs
from highwater_checker.run_folder.files import text_of
from highwater_checker.verdict import Outcome

UNJUDGED = "unjudged"


class Wanted(StrEnum):
    """The verdicts that a user may ask for."""

    PASS = Outcome.PASS.value
    FAIL = Outcome.FAIL.value
    UNKNOWN = Outcome.UNKNOWN.value
    UNJUDGED = UNJUDGED
    """Interrupted, or going on."""

    @property
    def outcome(self) -> Outcome | None:
        return None if self is Wanted.UNJUDGED else Outcome(self.value)


RunsFolder = Annotated[Path, typer.Option("--runs", file_okay=False, help="Where the folders are.")]
Verdicts = Annotated[
    list[Wanted] | None, typer.Option("--verdict", help="Only these; may be given several times.")
]
Named = Annotated[str, typer.Option(help="Only those with this in their name, plan or test.")]


def register(app: typer.Typer) -> None:
    app.command("list")(list_runs)


def list_runs(
    runs: RunsFolder = RUNS,
    verdict: Verdicts = None,
    named: Named = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs, the newest first, with the verdicts that their folders have.

    `highwater judge` judges them again.
    """
    found = chosen(read_runs(runs), outcomes=outcomes_of(verdict), named=named)
    if as_json:
        print_json([fields(run) for run in found])
    elif found:
        RESULTS.print(table_of_runs(found))
    else:
        typer.echo(f"no such run in {printable(str(runs))}")


def outcomes_of(verdicts: Iterable[Wanted] | None) -> list[Outcome | None]:
    return [each.outcome for each in verdicts or ()]


def read_runs(folder: Path) -> list[KeptRun]:
    """Return the runs in the folder, the newest first.

    Raises:
        HarnessError: there is no such folder, or it cannot be read.
    """
    try:
        return kept_runs(folder)
    except OSError as error:
        raise HarnessError(f"{folder}: {error.strerror or error}") from error


def table_of_runs(runs: Iterable[KeptRun]) -> Table:
    """Return a table with a row for each run."""
    table = Table(box=None, expand=True)
    table.add_column("run", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("world", no_wrap=True)
    table.add_column("plan or test, first reason", no_wrap=True, overflow="ellipsis", ratio=1)
    for run in runs:
        lines = (run.what, run.reason, *run.builds)
        style = "dim" if run.outcome is None else STYLES[run.outcome]
        table.add_row(
            Text(printable(run.name)),
            Text(UNJUDGED if run.outcome is None else run.outcome.value, style=style),
            decimal(run.size_bytes),
            Text(printable(f"{run.world.value} {run.preset}")),
            Text("\n".join(printable(text) for text in lines if text)),
        )
    return table


def fields(run: KeptRun) -> dict[str, object]:
    """Return the run for JSON."""
    return {
        "run": run.name,
        "folder": text_of(run.path),
        "begun_ms": run.begun_ms,
        "world": run.world,
        "preset": run.preset,
        "what": run.what,
        "verdict": run.outcome,
        "reason": run.reason,
        "size_bytes": run.size_bytes,
        "builds": run.builds,
    }
