"""`highwater status`: nodes, roles and, per partition, leader, epoch, ISR, HW and LEO."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from highwater.cluster.cleaning import ids_of_clusters_up
from highwater.cluster.cluster import Cluster
from highwater.cluster.engine import connect_engine
from highwater.cluster.log_folders import failed_log_folders
from highwater.cluster.topology import NodeKind, NodeSpec, Topology
from highwater.output import RESULTS, print_json
from highwater.report.alerts import alerts_in
from highwater.report.screen import cluster_table
from highwater_checker.looks import Look
from highwater_checker.run_folder.documents import RunBuild
from highwater_core.messages import NodeSnapshot

REFRESH_S = 0.5


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node, as the engine and the node itself report it; snapshot None: it does not answer.

    failed_log_folders: a broker's, by name; their replicas are offline.
    """

    name: str
    container: str
    address: str
    snapshot: NodeSnapshot | None
    failed_log_folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """nodes: by id, ZooKeeper first; bootstrap "" while its brokers' containers are being made."""

    run: str
    bootstrap: str
    topology: Topology
    nodes: Mapping[int, NodeStatus]


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(
    run: Annotated[str, typer.Argument(help="The run's id; without it, all of them.")] = "",
    same_run: Annotated[
        str, typer.Option("--run", help="Likewise, as other commands have it.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print snapshots as JSON.")] = False,
) -> None:
    """Show the cluster: nodes, roles, partitions."""
    clusters = _clusters(run or same_run)
    if json:
        print_json([look_at(cluster) for cluster in clusters])
        return
    if not clusters:
        typer.echo("no cluster is up; 'highwater up' brings one up")
        return
    if not watch:
        RESULTS.print(_tables(clusters))
        return
    with Live(_tables(clusters), console=RESULTS, auto_refresh=False) as live:
        while True:
            time.sleep(REFRESH_S)
            live.update(_tables(clusters), refresh=True)


def look_at(cluster: Cluster) -> ClusterStatus:
    """Ask the engine and every node once."""
    nodes = {int(spec.node_id): _node_status(cluster, spec) for spec in cluster.topology.nodes()}
    try:
        bootstrap = cluster.bootstrap
    except KeyError:  # a broker's container is missing, so its port is unknown
        bootstrap = ""
    return ClusterStatus(cluster.run_id, bootstrap, cluster.topology, nodes)


def _node_status(cluster: Cluster, spec: NodeSpec) -> NodeStatus:
    node_id = spec.node_id
    container = cluster.status(node_id)
    is_asked = container == "running" and node_id in cluster.node_ids
    snapshot = cluster.try_snapshot(node_id) if is_asked else None
    has_folders = snapshot is not None and spec.kind is NodeKind.BROKER
    failed = failed_log_folders(cluster, node_id) if has_folders else ()
    return NodeStatus(spec.name, container, cluster.address(node_id), snapshot, failed)


def _clusters(run: str) -> list[Cluster]:
    if run:
        return [Cluster.attach(run)]
    return [Cluster.attach(run_id) for run_id in ids_of_clusters_up(connect_engine())]


def _tables(clusters: list[Cluster]) -> RenderableType:
    return Group(*(_cluster_tables(look_at(cluster)) for cluster in clusters))


def _cluster_tables(seen: ClusterStatus) -> RenderableType:
    topology = seen.topology
    title = (
        f"{seen.run}: preset {topology.preset}, session timeout {topology.session_timeout_ms} ms\n"
        f"clients: {seen.bootstrap or 'it is being brought up or removed'}"
    )
    # As narrow as a terminal of 80 columns.
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    for column in ("node", "container", "address", "start", "role", "leads", "MiB"):
        table.add_column(column, no_wrap=True)
    for node in seen.nodes.values():
        table.add_row(node.name, node.container, node.address, *_answers(node.snapshot))
    look = Look(
        time.monotonic_ns(),
        {node_id: seen.nodes[node_id].snapshot for node_id in topology.node_ids},
    )
    alerts = [Text(line, style="red") for line in alerts_in(look)]
    failed = [
        Text(f"{node.name}: log folder {folder} has failed; its replicas are offline", style="red")
        for node in seen.nodes.values()
        for folder in node.failed_log_folders
    ]
    mixed = [Text(line) for line in mixed_builds(seen)]
    return Group(table, cluster_table(look), *alerts, *failed, *mixed, Text(""))


def mixed_builds(seen: ClusterStatus) -> tuple[str, ...]:
    """Return which nodes tell which build, a line each; none where all tell the same one."""
    told = {node.name: node.snapshot for node in seen.nodes.values() if node.snapshot is not None}
    ran = {name: (_say_build(snapshot, seen),) for name, snapshot in told.items()}
    return RunBuild(nodes=ran).told() if len(set(ran.values())) > 1 else ()


def _say_build(snapshot: NodeSnapshot, seen: ClusterStatus) -> str:
    is_other = snapshot.preset != seen.topology.preset
    return (snapshot.build or "an older build") + f", preset {snapshot.preset}" * is_other


def _answers(snapshot: NodeSnapshot | None) -> tuple[str, str, str, str]:
    """Return incarnation, role, numbers of led and hosted partitions, and resident memory."""
    if snapshot is None:
        return ("", "", "", "")
    resident_mib = f"{snapshot.resident_bytes / 2**20:.0f}" if snapshot.resident_bytes else ""
    if snapshot.kind == "controller":
        active = f"active, epoch {snapshot.controller_epoch}"
        role = active if snapshot.active_controller else "standby"
        return (str(snapshot.incarnation), role, "", resident_mib)
    led = sum(replica.role == "leader" for replica in snapshot.replicas)
    role = f"epoch {snapshot.broker_epoch}"
    return (str(snapshot.incarnation), role, f"{led} of {len(snapshot.replicas)}", resident_mib)
