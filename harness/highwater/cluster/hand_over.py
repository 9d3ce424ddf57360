"""Stops the active controller of a running cluster, and waits until another one is active."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from highwater.cluster.cluster import ANSWER_WITHIN_S, AT_ONCE_S, Cluster
from highwater.errors import HarnessError
from highwater.waiting import NeverHappened, eventually
from highwater_core.ids import NodeId
from highwater_core.messages import NodeSnapshot


class NotHandedOver(HarnessError):
    """There is no active controller, no other controller, or none became active in time."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """took_s: from the signal until another controller reported that it is active."""

    stopped: NodeId
    active: NodeId
    controller_epoch: int
    took_s: float


def hand_over(cluster: Cluster, *, within_s: float) -> HandOver:
    """Stop the active controller with SIGTERM and return the one that is active instead.

    Ready to follow is a controller that has a session with ZooKeeper: it knows which one is active.
    The stopped node stays down. It closes its session itself, so its successor need not wait for
    the session to expire.

    Raises:
        NotHandedOver: nothing was stopped, or another controller was not active in time.
    """
    told = _controllers(cluster, timeout_s=ANSWER_WITHIN_S)
    active = next((node for node, snapshot in told.items() if snapshot.active_controller), None)
    if active is None:
        raise NotHandedOver(f"no controller says that it is active; {_words(told)}")
    if not any(each.controller_id == active for node, each in told.items() if node != active):
        name = _name(cluster, active)
        raise NotHandedOver(f"no other controller is ready to follow {name}; {_words(told)}")
    since = time.monotonic()
    with ThreadPoolExecutor(1, thread_name_prefix="stop") as pool:
        stopping = pool.submit(cluster.terminate, active)
        try:
            successor: NodeSnapshot = eventually(
                lambda: _active(cluster, active),
                within=within_s,
                what="another controller is active",
                state=lambda: _words(_controllers(cluster)),
            )
        except NeverHappened as error:
            raise NotHandedOver(str(error)) from error
        took_s = time.monotonic() - since
        stopping.result()
    return HandOver(active, successor.node_id, successor.controller_epoch, took_s)


def _controllers(cluster: Cluster, timeout_s: float = AT_ONCE_S) -> dict[NodeId, NodeSnapshot]:
    """Return the snapshots of the controllers that answer in that time."""
    asked = {
        node: cluster.try_snapshot(node, timeout_s=timeout_s)
        for node in cluster.topology.controller_ids
    }
    return {node: snapshot for node, snapshot in asked.items() if snapshot is not None}


def _active(cluster: Cluster, but: NodeId) -> NodeSnapshot | None:
    found = _controllers(cluster).items()
    return next((told for node, told in found if node != but and told.active_controller), None)


def _name(cluster: Cluster, node: NodeId) -> str:
    return cluster.topology.node(node).name


def _words(told: dict[NodeId, NodeSnapshot]) -> str:
    said = [
        f"{node} {'is active' if each.active_controller else f'takes {each.controller_id} for it'}"
        for node, each in told.items()
    ]
    return ", ".join(said) or "none answers"
