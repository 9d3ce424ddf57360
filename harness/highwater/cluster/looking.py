"""How a person looks into a cluster that was left up, and removes it, in words."""

from __future__ import annotations

from highwater.cluster.cluster import Cluster


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
