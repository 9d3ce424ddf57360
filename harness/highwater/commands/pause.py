"""`highwater pause NODE`: freezes one node of a cluster that is up; it stays so."""

from __future__ import annotations

import typer

from highwater.commands.kill import Json, Node, Run, Runs, leave
from highwater.commands.run import RUNS
from highwater_chaos.faults import Pause


def register(app: typer.Typer) -> None:
    app.command()(pause)


def pause(node: Node, run: Run = "", runs: Runs = RUNS, json: Json = False) -> None:
    """Freeze a node's processes, until `highwater start` or `highwater heal`."""
    leave(Pause(node), run, runs, as_json=json)
