"""`highwater down`: removes clusters of any owner, found by label."""

from __future__ import annotations

from typing import Annotated

import typer

from highwater.cluster.cleaning import find_runs, remove_run
from highwater.cluster.engine import connect_engine
from highwater.cluster.names_up import runs_up
from highwater.errors import NoSuchRun


def register(app: typer.Typer) -> None:
    app.command()(down)


def down(
    run: Annotated[
        str,
        typer.Argument(help="The run's id; needless if there is one.", autocompletion=runs_up),
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="Every cluster, of any owner.")] = False,
) -> None:
    """Remove a cluster: containers, volumes, network."""
    engine = connect_engine()
    run_ids = [resources.labels.run_id for resources in find_runs(engine)]
    if not every:
        if run and run not in run_ids:
            raise NoSuchRun(f"no cluster {run}; there are: {', '.join(run_ids) or 'none'}")
        if not run and len(run_ids) > 1:
            raise NoSuchRun(f"which one, or --all? there are: {', '.join(run_ids)}")
    chosen = [run] if run and not every else run_ids
    for run_id in chosen:
        count = remove_run(engine, run_id)
        typer.echo(f"{run_id} removed ({count} containers, volumes and networks)")
    if not chosen:
        typer.echo("no cluster is up")
