"""`highwater kill NODE`: a SIGKILL to one node of a cluster that is up; it stays down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.cluster.cluster import Cluster
from highwater.cluster.names_up import nodes_up, runs_up
from highwater.commands.run import RUNS
from highwater.output import print_json, printable
from highwater.runs.chaos.single import leave_one
from highwater_chaos.faults import Fault, Kill
from highwater_chaos.words import say_fault

Node = Annotated[
    str,
    typer.Argument(
        help="broker-0, `leader of t-0`, `follower of t-0` or `active controller`.",
        autocompletion=nodes_up,
    ),
]
Run = Annotated[
    str,
    typer.Option(help="The run's id; needless if there is one.", autocompletion=runs_up),
]
Runs = Annotated[Path, typer.Option(file_okay=False, help="Where run folders are.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def register(app: typer.Typer) -> None:
    app.command()(kill)


def kill(node: Node, run: Run = "", runs: Runs = RUNS, json: Json = False) -> None:
    """Kill a node with SIGKILL; it stays down until `highwater start` or `highwater heal`."""
    leave(Kill(node), run, runs, as_json=json)


def leave(fault: Fault, run: str, runs: Path, *, as_json: bool) -> None:
    """Do the fault to the cluster, prove it, and leave it acting."""
    cluster = Cluster.attach(run or None)
    try:
        applied = leave_one(cluster, fault, runs)
        name = "" if applied.node is None else cluster.topology.node(applied.node).name
    finally:
        cluster.engine.close()
    if as_json:
        print_json(applied)
        return
    typer.echo(printable(f"{applied.run}: {say_fault(fault)}: {name}, {applied.proof}"))
    typer.echo(f"'highwater start {name}' ends it")
