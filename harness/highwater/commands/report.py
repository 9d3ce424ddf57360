"""`highwater report`: the pages of finished runs, from the files in their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from highwater.cluster.partitions import parse_partition
from highwater.errors import HarnessError
from highwater.output import PROGRESS, printable
from highwater.report.page import PAGE
from highwater.runs.reporting import report_run
from highwater_checker.verdict import EXIT_CODES, worst_of


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    folders: Annotated[
        list[Path], typer.Argument(exists=True, file_okay=False, help="Folders of runs.")
    ],
    trace: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            metavar="FILE.json",
            help="Write the run as a trace, too, which ui.perfetto.dev opens.",
        ),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(metavar="t-0", help="Show its leaders and lags first; any number of times."),
    ] = None,
) -> None:
    """Write the page, picture and JUnit file of finished runs anew, from their files alone.

    Also of runs that were interrupted. Exit code as of `highwater judge`: 0 every run passes, 1 one
    fails, 2 one is unknown.
    """
    if trace is not None and len(folders) > 1:
        raise HarnessError("--trace takes one run")
    first = [parse_partition(words) for words in partition or ()]
    outcomes = []
    for folder in folders:
        PROGRESS.print(Text(f"judging {printable(str(folder))}"), soft_wrap=True)
        try:
            verdict = report_run(folder, trace, first)
        except OSError as error:
            place = error.filename or folder
            raise HarnessError(f"{printable(str(place))}: {error.strerror or error}") from error
        outcomes.append(verdict.outcome)
        typer.echo(f"{verdict.outcome.value} {printable(str(folder / PAGE))}")
    raise typer.Exit(EXIT_CODES[worst_of(outcomes)])
