"""`highwater up`: brings a cluster up that stays until `highwater down`."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from highwater.cluster.cluster import Cluster
from highwater.cluster.labels import Lease
from highwater.cluster.topology import Topology
from highwater.errors import HarnessError
from highwater.output import print_json, say
from highwater.run_folder import new_run_id
from highwater_chaos.builds import THIS
from highwater_core.config import Preset

NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9_.-]{0,40}")
"""Names that are valid for a container, a host and a folder."""


def register(app: typer.Typer) -> None:
    app.command()(up)


def up(
    brokers: Annotated[int, typer.Option(help="Broker ids count from 0.")] = 3,
    controllers: Annotated[int, typer.Option(help="Controller ids count from 1000.")] = 2,
    preset: Annotated[Preset, typer.Option(help="The protocol's rules.")] = Preset.FENCED,
    session_timeout_ms: Annotated[int, typer.Option(help="Of ZooKeeper sessions.")] = 6_000,
    toggle: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: replace one of the preset's rules.")
    ] = None,
    broker_setting: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, as replica_lag_time_max_ms=2000.")
    ] = None,
    controller_setting: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, as command_timeout_ms=2000.")
    ] = None,
    sized_disks: Annotated[
        bool, typer.Option("--sized-disks", help="Brokers' disks can be filled (disk_full).")
    ] = False,
    faulty_disks: Annotated[
        bool,
        typer.Option(
            "--faulty-disks",
            help="Brokers' disks can lose power, refuse operations and be slow; needs FUSE.",
        ),
    ] = False,
    movable_clocks: Annotated[
        bool, typer.Option("--movable-clocks", help="Nodes' clocks can be moved (clock_jump).")
    ] = False,
    image: Annotated[
        str,
        typer.Option(help="Of all nodes: highwater/node:KEY or KEY, of another version."),
    ] = THIS,
    name: Annotated[str, typer.Option(help="The run's id; made up when not given.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Bring up a cluster and leave it running."""
    try:
        topology = Topology(
            brokers=brokers,
            controllers=controllers,
            preset=preset,
            session_timeout_ms=session_timeout_ms,
            toggles=_pairs(toggle),
            broker_settings=_pairs(broker_setting),
            controller_settings=_pairs(controller_setting),
        )
    except ValueError as error:
        raise HarnessError(str(error)) from error
    if name:
        _check_name(name)
    cluster = Cluster(
        topology,
        name or new_run_id("up"),
        lease=Lease.KEPT,
        sized_disks=sized_disks,
        faulty_disks=faulty_disks,
        movable_clocks=movable_clocks,
        images={} if image == THIS else dict.fromkeys(topology.node_ids, image),
        say=say,
    )
    cluster.start()
    _tell(cluster, as_json=json)


def _tell(cluster: Cluster, *, as_json: bool) -> None:
    """Print how the cluster is reached and removed."""
    if as_json:
        print_json(
            {
                "run": cluster.run_id,
                "bootstrap": cluster.bootstrap,
                "internal_bootstrap": cluster.internal_bootstrap,
                "network": cluster.network_name,
                "zookeeper": str(cluster.zookeeper_endpoint),
                "nodes": {str(node): cluster.address(node) for node in cluster.node_ids},
                "phases_s": cluster.phases,
            }
        )
        return
    typer.echo(
        f"{cluster.run_id} is up\n"
        f"  clients on this machine:    {cluster.bootstrap}\n"
        f"  clients in network {cluster.network_name}: {cluster.internal_bootstrap}\n"
        f"  ZooKeeper:                  {cluster.zookeeper_endpoint}\n"
        f"highwater status --watch shows it, highwater down {cluster.run_id} removes it"
    )


def _check_name(name: str) -> None:
    """Refuse a name that cannot be a run's id."""
    if not NAME_PATTERN.fullmatch(name):
        raise HarnessError(f"--name {name!r}: use at most 41 of a-z, 0-9, '.', '_' and '-'")


def _pairs(texts: list[str] | None) -> dict[str, str | bool]:
    """Return NAME=VALUE options as a mapping; true and false become booleans."""
    pairs: dict[str, str | bool] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise HarnessError(f"{text!r} is not NAME=VALUE")
        pairs[name] = {"true": True, "false": False}.get(value, value)
    return pairs
