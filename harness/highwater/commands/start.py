"""`highwater start NODE`: brings one node back that was killed, stopped or frozen."""

from __future__ import annotations

from typing import Annotated

import typer

from highwater.cluster.cluster import Cluster
from highwater.cluster.names_up import nodes_up
from highwater.commands.kill import Run, Runs
from highwater.commands.run import RUNS
from highwater.output import printable
from highwater.runs.chaos.single import start_again


def register(app: typer.Typer) -> None:
    app.command()(start)


def start(
    node: Annotated[str, typer.Argument(help="broker-0.", autocompletion=nodes_up)],
    run: Run = "",
    runs: Runs = RUNS,
) -> None:
    """Start a node that is down, or thaw a frozen one, and wait until it answers.

    `highwater heal` undoes all faults of all nodes.
    """
    cluster = Cluster.attach(run or None)
    try:
        _, proof = start_again(cluster, node, runs)
    finally:
        cluster.engine.close()
    typer.echo(printable(f"{cluster.run_id}: {node}: {proof}"))
