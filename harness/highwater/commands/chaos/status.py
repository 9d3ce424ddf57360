"""`highwater chaos status`: the faults that act now, from a run's intent log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from highwater.cluster.cleaning import ids_of_clusters_up
from highwater.cluster.engine import connect_engine
from highwater.commands.run import RUNS
from highwater.errors import EngineMissing, HarnessError
from highwater.output import RESULTS, print_json, say
from highwater.runs.chaos.acting import ActingFault, acting_faults, choose_run
from highwater_chaos.words import say_fault
from highwater_checker.run_folder.names import INTENTS


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(
    run: Annotated[
        str, typer.Option(help="The run's id. [default: the only one that is up, else the newest]")
    ] = "",
    runs: Annotated[Path, typer.Option(file_okay=False, help="Where run folders are.")] = RUNS,
    json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """Show the faults that act now: intended or done, and not undone."""
    up = _runs_up()
    run_id = choose_run(runs, run, up or ())
    path = runs / run_id / INTENTS
    try:
        acting = acting_faults(path)
    except FileNotFoundError as error:
        raise HarnessError(f"{path}: there is none, so no fault was meant in that run") from error
    except msgspec.DecodeError as error:
        raise HarnessError(f"{path}: {error}") from error
    if json:
        print_json(acting)
        return
    if not acting:
        typer.echo(f"{run_id}: no fault acts")
        return
    _print(run_id, acting)
    if up is None:
        say("no engine answers: this is the log's word alone")
    if up is not None and run_id not in up:
        typer.echo("its containers are gone, and every fault with them")
    else:
        typer.echo(f"'highwater heal --run {run_id}' undoes every fault that acts")


def _print(run: str, acting: list[ActingFault]) -> None:
    table = Table(title=run, title_justify="left", box=None)
    for column in ("number", "phase", "fault", "node", "seen"):
        table.add_column(column)
    for each in acting:
        table.add_row(
            str(each.number),
            each.phase,
            Text(say_fault(each.fault)),
            "" if each.node is None else str(each.node),
            Text(each.why or each.proof),
        )
    RESULTS.print(table)


def _runs_up() -> list[str] | None:
    """Return the ids of the clusters that are up, None when no engine answers."""
    try:
        engine = connect_engine()
    except EngineMissing:
        return None
    try:
        return ids_of_clusters_up(engine)
    finally:
        engine.close()
