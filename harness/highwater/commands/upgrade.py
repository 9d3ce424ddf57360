"""`highwater upgrade NODE --image TAG`: one node of a cluster that is up runs another image."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from highwater.cluster.cluster import Cluster
from highwater.commands.kill import Json, Node, Run, Runs
from highwater.commands.run import RUNS
from highwater.output import print_json, printable
from highwater.runs.chaos.single import apply_one
from highwater_chaos.builds import THIS
from highwater_chaos.faults import Upgrade
from highwater_core.config import Preset


def register(app: typer.Typer) -> None:
    app.command()(upgrade)


def upgrade(
    node: Node,
    image: Annotated[
        str,
        typer.Option(help="highwater/node:KEY or KEY, as `highwater images list` shows them."),
    ] = THIS,
    preset: Annotated[
        Preset | None, typer.Option(help="Its preset from now on; without it as before.")
    ] = None,
    run: Run = "",
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Stop a node, start it from another image on its old disk, and prove that it runs it.

    Without --image it is this version's. A node that does not come up runs its old image again. An
    older version is an image of an older key: docs/how-to/rolling-upgrade.md.
    """
    at_once = threading.Event()
    at_once.set()
    cluster = Cluster.attach(run or None)
    try:
        applied = apply_one(cluster, Upgrade(node, image, preset), runs, at_once)
        name = "" if applied.node is None else cluster.topology.node(applied.node).name
    finally:
        cluster.engine.close()
    if json:
        print_json(applied)
    else:
        typer.echo(printable(f"{applied.run}: {name}: {applied.proof}"))
