"""Removes replicas' folders that were set aside, once their topics are known to be gone.

A broker meets them at its return, or as the controller's first command does not list them. There
may be thousands: others run between two of them.
"""

from __future__ import annotations

from collections.abc import Collection

from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.replica_logs import MayGoOn, ReplicaLogs


async def remove_strays(
    logs: ReplicaLogs,
    metadata: MetadataCache,
    gone: Collection[str],
    may_go_on: MayGoOn,
    *,
    of_all: bool,
) -> bool:
    """Remove the strays of topics that are gone.

    of_all: any topic counts as gone that the controller did not list, once it has listed all. Else
    only those in `gone` do, which a command said were deleted.

    Return False once the command does not count any more.
    """
    if not (of_all and metadata.is_complete):
        return not gone or await logs.delete_strays(gone, may_go_on)
    known = {topic: metadata.topic_id(topic) for topic in metadata.topics()}
    return await logs.delete_strays_of_others(known, may_go_on)
