"""Waits until this broker's own metadata has the controller's changes of topics.

So a client can request the topic from this broker directly after the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.purgatory import Purgatory
from highwater_core.ids import TopicPartition
from highwater_core.runtime import Runtime

WHOLE_TOPIC = -1
CONTROLLER_ANSWERS_WITHIN_MS = 5_000
"""The least time that the controller has to answer a request, whatever its client's timeout."""


def topic_key(topic: str) -> TopicPartition:
    """Return the purgatory's key for a topic as a whole."""
    return TopicPartition(topic, WHOLE_TOPIC)


class Deadline:
    """The end of a request's timeout.

    A client whose timeout is short, or 0 and less, does not wait for the outcome: what it asked for
    is done nevertheless. So the timeout bounds the waits for topics and leaders, and not the call
    of the controller, which is asked before any wait.
    Source: Kafka's ZkAdminManager carries out what has no time, and answers REQUEST_TIMED_OUT.
    """

    def __init__(self, runtime: Runtime, timeout_ms: int, max_timeout_ms: int) -> None:
        """max_timeout_ms: the most, where the request has more."""
        self._runtime = runtime
        self._max_timeout_ms = max_timeout_ms
        self._deadline_ms = runtime.now_ms() + min(max(timeout_ms, 0), max_timeout_ms)

    def remaining_ms(self) -> int:
        """Return the remaining milliseconds, at least 0."""
        return max(0, self._deadline_ms - self._runtime.now_ms())

    def controller_timeout_ms(self) -> int:
        """Return how long to wait for the controller's answer."""
        least_ms = min(CONTROLLER_ANSWERS_WITHIN_MS, self._max_timeout_ms)
        return max(self.remaining_ms(), least_ms)


Deadlines = Callable[[int], Deadline]
"""Returns the deadline of a request that comes now, from its timeout in milliseconds."""


class TopicWaits:
    """Requests that wait for topics to appear or to vanish."""

    def __init__(self, metadata: MetadataCache, purgatory: Purgatory) -> None:
        self._metadata = metadata
        self._purgatory = purgatory
        metadata.listen(lambda topic: purgatory.check(topic_key(topic)))

    def is_ready(self, topic: str) -> bool:
        """Return whether the topic is known and each of its partitions has a live leader."""
        partitions = self._metadata.partitions(topic)
        return bool(partitions) and all(
            self._metadata.is_alive(partition.leader) for partition in partitions
        )

    def partition_count(self, topic: str) -> int:
        return self._metadata.partition_count_of(topic)

    def are_led(self, topic: str, numbers: Iterable[int]) -> bool:
        """Return whether each of these partitions is known and has a live leader."""
        known = (self._metadata.partition(topic, number) for number in numbers)
        return all(each is not None and self._metadata.is_alive(each.leader) for each in known)

    def is_led_by_preferred(self, partition: TopicPartition) -> bool:
        """Return whether the head of the partition's assignment leads it."""
        known = self._metadata.partition(partition.topic, partition.partition)
        return known is not None and known.assigned_replicas[:1] == (known.leader,)

    def is_gone(self, topic: str) -> bool:
        return not self._metadata.has_topic(topic)

    def look_again(self, topic: str) -> None:
        """Let requests that wait for the topic check again, although its metadata is unchanged."""
        self._purgatory.check(topic_key(topic))

    async def wait(
        self, topics: Sequence[str], condition: Callable[[str], bool], timeout_ms: int
    ) -> None:
        """Return once the condition has held for each topic, or timeout_ms has passed."""
        waiting = list(reversed(topics))

        def is_complete() -> bool:
            # A topic that was ready is not checked again: there may be thousands, checked one by
            # one.
            while waiting and condition(waiting[-1]):
                waiting.pop()
            return not waiting

        await self._purgatory.wait([topic_key(topic) for topic in topics], is_complete, timeout_ms)
