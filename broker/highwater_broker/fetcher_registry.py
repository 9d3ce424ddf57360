"""Which partition is fetched by which fetcher: one task per leader, one fetcher per partition.

Source: DESIGN section 2 (ReplicaFetcherThread per leader); L8 (a follower has one fetcher).
"""

from __future__ import annotations

from highwater_broker.fetcher import FetcherContext, Phase, ReplicaFetcher
from highwater_broker.partition import Partition
from highwater_core.events import EventKind
from highwater_core.ids import Endpoint, NodeId, TopicPartition
from highwater_core.runtime import Task, TaskScope


class FetcherRegistry:
    """Starts, feeds and stops the fetchers.

    Invariant: a partition is in at most one fetcher; a fetcher without partitions lives only
    until drop_idle.
    """

    def __init__(self, context: FetcherContext, scope: TaskScope) -> None:
        self._context = context
        self._scope = scope
        self._fetchers: dict[NodeId, tuple[ReplicaFetcher, Task]] = {}
        self._leader_of: dict[TopicPartition, NodeId] = {}
        self._is_closed = False

    def learn_endpoint(self, leader: NodeId, replication: Endpoint) -> None:
        """Remember where a command said that a leader answers, for while metadata does not."""
        self._context.told_endpoints[leader] = replication

    def add(self, partition: Partition, leader: NodeId, *, truncates: bool) -> None:
        """Fetch the partition from its log's end, after truncation by epoch where asked."""
        if self._is_closed:
            return
        fetcher, _ = self._fetchers.get(leader) or self._start(leader)
        fetcher.add(partition, truncates=truncates)
        self._leader_of[partition.topic_partition] = leader
        partition.trace(EventKind.FETCHER_STARTED, leader=leader)

    def _start(self, leader: NodeId) -> tuple[ReplicaFetcher, Task]:
        fetcher = ReplicaFetcher(self._context, leader)
        started = fetcher, self._scope.spawn(f"ReplicaFetcherThread-{leader}", fetcher.run())
        self._fetchers[leader] = started
        return started

    def remove(self, topic_partition: TopicPartition) -> bool:
        """Stop fetching the partition: nothing of what is on its way is appended any more.

        Return whether its log was still to be truncated.
        """
        leader = self._leader_of.pop(topic_partition, None)
        if leader is None:
            return False
        fetcher, _ = self._fetchers[leader]
        partition, phase = fetcher.remove(topic_partition)
        partition.trace(EventKind.FETCHER_STOPPED)
        return phase is Phase.TRUNCATING

    def drop_idle(self) -> None:
        """Stop the tasks that have no partition left."""
        for leader, (fetcher, task) in list(self._fetchers.items()):
            if fetcher.is_idle:
                fetcher.disconnect()
                task.cancel()
                del self._fetchers[leader]

    def close(self) -> None:
        """Stop all, and start none again."""
        self._is_closed = True
        for topic_partition in list(self._leader_of):
            self.remove(topic_partition)
        self.drop_idle()
