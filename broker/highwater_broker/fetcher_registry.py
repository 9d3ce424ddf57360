"""Which partition is fetched by which fetcher: one fetcher per partition, a leader's in one task.

A Fetch names all of its topics by id (version 15) or all by name (version 12). So where topics have
ids, partitions of those without one have a second task: one of them among the others would have all
fetched by name, and a leader that has another topic of that name could not tell.

Source: ARCHITECTURE.md (ReplicaFetcherThread per leader); L8 (a follower has one fetcher).
"""

from __future__ import annotations

from typing import NamedTuple

from highwater_broker.fetcher import FetcherContext, Phase, ReplicaFetcher
from highwater_broker.replica import Replica
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, Endpoint, NodeId, TopicPartition
from highwater_core.runtime import Task, TaskScope


class FetcherKey(NamedTuple):
    """A fetcher's leader, and whether it fetches what has no id where others have."""

    leader: NodeId
    is_by_name: bool

    @property
    def name(self) -> str:
        return f"ReplicaFetcherThread-{self.leader}{'-by-name' if self.is_by_name else ''}"


class FetcherRegistry:
    """Starts, feeds and stops the fetchers.

    Invariant: a partition is in at most one fetcher; a fetcher without partitions lives only
    until drop_idle.
    """

    def __init__(self, context: FetcherContext, scope: TaskScope) -> None:
        self._context = context
        self._scope = scope
        self._fetchers: dict[FetcherKey, tuple[ReplicaFetcher, Task]] = {}
        self._fetcher_of: dict[TopicPartition, FetcherKey] = {}
        self._is_closed = False

    def learn_endpoint(self, leader: NodeId, replication: Endpoint) -> None:
        """Remember where a command said that a leader answers, for while metadata does not."""
        self._context.told_endpoints[leader] = replication

    def add(self, partition: Replica, leader: NodeId, *, truncates: bool, is_in_sync: bool) -> None:
        """Fetch the partition from its log's end, after truncation by epoch where asked.

        is_in_sync: it is a member of the ISR, which no quota holds back.
        """
        if self._is_closed:
            return
        has_ids = self._context.toggles.topic_id
        key = FetcherKey(leader, is_by_name=has_ids and partition.topic_id == NO_TOPIC_ID)
        fetcher, _ = self._fetchers.get(key) or self._start(key)
        fetcher.add(partition, truncates=truncates, is_in_sync=is_in_sync)
        self._fetcher_of[partition.topic_partition] = key
        partition.trace(EventKind.FETCHER_STARTED, leader=leader)

    def _start(self, key: FetcherKey) -> tuple[ReplicaFetcher, Task]:
        fetcher = ReplicaFetcher(self._context, key.leader, key.name)
        started = fetcher, self._scope.spawn(key.name, fetcher.run())
        self._fetchers[key] = started
        return started

    def remove(self, topic_partition: TopicPartition) -> bool:
        """Stop fetching the partition: nothing of what is on its way is appended any more.

        Return whether its log was still to be truncated.
        """
        key = self._fetcher_of.pop(topic_partition, None)
        if key is None:
            return False
        fetcher, _ = self._fetchers[key]
        partition, phase = fetcher.remove(topic_partition)
        partition.trace(EventKind.FETCHER_STOPPED)
        return phase is Phase.TRUNCATING

    def drop_idle(self) -> None:
        """Stop the tasks that have no partition left."""
        for key, (fetcher, task) in list(self._fetchers.items()):
            if fetcher.is_idle:
                fetcher.disconnect()
                task.cancel()
                del self._fetchers[key]

    def close(self) -> None:
        """Stop all, and start none again."""
        self._is_closed = True
        for topic_partition in list(self._fetcher_of):
            self.remove(topic_partition)
        self.drop_idle()
