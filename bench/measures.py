"""Measurements of a cluster through its clients, the same for Highwater and Apache Kafka.

Each function takes a bootstrap address, and does not know the system behind it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from bench.summary import percentile

QUIET: dict[str, Any] = {"log_level": 0}
THROUGHPUT: dict[str, Any] = {
    **QUIET,
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.kbytes": 262_144,
    "queue.buffering.max.messages": 2_000_000,
}
CONSUMING: dict[str, Any] = {
    **QUIET,
    "group.id": "bench",
    "enable.auto.commit": False,
    # A partition whose records wait in the client is left out of fetches for so long. By default it
    # is a second, in which a reader that is quicker than its broker has nothing to read.
    "fetch.queue.backoff.ms": 5,
}
"""The client's defaults but for its pause, which would be measured instead of the broker."""
ONE_AT_A_TIME: dict[str, Any] = {**QUIET, "acks": "all", "linger.ms": 0}
ONE_RECORD_REQUESTS: dict[str, Any] = {
    **QUIET,
    "acks": "all",
    "linger.ms": 0,
    "batch.num.messages": 1,
    "max.in.flight": 50,
}
IMPATIENT: dict[str, Any] = {
    **QUIET,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    # While the dead leader's session lives, metadata still names it. librdkafka then asks again
    # when its scan of the topics comes round, each second; this asks ten times as often.
    "topic.metadata.refresh.interval.ms": 100,
}
"""Settings with fast retries, for times that a client's own pauses would hide."""
FAILOVER: dict[str, Any] = {
    **IMPATIENT,
    "acks": "all",
    "linger.ms": 0,
    "request.timeout.ms": 1500,
    "message.timeout.ms": 60_000,
}
REPLICATION = 3
MIN_INSYNC_REPLICAS = "2"
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Throughput:
    """MB is 10^6 bytes of record values."""

    megabytes_per_second: float
    records_per_second: float
    records: int


@dataclass(frozen=True, slots=True)
class Latency:
    p50_ms: float
    p99_ms: float
    samples: int


def wait_for_brokers(bootstrap: str, count: int, within_s: float) -> None:
    """Return once one broker's metadata shows so many brokers.

    Raises:
        TimeoutError: not within the bound.
    """
    admin = AdminClient({**IMPATIENT, "bootstrap.servers": bootstrap})

    def all_live() -> bool:
        try:
            return len(admin.list_topics(timeout=1).brokers) >= count
        except KafkaException:
            return False

    wait_until(all_live, within_s, f"{count} brokers")


def new_topic(bootstrap: str, partition_count: int, within_s: float = 30.0) -> str:
    """Create a topic of three replicas with min.insync.replicas 2, led everywhere; return its name.

    Raises:
        KafkaException: it was not created.
        TimeoutError: it has no full ISR within the bound.
    """
    name = create_topic(bootstrap, partition_count, within_s)
    wait_for_full_isr(bootstrap, name, within_s)
    return name


def create_topic(
    bootstrap: str, partition_count: int, within_s: float = 30.0, replicas: int = REPLICATION
) -> str:
    """Create the topic and return its name, without waiting for leaders."""
    (name,) = create_topics(bootstrap, 1, partition_count, within_s, replicas)
    return name


def create_topics(
    bootstrap: str,
    count: int,
    partition_count: int,
    within_s: float = 30.0,
    replicas: int = REPLICATION,
) -> list[str]:
    """Create topics of so many partitions each by one request; return their names."""
    names = [f"bench-{uuid.uuid4().hex[:8]}" for _ in range(count)]
    admin = AdminClient({**IMPATIENT, "bootstrap.servers": bootstrap})
    config = {"min.insync.replicas": MIN_INSYNC_REPLICAS}
    topics = [NewTopic(name, partition_count, replicas, config=config) for name in names]
    for created in admin.create_topics(topics, operation_timeout=within_s).values():
        created.result(within_s)
    return names


def delete_topic(bootstrap: str, topic: str, within_s: float = 30.0) -> None:
    """Delete the topic, so that its pages need not be written to the disk any more."""
    admin = AdminClient({**IMPATIENT, "bootstrap.servers": bootstrap})
    admin.delete_topics([topic], operation_timeout=within_s)[topic].result(within_s)


def wait_for_full_isr(bootstrap: str, topic: str, within_s: float) -> None:
    """Return once every partition has a leader and all replicas in its ISR.

    Raises:
        TimeoutError: not within the bound.
    """
    wait_for_full_isrs(bootstrap, [topic], within_s)


def wait_for_full_isrs(bootstrap: str, topics: Sequence[str], within_s: float) -> None:
    """As wait_for_full_isr, of several topics."""
    admin = AdminClient({**IMPATIENT, "bootstrap.servers": bootstrap})

    def is_full() -> bool:
        try:
            found = _metadata_of(admin, topics, timeout_s=2)
        except KafkaException:
            return False
        return all(topic in found and _is_full(found[topic]) for topic in topics)

    wait_until(is_full, within_s, f"a full ISR of {len(topics)} topics, the first {topics[0]}")


def _metadata_of(
    admin: AdminClient, topics: Sequence[str], timeout_s: float
) -> dict[str, TopicMetadata]:
    """Return the metadata of the topics, with others' where they are several."""
    only = topics[0] if len(topics) == 1 else None
    found: dict[str, TopicMetadata] = admin.list_topics(only, timeout=timeout_s).topics
    return found


def _is_full(topic: TopicMetadata) -> bool:
    return bool(topic.partitions) and all(
        partition.leader >= 0 and len(partition.isrs) == REPLICATION
        for partition in topic.partitions.values()
    )


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Return the partition's leader by the metadata; -1 when there is none."""
    return leaders_of(bootstrap, topic)[partition]


def leaders_of(bootstrap: str, topic: str) -> dict[int, int]:
    """Return each partition's leader by the metadata; -1 when there is none."""
    return leaders_of_all(bootstrap, [topic])[topic]


def leaders_of_all(bootstrap: str, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Return each partition's leader by the metadata, by topic; -1 when there is none."""
    admin = AdminClient({**IMPATIENT, "bootstrap.servers": bootstrap})
    found = _metadata_of(admin, topics, timeout_s=10)
    return {
        topic: {number: int(each.leader) for number, each in found[topic].partitions.items()}
        for topic in topics
    }


def produce_one(bootstrap: str, topic: str, within_s: float = 30.0) -> None:
    """Return once one record is acknowledged by all.

    Raises:
        TimeoutError: not within the bound.
    """
    producer = Producer({**FAILOVER, "bootstrap.servers": bootstrap})
    producer.produce(topic, b"x" * 100, partition=0)
    if producer.flush(within_s):
        raise TimeoutError(f"no acknowledgement within {within_s} s")


def wait_until(predicate: Callable[[], bool], within_s: float, what: str) -> None:
    """Return once the predicate holds.

    Raises:
        TimeoutError: not within the bound.
    """
    deadline = time.monotonic() + within_s
    while not predicate():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s} s: {what}")
        time.sleep(POLL_S)


def produce_throughput(
    bootstrap: str, topic: str, partition_count: int, record_bytes: int, total_bytes: int
) -> Throughput:
    """Send total_bytes of records, acks=all, and return the rate till the last acknowledgement.

    Raises:
        RuntimeError: the log ends do not add up to the number of sent records.
    """
    producer = Producer({**THROUGHPUT, "bootstrap.servers": bootstrap})
    producer.list_topics(topic, timeout=10)
    value = (uuid.uuid4().bytes * (record_bytes // 16 + 1))[:record_bytes]
    count = total_bytes // record_bytes
    before = log_end_total(bootstrap, topic, partition_count)
    started = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % partition_count)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(120)
    elapsed = time.perf_counter() - started
    stored = log_end_total(bootstrap, topic, partition_count) - before
    if left or stored < count:
        raise RuntimeError(f"{count} records sent, {left} without answer, {stored} in the log")
    return Throughput(count * record_bytes / elapsed / 1e6, count / elapsed, count)


def consume_throughput(
    bootstrap: str, topic: str, partition_count: int, record_bytes: int
) -> Throughput:
    """Read all records of the topic, and return the rate from the request for the first one on.

    To the end: records that the client fetches ahead and nobody reads would be work of the broker
    that does not count.

    Raises:
        RuntimeError: the records were not read within 120 s.
    """
    count = log_end_total(bootstrap, topic, partition_count)
    consumer = Consumer({**CONSUMING, "bootstrap.servers": bootstrap})
    try:
        consumer.list_topics(topic, timeout=10)
        started = time.perf_counter()
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partition_count)])
        read = 0
        while read < count:
            # Not more than there are: it would wait for them.
            batch = consumer.consume(min(count - read, 10_000), timeout=1)
            if not batch and time.perf_counter() - started > 120:
                raise RuntimeError(f"read {read} of {count} records of {topic} within 120 s")
            read += len(batch)
        elapsed = time.perf_counter() - started
    finally:
        consumer.close()
    return Throughput(read * record_bytes / elapsed / 1e6, read / elapsed, read)


def one_at_a_time(bootstrap: str, topic: str, samples: int, record_bytes: int = 100) -> Latency:
    """Return the latencies of records, each sent when the one before is acknowledged."""
    producer = Producer({**ONE_AT_A_TIME, "bootstrap.servers": bootstrap})
    value = b"x" * record_bytes
    times: list[float] = []
    for number in range(samples + samples // 10):
        started = time.perf_counter()
        producer.produce(topic, value, partition=0)
        if producer.flush(30):
            raise RuntimeError("no acknowledgement within 30 s")
        if number >= samples // 10:
            times.append((time.perf_counter() - started) * 1000)
    return Latency(percentile(times, 50), percentile(times, 99), len(times))


def one_record_requests(bootstrap: str, topic: str, seconds: float) -> float:
    """Return acknowledged requests a second with one record in each and 50 in flight."""
    producer = Producer({**ONE_RECORD_REQUESTS, "bootstrap.servers": bootstrap})
    value = b"x" * 100
    acknowledged = 0

    def delivered(error: Any, _message: Any) -> None:
        nonlocal acknowledged
        if error is not None:
            raise KafkaException(error)
        acknowledged += 1

    sent = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        while sent - acknowledged < 200:
            producer.produce(topic, value, partition=0, on_delivery=delivered)
            sent += 1
        producer.poll(0.005)
    producer.flush(30)
    return acknowledged / (time.perf_counter() - started)


def log_end_total(bootstrap: str, topic: str, partition_count: int) -> int:
    """Return the sum of the partitions' log ends as consumers see them."""
    consumer = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "bench"})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)[1]
            for number in range(partition_count)
        )
    finally:
        consumer.close()


class AcknowledgementWatch:
    """Sends a record every 10 ms and records the acknowledgements' times, for failover times."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({**FAILOVER, "bootstrap.servers": bootstrap})
        self._topic = topic
        self._acknowledged: list[tuple[float, float]] = []

    def run_until(self, predicate: Callable[[], bool], within_s: float) -> None:
        """Send until the predicate holds.

        Raises:
            TimeoutError: it does not hold within the bound.
        """
        deadline = time.monotonic() + within_s
        while not predicate():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no change within {within_s} s")
            self._send()
            self._producer.poll(0.01)

    def first_sent_after(self, moment: float) -> float | None:
        """Return when the first record that was sent after the moment was acknowledged."""
        return min((done for sent, done in self._acknowledged if sent >= moment), default=None)

    def close(self) -> None:
        self._producer.flush(10)

    def _send(self) -> None:
        sent = time.monotonic()

        def delivered(error: Any, _message: Any) -> None:
            if error is None:
                self._acknowledged.append((sent, time.monotonic()))

        self._producer.produce(self._topic, b"x" * 100, partition=0, on_delivery=delivered)
