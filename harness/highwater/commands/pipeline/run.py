"""`highwater pipeline run`: makes a report of run folders."""

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
    """Read the runs into the store, check and measure them, and write a report.

    Exit code 0: every run passes; 1: one fails; 2: one is unknown, or the report could not be made.
    """
    check_extra()
    from highwater.report.pipeline_runs import report_of_runs

    raise typer.Exit(report_of_runs(folders, store, out, master, as_json=as_json))
