"""Pauses nodes so that a cluster stands still where a test wants to look."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from highwater.cluster.cluster import Cluster
from highwater.waiting import eventually

_RUN_OUT_WITHIN_S = 20.0


@contextmanager
def replication_held(cluster: Cluster, leader: int) -> Iterator[None]:
    """Pause every broker but one: from here on nothing that it appends is fetched.

    The fetches that waited at the leader when its followers froze have run out by then; a fetch
    answered later would be taken in when they wake. The pause must end before the followers'
    sessions do, or the controller takes them for dead.
    """
    others = [broker for broker in cluster.topology.broker_ids if broker != leader]

    def unpause(broker: int) -> None:
        if cluster.status(broker) == "paused":
            cluster.unpause(broker)

    with ThreadPoolExecutor(len(others), thread_name_prefix="pause") as pool:
        try:
            list(pool.map(cluster.pause, others))
            eventually(
                lambda: dict(cluster.snapshot(leader).counters)["waiting_requests"] == 0,
                within=_RUN_OUT_WITHIN_S,
                what=f"no fetch of a paused follower waits at broker {leader}",
            )
            yield
        finally:
            list(pool.map(unpause, others))
