"""Assigns partitions to fetchers: one fetcher per partition, several per leader.

Partitions are spread over a leader's fetchers by a hash, and again when the number of fetchers
changes. A partition goes on at its log's end, and later answers to its earlier fetcher are ignored.
Where one of the fetchers has MAX_FOLLOWED partitions, another one takes further ones.

A Fetch names all of its topics by id (version 15) or all by name (version 12). So where topics have
ids, partitions of topics without one have a second task. Otherwise all would be fetched by name,
and a leader with another topic of the same name could not tell the difference.

Source: ARCHITECTURE.md (ReplicaFetcherThread per leader); L8 (a follower has one fetcher).
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from highwater_broker.fetcher import FetcherContext, Released, ReplicaFetcher
from highwater_broker.logic.fetcher_spread import MAX_FOLLOWED, fetcher_number
from highwater_broker.replica import Replica
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, Endpoint, NodeId, TopicPartition
from highwater_core.runtime import Task, TaskScope


class FetcherKey(NamedTuple):
    """A fetcher's leader, its number among the leader's, and whether it fetches by name.

    is_by_name: it fetches topics without an id where others have one.
    more: 0, or its number among those that take what the first has no room for.
    """

    leader: NodeId
    number: int
    is_by_name: bool
    more: int = 0

    @property
    def name(self) -> str:
        number = f"-{self.number}" if self.number else ""
        by_name = "-by-name" if self.is_by_name else ""
        more = f"-more-{self.more}" if self.more else ""
        return f"ReplicaFetcherThread-{self.leader}{number}{by_name}{more}"


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
        self._count = context.settings.num_replica_fetchers

    def learn_endpoint(self, leader: NodeId, replication: Endpoint) -> None:
        """Remember a leader's endpoint from a command, for use while metadata has none."""
        self._context.told_endpoints[leader] = replication

    def knows(self, leader: NodeId) -> bool:
        """Return whether metadata has the broker as one that lives."""
        return self._context.endpoint_of(leader) is not None

    def add(self, partition: Replica, leader: NodeId, *, truncates: bool, is_in_sync: bool) -> None:
        """Fetch the partition from its log's end, if needed after truncation by epoch.

        is_in_sync: it is a member of the ISR, which quotas do not hold back.
        """
        if self._is_closed:
            return
        is_by_name = self._context.toggles.topic_id and partition.topic_id == NO_TOPIC_ID
        number = fetcher_number(partition.topic_partition, self._count)
        key = self._with_room(FetcherKey(leader, number, is_by_name))
        fetcher, _ = self._fetchers.get(key) or self._start(key)
        fetcher.add(partition, truncates=truncates, is_in_sync=is_in_sync)
        self._fetcher_of[partition.topic_partition] = key
        partition.trace(EventKind.FETCHER_STARTED, leader=leader)

    def _with_room(self, first: FetcherKey) -> FetcherKey:
        """Return the first of these fetchers that has room, or the next one to start."""
        keys = (first._replace(more=more) for more in count())
        return next(
            key
            for key in keys
            if key not in self._fetchers or self._fetchers[key][0].partition_count < MAX_FOLLOWED
        )

    def spread_over(self, fetcher_count: int) -> None:
        """Use so many fetchers for each leader; partitions move between them.

        Ordering: a partition leaves its fetcher before another one begins with it, at the log's
        end; later answers to the former are not appended.
        """
        if fetcher_count == self._count:
            return
        self._count = fetcher_count
        for topic_partition, key in list(self._fetcher_of.items()):
            if fetcher_number(topic_partition, fetcher_count) != key.number:
                released = self._release(topic_partition, key)
                self.add(
                    released.partition,
                    key.leader,
                    truncates=released.is_truncation_due,
                    is_in_sync=released.is_in_sync,
                )
        self.drop_idle()

    def _start(self, key: FetcherKey) -> tuple[ReplicaFetcher, Task]:
        fetcher = ReplicaFetcher(self._context, key.leader, key.name)
        started = fetcher, self._scope.spawn(key.name, fetcher.run())
        self._fetchers[key] = started
        return started

    def remove(self, topic_partition: TopicPartition) -> bool:
        """Stop fetching the partition: answers under way are no longer appended.

        Return whether its log was still to be truncated.
        """
        key = self._fetcher_of.pop(topic_partition, None)
        if key is None:
            return False
        return self._release(topic_partition, key).is_truncation_due

    def _release(self, topic_partition: TopicPartition, key: FetcherKey) -> Released:
        fetcher, _ = self._fetchers[key]
        released = fetcher.remove(topic_partition)
        released.partition.trace(EventKind.FETCHER_STOPPED)
        return released

    def drop_idle(self) -> None:
        """Stop the tasks that have no partition left."""
        for key, (fetcher, task) in list(self._fetchers.items()):
            if fetcher.partition_count == 0:
                fetcher.disconnect()
                task.cancel()
                del self._fetchers[key]

    def close(self) -> None:
        """Stop all fetchers, and start no new ones."""
        self._is_closed = True
        for topic_partition in list(self._fetcher_of):
            self.remove(topic_partition)
        self.drop_idle()
