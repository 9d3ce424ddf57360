"""Removes folders of replicas that were set aside, once they certainly no longer belong here.

Strays are found at a broker's start, or when the controller's first command does not list replicas.
There may be thousands: other tasks run between two of them.
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
    """Remove the strays of topics that are gone, and of partitions that other brokers have by now.

    of_all: once the controller has listed all topics with their replicas, any other topic counts as
    gone. Otherwise only topics in `gone` do, which a command reported as deleted.

    Return False once the command no longer counts.
    """
    if not (of_all and metadata.is_complete):
        return not gone or await logs.delete_strays(gone, may_go_on)
    known = {topic: metadata.topic_id(topic) for topic in metadata.topics()}

    def is_elsewhere(at: TopicPartition) -> bool:
        told = metadata.partition(at.topic, at.partition)
        return told is not None and broker_id not in told.assigned_replicas

    return await logs.delete_strays_of_others(known, is_elsewhere, may_go_on)
