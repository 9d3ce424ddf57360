"""A follower's last fetch, so that its next fetch only costs work for changed partitions.

Followers fetch the same partitions again and again, mostly without news. Requests and answers stay
complete: this is no part of the protocol (KIP-227 is not served), and without it every answer would
be the same, only later.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater_broker.kafka_api.pending_fetch import Part
from highwater_broker.purgatory import Purgatory, Watch
from highwater_core.ids import BrokerEpoch, TopicPartition
from highwater_wire.kafka.messages import FetchPartition, FetchRequest


class FollowerSession:
    """The parts of one follower incarnation's last fetch.

    A part is closed, with its answer ready, while the follower is at the log's end and in the ISR,
    has the high watermark, and the partition has not changed since. Otherwise it is open and is
    checked again.

    Invariant: every part with a partition is watched, so that a change of the partition opens it.
    """

    def __init__(self, replica_epoch: BrokerEpoch, purgatory: Purgatory) -> None:
        self.replica_epoch = replica_epoch
        self.watch = Watch(self._open)
        self.open_parts: dict[Part, None] = {}
        self._purgatory = purgatory
        self._parts: dict[tuple[str, str, int], Part] = {}
        """By topic id and name, of which a request has one or both, and partition number."""
        self._watched: dict[TopicPartition, Part] = {}

    def has(self, item: FetchPartition) -> bool:
        """Return whether the last fetch had the partition."""
        return (item.topic_id, item.topic, item.partition) in self._parts

    def shares_with(self, other: FollowerSession) -> bool:
        """Return whether a partition was in the last fetch of both."""
        return not self._parts.keys().isdisjoint(other._parts)

    def begin(
        self, request: FetchRequest, make_part: Callable[[FetchPartition], Part], now_ms: int
    ) -> list[Part]:
        """Return the request's parts in its order, and count the progress of the closed ones.

        now_ms is monotonic.
        """
        known, replica_id = self._parts, request.replica_id
        self.open_parts = {}
        parts: list[Part] = []
        for item in request.partitions:
            key = item.topic_id, item.topic, item.partition
            part = known.get(key)
            if (
                part is None
                or part.answer is None
                or part.partition is None
                or (part.item is not item and part.item != item)
                or not part.partition.record_repeated_fetch(replica_id, now_ms)
            ):
                part = known[key] = make_part(item)
                self.open_parts[part] = None
                self._watch(part)
            parts.append(part)
        if len(known) > len(parts):
            self._forget_all_but(parts)
        return parts

    def close(self) -> None:
        """End all watches."""
        for topic_partition in self._watched:
            self._purgatory.unwatch(topic_partition, self.watch)
        self._watched.clear()

    def _watch(self, part: Part) -> None:
        if part.partition is not None:
            topic_partition = part.partition.topic_partition
            if topic_partition not in self._watched:
                self._purgatory.watch(topic_partition, self.watch)
            self._watched[topic_partition] = part

    def _open(self, topic_partition: TopicPartition) -> None:
        part = self._watched[topic_partition]
        part.answer = None
        self.open_parts[part] = None

    def _forget_all_but(self, parts: list[Part]) -> None:
        kept = dict.fromkeys(parts)
        self._parts = {key: part for key, part in self._parts.items() if part in kept}
        for topic_partition, part in list(self._watched.items()):
            if part not in kept:
                del self._watched[topic_partition]
                self._purgatory.unwatch(topic_partition, self.watch)
