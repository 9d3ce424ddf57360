"""`highwater heal`: undoes all faults of a run's containers."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from highwater.cluster.cleaning import find_runs, ids_of_clusters_up
from highwater.cluster.cluster import Cluster
from highwater.cluster.engine import connect_engine
from highwater.cluster.labels import Lease, Owner
from highwater.errors import HarnessError
from highwater.faults.healing import Healed, NodeHealed, heal
from highwater.output import RESULTS, print_json, say

NOT_BACK_EXIT_CODE = 1


def register(app: typer.Typer) -> None:
    app.command("heal")(heal_runs)


def heal_runs(
    run: Annotated[str, typer.Option(help="The run's id; needless if there is one.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Every run, of any owner.")] = False,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Leave nodes that do not run as they are.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Undo faults: pauses, cuts, lost networks, helpers; start stopped nodes.

    Then check that the cluster is as it was brought up. Exit code 0: it is; 1: it is not.
    """
    if run and every:
        raise HarnessError("--run or --all, not both")
    healed = [_heal(cluster, not no_start) for cluster in _clusters(run, every)]
    if json:
        print_json([{**_record(each), "problems": each.problems} for each in healed])
    else:
        for each in healed:
            _print(each)
        if not healed:
            typer.echo("no cluster is up")
    if any(each.problems for each in healed):
        raise typer.Exit(NOT_BACK_EXIT_CODE)


def _clusters(run: str, every: bool) -> list[Cluster]:
    if not every:
        return [Cluster.attach(run or None)]
    engine = connect_engine()
    run_ids = ids_of_clusters_up(engine)
    engine.close()
    return [Cluster.attach(run_id) for run_id in run_ids]


def _heal(cluster: Cluster, start_stopped: bool) -> Healed:
    try:
        owners = {found.labels.owner for found in find_runs(cluster.engine, cluster.run_id)}
        for owner in owners if cluster.labels.lease is Lease.OWNED else ():
            if owner != Owner.of_this_process() and not owner.is_gone():
                say(f"{cluster.run_id}: its harness, process {owner.pid}, may go on with faults")
        return heal(cluster, start_stopped=start_stopped)
    finally:
        cluster.engine.close()


def _record(healed: Healed) -> dict[str, object]:
    return {
        "run": healed.run,
        "nodes": healed.nodes,
        "helpers_removed": healed.helpers,
        "left": healed.left,
    }


def _print(healed: Healed) -> None:
    style, word = ("bold red", "is not as it was") if healed.problems else ("green", "is well")
    table = Table(title=f"{healed.run} {word}", title_justify="left", box=None, title_style=style)
    for column in ("node", "found", "done", "still wrong"):
        table.add_column(column)
    for node in healed.nodes:
        table.add_row(*(Text(text) for text in _row(node)))
    RESULTS.print(table)
    if healed.helpers:
        RESULTS.print(f"{healed.helpers} leftover helpers removed")
    for what in healed.left:
        RESULTS.print(Text(what, style="bold red"), soft_wrap=True)


def _row(node: NodeHealed) -> tuple[str, str, str, str]:
    found, done, left = ("; ".join(each) for each in (node.found, node.done, node.left))
    return node.name, found or "nothing", done, left
