"""`highwater pipeline watch`: alerts of runs that go on, and the verdict of each that has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.commands.pipeline import STORE, Master, Store, check_extra
from highwater.durations import duration_ms


def register(app: typer.Typer) -> None:
    app.command()(watch)


def watch(
    runs: Annotated[
        Path,
        typer.Argument(help="Where run folders are or come, such as runs/soaks/soak-7."),
    ],
    lasting: Annotated[
        str, typer.Option("--for", help="How long: 8h, 90m. [default: until Ctrl-C]")
    ] = "",
    until_idle: Annotated[
        str, typer.Option("--until-idle", help="End once nothing new has come for so long: 5m.")
    ] = "",
    until_failure: Annotated[
        bool, typer.Option("--until-failure", help="End at the first alert or failed run.")
    ] = False,
    store: Store = STORE,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Where the watch goes on. [default: in runs/watch, by the folder]"),
    ] = None,
    master: Master = "local[*]",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each alert and verdict as JSON, one a line.")
    ] = False,
) -> None:
    """Check runs while they go on: alerts at once, and each ended run's verdict by `run`.

    The same command goes on where it was ended, also by kill -9. Exit code 1: an alert was told, or
    a run fails; 2: a run is unknown, none has ended, or an error; 0: every run passes.
    """
    check_extra()
    from highwater.report.pipeline_watching import Until, watch_runs

    until = Until(
        for_s=duration_ms(lasting) / 1_000 if lasting else None,
        idle_s=duration_ms(until_idle) / 1_000 if until_idle else None,
        failure=until_failure,
    )
    raise typer.Exit(watch_runs(runs, until, store, checkpoint, master, as_json=as_json))
