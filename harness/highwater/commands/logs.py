"""`highwater logs NODE`: what a node's processes wrote."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import Topology
from highwater.errors import HarnessError
from highwater.output import say
from highwater_core.ids import NodeId


def register(app: typer.Typer) -> None:
    app.command()(logs)


def logs(
    node: Annotated[str, typer.Argument(help="0, broker-0, 1000, controller-1000, zookeeper.")],
    run: Annotated[str, typer.Option(help="The run's id; needless if there is one.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    tail: Annotated[int | None, typer.Option(help="Only the last lines.")] = None,
) -> None:
    """Print a node's log, all its incarnations, oldest first; most nodes write little or none.

    What a node did is in its trace: docker exec CONTAINER sh -c 'cat /var/lib/highwater/trace/*'.
    """
    cluster = Cluster.attach(run or None)
    node_id = find_node(cluster.topology, node)
    if follow:
        for text in cluster.follow_logs(node_id):
            sys.stdout.write(text)
            sys.stdout.flush()
        return
    text = cluster.logs(node_id, tail=tail)
    sys.stdout.write(text)
    if not text:
        say(f"{node} has written nothing; what it did is in its trace")


def find_node(topology: Topology, text: str) -> NodeId:
    """Return the node of that number or name.

    Raises:
        HarnessError: there is none; the message lists them.
    """
    for spec in topology.nodes():
        if text in (str(spec.node_id), spec.name):
            return spec.node_id
    raise HarnessError(f"no node {text!r}; there are {', '.join(s.name for s in topology.nodes())}")
