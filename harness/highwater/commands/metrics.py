"""`highwater metrics`: the nodes' metrics for Prometheus, printed once or served to be scraped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Lock
from typing import Annotated

import typer

from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import METRICS_PORT
from highwater.commands.logs import find_node
from highwater.errors import HarnessError
from highwater.output import print_json, say
from highwater.quiet_http import QuietHandler, QuietServer, quiet_server
from highwater_core.ids import NodeId
from highwater_core.prometheus import CONTENT_TYPE, PATH, prometheus_text


def register(app: typer.Typer) -> None:
    app.command()(metrics)


def metrics(
    node: Annotated[
        str | None, typer.Argument(help="0, broker-0, controller-1000; without it, all.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="The run, if several are up.")] = None,
    serve: Annotated[
        int | None,
        typer.Option(
            "--serve", metavar="PORT", min=0, max=65535, help="Answer GET /metrics until Ctrl-C."
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Where --serve listens.")] = "127.0.0.1",
    targets: Annotated[
        bool,
        typer.Option("--targets", help="Print the nodes' own ports, for file_sd_configs."),
    ] = False,
) -> None:
    """Print every node's metrics as Prometheus text, or serve them to be scraped.

    Every node answers GET /metrics itself, too: --targets lists where.
    """
    cluster = Cluster.attach(run)
    nodes = cluster.node_ids if node is None else (find_node(cluster.topology, node),)
    if not set(nodes) <= set(cluster.node_ids):
        raise HarnessError(f"{node} tells no metrics; brokers and controllers do")
    if targets:
        print_json(targets_of(cluster, nodes))
        return
    if serve is None:
        sys.stdout.write(scrape(cluster, nodes))
        return
    with metrics_server(host, serve, lambda: scrape(cluster, nodes)) as server:
        say(f"http://{host}:{server.server_port}{PATH}; Ctrl-C ends it")
        server.serve_forever()


def targets_of(cluster: Cluster, nodes: tuple[NodeId, ...]) -> list[dict[str, object]]:
    """Return the nodes' own addresses, as Prometheus' file_sd_configs read them.

    Raises:
        HarnessError: this machine does not reach containers by their addresses.
    """
    if any(cluster.control_endpoint(node).host != cluster.address(node) for node in nodes):
        raise HarnessError("containers' addresses cannot be reached from here: use --serve")
    places = [f"{cluster.address(node)}:{METRICS_PORT}" for node in nodes]
    return [{"targets": places, "labels": {"run": cluster.run_id}}]


def scrape(cluster: Cluster, nodes: tuple[NodeId, ...]) -> str:
    """Ask the nodes once; a node that does not answer counts as down."""
    return prometheus_text(
        {cluster.topology.node(node).name: cluster.try_snapshot(node) for node in nodes}
    )


def metrics_server(host: str, port: int, make_text: Callable[[], str]) -> QuietServer:
    """Return a server that answers GET /metrics with a new text, made one at a time.

    Raises:
        HarnessError: the address cannot be bound.
    """

    making = Lock()

    class Handler(QuietHandler):
        def get(self, path: str) -> None:
            if path != PATH:
                self.send_error(404)
                return
            with making:
                body = make_text().encode()
            self.answer(CONTENT_TYPE, body)

    return quiet_server(host, port, Handler)
