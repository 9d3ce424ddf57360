"""A consumer of librdkafka that reads all of one topic; its records go to the run's history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, Message, TopicPartition

from highwater.runs.stock.recording import ClientHistory
from highwater.waiting import NeverHappened, eventually
from highwater_checker.history import POLL, OperationType
from highwater_checker.run_folder.documents import PromisedConsumer

_READ_WITHIN_S = 20.0
_POLL_S = 0.2
_MOST_READ = 500
_ANSWER_WITHIN_S = 2.0
_SETTINGS: dict[str, Any] = {
    "group.id": "unused",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
}
"""It assigns its partitions itself, and commits nothing."""


class RecordedConsumer:
    """Reads every partition of a topic from its start; one thread's at a time."""

    def __init__(
        self, config: Mapping[str, Any], topic: str, process: str, history: ClientHistory
    ) -> None:
        self.promised = PromisedConsumer(process, topic)
        self._topic = topic
        self._history = history
        self._consumer = confluent_kafka.Consumer({**_SETTINGS, **config})
        self._next: dict[int, int] = {}
        self._assign_new()

    def consume(self, count: int, timeout: float) -> list[Message]:
        """Return up to so many messages, in each partition's order, within that time, s."""
        found = list(self._consumer.consume(count, timeout))
        operation = self._history.new_operation()
        for message in found:
            error = message.error()
            name = error.name() if error is not None else ""
            kind = OperationType.FAIL if name else OperationType.OK
            offset = -1 if name or message.offset() is None else int(message.offset())
            partition = -1 if message.partition() is None else int(message.partition())
            value, key = message.value() or b"", message.key() or b""
            self._history.write(
                kind, operation, POLL, self._topic, partition,
                "" if name else value.decode("utf-8", "replace"), offset, name,
                key="" if name else key.decode("utf-8", "replace"),
            )  # fmt: skip
            if not name:
                self._next[partition] = offset + 1
        self._history.hand_over()
        return found

    def finish(self) -> str:
        """Read to the end within a bound, and close the history; return why not, or ""."""
        try:
            self._assign_new()
            eventually(
                self._is_at_the_end,
                within=_READ_WITHIN_S,
                what=f"{self.promised.client} has read all of {self._topic}",
                state=lambda: f"it goes on at {self._next}",
            )
        except (NeverHappened, KafkaException) as error:
            return str(error)
        finally:
            self.close()
        return ""

    def close(self) -> None:
        """Close the history and the consumer, wherever it is."""
        self._consumer.close()
        self._history.close()

    def _is_at_the_end(self) -> bool:
        self.consume(_MOST_READ, _POLL_S)
        return all(self._is_read(partition) for partition in self._next)

    def _is_read(self, partition: int) -> bool:
        """Return whether all offered records of the partition are read.

        A compacted log may end in offsets without a record, which no message has; the position is
        behind these.
        """
        at = TopicPartition(self._topic, partition)
        offered = self._consumer.get_watermark_offsets(at, _ANSWER_WITHIN_S)
        if offered is None:
            return False
        start_offset, end_offset = offered
        (position,) = self._consumer.position([at])
        reached = max(self._next[partition], int(position.offset))
        return bool(start_offset == end_offset or reached >= end_offset)

    def _assign_new(self) -> None:
        """Assign the partitions that the topic has got since, from their start."""
        told = self._consumer.list_topics(self._topic, _ANSWER_WITHIN_S).topics[self._topic]
        new = sorted(set(told.partitions) - set(self._next))
        places = [TopicPartition(self._topic, partition, 0) for partition in new]
        self._next.update(dict.fromkeys(new, 0))
        if places:
            self._consumer.incremental_assign(places)
