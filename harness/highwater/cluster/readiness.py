"""Decides from the nodes' snapshots whether a cluster serves."""

from __future__ import annotations

from collections.abc import Callable

from highwater.cluster.topology import Topology
from highwater_core.ids import NodeId
from highwater_core.messages import NodeSnapshot


def first_missing_condition(
    topology: Topology, snapshot_of: Callable[[NodeId], NodeSnapshot | None]
) -> str:
    """Return the first missing condition in words; "" when the cluster serves.

    It serves once exactly one controller is active, has seen every broker, and every broker
    knows that controller and every other broker, so that any of them can answer a client. Without
    controllers each broker names itself.
    """
    brokers = set(topology.broker_ids)
    active: list[NodeId] = []
    for node in topology.controller_ids:
        snapshot = snapshot_of(node)
        if snapshot is None:
            return f"controller {node} does not answer"
        if snapshot.active_controller:
            active.append(node)
            unseen = sorted(brokers.difference(snapshot.live_brokers))
            if unseen:
                return f"controller {node} has not seen brokers {unseen}"
    if len(active) != 1 and topology.controller_ids:
        return f"active controllers: {active}"
    for node in topology.broker_ids:
        snapshot = snapshot_of(node)
        if snapshot is None:
            return f"broker {node} does not answer"
        is_told = snapshot.controller_id in (active or [node])
        if brokers.difference(snapshot.live_brokers) or not is_told:
            return (
                f"broker {node} knows brokers {list(snapshot.live_brokers)} "
                f"and controller {snapshot.controller_id}"
            )
    return ""
