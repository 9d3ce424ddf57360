"""Removes replicas' folders that were set aside, once they are known to belong here no more.

A broker meets them at its return, or as the controller's first command does not list them. There
may be thousands: others run between two of them.
"""

from __future__ import annotations

from collections.abc import Collection

from highwater_broker.log_folders import LogFolders
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.replica_logs import MayGoOn
from highwater_core.ids import NodeId, TopicPartition


async def remove_strays(
    logs: LogFolders,
    metadata: MetadataCache,
    broker_id: NodeId,
    gone: Collection[str],
    may_go_on: MayGoOn,
    *,
    of_all: bool,
) -> bool:
    """Remove the strays of topics that are gone, and of partitions that are others' by now.

    of_all: any topic counts as gone that the controller did not list, once it has listed all; then
    it has also said who has the replicas of those that there are. Else only those in `gone` do,
    which a command said were deleted.

    Return False once the command does not count any more.
    """
    if not (of_all and metadata.is_complete):
        return not gone or await logs.delete_strays(gone, may_go_on)
    known = {topic: metadata.topic_id(topic) for topic in metadata.topics()}

    def is_elsewhere(at: TopicPartition) -> bool:
        told = metadata.partition(at.topic, at.partition)
        return told is not None and broker_id not in told.assigned_replicas

    return await logs.delete_strays_of_others(known, is_elsewhere, may_go_on)
