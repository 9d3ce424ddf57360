"""`highwater cut NODE [OTHER]`: cuts links of a cluster that is up, while the command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from highwater.cluster.names_up import nodes_up
from highwater.commands.chaos.apply import act
from highwater.commands.kill import Json, Node, Run, Runs
from highwater.commands.run import RUNS
from highwater.durations import duration_ms
from highwater_chaos.faults import PLANES, Cut, Isolate

REPLICATION = "replication"
Other = Annotated[
    str,
    typer.Argument(
        help="Another node, `any` or `zookeeper`. Without it NODE is cut off from everyone.",
        autocompletion=nodes_up,
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(cut)


def cut(
    node: Node,
    other: Other = "",
    plane: Annotated[
        str,
        typer.Option(
            help=f"Which connections: {', '.join(PLANES)}; {REPLICATION} if none is named.",
            autocompletion=lambda: PLANES,
        ),
    ] = "",
    one_way: Annotated[
        bool, typer.Option("--one-way", help="Only what goes from NODE to OTHER is lost.")
    ] = False,
    for_: Annotated[
        str, typer.Option("--for", help="So long, as 5s; until Ctrl-C if no time is given.")
    ] = "",
    run: Run = "",
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Cut a node's links while the command runs, and undo it at its end or at Ctrl-C.

    Both are proven. A cut never outlives the command that did it.
    """
    for_ms = duration_ms(for_) if for_ else None
    if other:
        fault = Cut(node, other, plane or REPLICATION, both_ways=not one_way, for_ms=for_ms)
        act(fault, run, runs, as_json=json)
    elif plane or one_way:
        raise typer.BadParameter("--plane and --one-way are of a cut between two: name OTHER, too")
    else:
        act(Isolate(node, for_ms), run, runs, as_json=json)
