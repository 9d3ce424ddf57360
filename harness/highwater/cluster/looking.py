"""How a cluster looks to a person: how to look into one that was left up, and all logs' tails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from docker.errors import APIError

if TYPE_CHECKING:
    from highwater.cluster.cluster import Cluster

_LOG_TAIL_LINES = 15


def how_to_look(cluster: Cluster) -> tuple[str, ...]:
    """Return a line each for its address, its state, its nodes' logs and stacks, and its end."""
    run = cluster.run_id
    return (
        f"clients on this machine: {cluster.bootstrap}",
        f"see it:    highwater status {run}",
        f"logs:      highwater logs --run {run} broker-0",
        f"stacks:    highwater logs --run {run} --stacks",
        f"remove it: highwater down {run}",
    )


def why_gone(cluster: Cluster) -> str:
    """Return why a node may have no container, and what a person can do then."""
    heal = f"'highwater heal --run {cluster.run_id}'"
    return f"an upgrade was cut short, which {heal} finishes, or it was removed"


def describe(cluster: Cluster) -> str:
    """Return every container's state and the tail of its log, for a failure's message."""
    lines = []
    for spec in cluster.topology.nodes():
        lines.append(f"--- {spec.name}: {cluster.status(spec.node_id)}")
        try:
            lines.append(cluster.logs(spec.node_id, tail=_LOG_TAIL_LINES).rstrip())
        except APIError as error:
            lines.append(f"(no log: {error.explanation})")
    return "\n".join(lines)


def write_snapshots(cluster: Cluster, folder: Path) -> None:
    """Write snapshots.json: what each node tells of itself now, null of one that does not."""
    snapshots = {str(node): cluster.try_snapshot(node) for node in cluster.node_ids}
    text = msgspec.json.format(msgspec.json.encode(snapshots), indent=2)
    (folder / "snapshots.json").write_bytes(text + b"\n")
