"""Which cluster a ZooKeeper is of: a random id in it, which brokers keep beside their logs.

A ZooKeeper that lost its data, or another cluster's, knows none of a broker's topics: commands of
its controllers would have their logs removed. So a broker does not register there.
Source: Kafka's /cluster/id, and KAFKA-7335 (InconsistentClusterIdException).
"""

from __future__ import annotations

from contextlib import suppress

from highwater_broker.log.storage_identity import StorageIdentity
from highwater_core.ports import Coordination, NodeExists, NoNode, Rng
from highwater_core.znodes import (
    CLUSTER,
    CLUSTER_ID,
    MalformedZnode,
    decode_cluster_id,
    encode_cluster_id,
)


async def why_not_to_join(session: Coordination, storage: StorageIdentity, rng: Rng) -> str:
    """Return why the broker's logs are not of this ZooKeeper's cluster, "" where they are.

    The first broker writes ZooKeeper's id. A broker without one keeps it; where the disk refuses
    that, the next registration tries again. An id that cannot be read rules nothing out.

    Raises:
        CoordinationError
    """
    try:
        found = await _read(session) or await _write(session, rng.hex_id())
    except MalformedZnode:
        return ""
    if storage.cluster_id and storage.cluster_id != found:
        return (
            f"its logs are of cluster {storage.cluster_id}, and ZooKeeper is of cluster {found}: "
            "another one, or it lost its data. It would remove all of them"
        )
    with suppress(OSError):
        await storage.join(found)
    return ""


async def _read(session: Coordination) -> str:
    """Return ZooKeeper's id, "" where it has none yet."""
    try:
        data, _ = await session.get(CLUSTER_ID)
    except NoNode:
        return ""
    return decode_cluster_id(data)


async def _write(session: Coordination, cluster_id: str) -> str:
    """Return the id that ZooKeeper has from now on: another broker may be earlier."""
    await session.ensure_path(CLUSTER)
    try:
        await session.create(CLUSTER_ID, encode_cluster_id(cluster_id))
    except NodeExists:
        data, _ = await session.get(CLUSTER_ID)
        return decode_cluster_id(data)
    return cluster_id
