"""Stock producers at full load that remember acknowledged records, and an audit of these."""

from __future__ import annotations

import struct
import threading
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

_ID = struct.Struct(">IQ")
"""The beginning of a value: its producer's number and its own number."""
_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": False,
    "linger.ms": 5,
    "batch.size": 500_000,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.interval.ms": 500,
    "message.timeout.ms": 120_000,
    "log_level": 0,
}
_READ_WITHIN_S = 300.0
_QUEUES_KB = 64 * 1024
"""The size of all producers' queues together while no broker takes records."""


class FullLoad:
    """Producers, each in its own thread, that send as fast as acknowledgements come.

    max_megabytes_per_s: of all producers together; 0: no bound.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partition_count: int,
        *,
        producers: int = 2,
        value_bytes: int = 1_000,
        max_megabytes_per_s: float = 0.0,
    ) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._padding = b"p" * (value_bytes - _ID.size)
        self._partition_count = partition_count
        self._pause_s = (
            producers * value_bytes / 1e6 / max_megabytes_per_s if (max_megabytes_per_s) else 0.0
        )
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.offsets = [array("q") for _ in range(partition_count)]
        self.ids = [array("Q") for _ in range(partition_count)]
        self.failures: dict[str, int] = {}
        self._threads = [
            threading.Thread(target=self._send, args=(number,), daemon=True)
            for number in range(producers)
        ]

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged records so far."""
        return sum(map(len, self.offsets))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, within_s: float = 150.0) -> None:
        """Stop sending; return once each record has its outcome.

        Raises:
            TimeoutError: some have none within the bound.
        """
        self._stopping.set()
        for thread in self._threads:
            thread.join(within_s)
            if thread.is_alive():
                raise TimeoutError(f"{thread.name} does not end; {self.acknowledged} acknowledged")

    def _send(self, number: int) -> None:
        settings = {"queue.buffering.max.kbytes": _QUEUES_KB // len(self._threads)}
        producer = Producer({**_SETTINGS, **settings, "bootstrap.servers": self._bootstrap})
        sent, began_s = 0, time.monotonic()
        while not self._stopping.is_set():
            value = _ID.pack(number, sent) + self._padding
            try:
                producer.produce(
                    self._topic,
                    value,
                    partition=(sent + number) % self._partition_count,
                    on_delivery=self._recording(number, sent),
                )
                sent += 1
            except BufferError:
                producer.poll(0.05)
            producer.poll(0)
            ahead_s = began_s + sent * self._pause_s - time.monotonic()
            if ahead_s > 0.005:
                producer.poll(ahead_s)
        producer.flush(130)

    def _recording(
        self, producer: int, number: int
    ) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            with self._lock:
                if error is not None:
                    self.failures[error.name()] = self.failures.get(error.name(), 0) + 1
                    return
                partition = int(message.partition())
                self.offsets[partition].append(int(message.offset()))
                self.ids[partition].append(producer << 40 | number)

        return delivered


@dataclass(frozen=True, slots=True)
class Audit:
    """Numbers of acknowledged records: looked up, lost of these, and removed by retention."""

    looked_up: int
    lost: int
    let_go: int
    examples: tuple[str, ...] = ()


def audit(bootstrap: str, topic: str, load: FullLoad) -> Audit:
    """Read the whole topic, and look every acknowledged record up at its offset.

    Raises:
        TimeoutError: the topic cannot be read within the bound.
    """
    looked_up = lost = let_go = 0
    examples: list[str] = []
    for partition, (offsets, ids) in enumerate(zip(load.offsets, load.ids, strict=True)):
        start_offset, found = _read(bootstrap, topic, partition)
        for offset, wanted in zip(offsets, ids, strict=True):
            if offset < start_offset:
                let_go += 1
                continue
            looked_up += 1
            if found.get(offset) != wanted:
                lost += 1
                examples.append(f"{topic}-{partition} at {offset}: {found.get(offset)}")
    return Audit(looked_up, lost, let_go, tuple(examples[:5]))


def _read(bootstrap: str, topic: str, partition: int) -> tuple[int, dict[int, int]]:
    """Return the log's start and the ids by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: dict[int, int] = {}
    deadline_s = time.monotonic() + _READ_WITHIN_S
    try:
        place = TopicPartition(topic, partition)
        start_offset, end_offset = consumer.get_watermark_offsets(place, 60)
        consumer.assign([TopicPartition(topic, partition, start_offset)])
        position = start_offset
        while position < end_offset:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    position = int(message.offset()) + 1
                    producer, number = _ID.unpack_from(message.value() or bytes(_ID.size))
                    found[position - 1] = producer << 40 | number
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{topic}-{partition} is read up to {position} of {end_offset}")
    finally:
        consumer.close()
    return start_offset, found
