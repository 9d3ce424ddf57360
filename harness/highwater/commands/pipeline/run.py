"""`highwater pipeline run`: makes a report of run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.commands.pipeline import OUT, STORE, Folders, Store, check_extra
from highwater.errors import HarnessError
from highwater_pipeline.engines import Engine


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(
    folders: Folders,
    store: Store = STORE,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = OUT,
    engine: Annotated[
        Engine,
        typer.Option(
            help="What runs the queries. auto: for small runs an engine in this process, which "
            "needs no Java, where the extra pipeline-local is installed; Spark for others."
        ),
    ] = Engine.AUTO,
    master: Annotated[
        str | None,
        typer.Option(help="Where Spark runs: local[N] or spark://host:port; Spark it is then."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read the runs into the store, check and measure them, and write a report.

    Exit code 0: every run passes; 1: one fails; 2: one is unknown, or the report could not be made.
    """
    check_extra()
    if master is not None:
        if engine is Engine.LOCAL:
            raise HarnessError("--master is Spark's; the local engine runs in this process")
        engine = Engine.SPARK
    from highwater.report.pipeline_runs import report_of_runs

    raise typer.Exit(
        report_of_runs(folders, store, out, engine, master or "local[*]", as_json=as_json)
    )
