"""`highwater pipeline run`: from folders of runs to a report, in one go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.commands.pipeline import OUT, STORE, Folders, Master, Store, check_extra


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(
    folders: Folders,
    store: Store = STORE,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = OUT,
    master: Master = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Take in the runs, check and measure them, and write a report.

    Ends with 0 when every run passes, with 1 when one fails, with 2 when one is unknown or the
    report could not be made.
    """
    check_extra()
    from highwater.report.pipeline_runs import report_of_runs

    raise typer.Exit(report_of_runs(folders, store, out, master, as_json=as_json))
