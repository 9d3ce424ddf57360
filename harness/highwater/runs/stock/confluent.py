"""librdkafka by confluent-kafka, as a plan's producers and consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from highwater.runs.stock.clients import NeverSent, OnDone, Read
from highwater_chaos.plan import Producer as PlannedProducer

PRODUCER_SETTINGS: dict[str, Any] = {
    "enable.idempotence": False,  # as the plan's producers by default; duplicates are counted
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    # Until the dead leader's session expires metadata still names it: refresh often.
    "topic.metadata.refresh.interval.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "log_level": 0,
}
"""Settings of a client that notices a failover quickly; a user's own may differ."""
END_OFFSET_WITHIN_S = 2.0
_MOST_READ = 500
_WITHOUT_END = 2_147_483_647


class Confluent:
    """Makes librdkafka's clients."""

    @property
    def version(self) -> str:
        version = confluent_kafka.version()
        return f"confluent-kafka {version}, librdkafka {confluent_kafka.libversion()[0]}"

    def producer(self, bootstrap: str, settings: PlannedProducer) -> ConfluentProducer:
        return ConfluentProducer(bootstrap, settings)

    def consumer(self, bootstrap: str, topic: str, partitions: int) -> ConfluentConsumer:
        return ConfluentConsumer(bootstrap, topic, partitions)


def producer_settings(bootstrap: str, planned: PlannedProducer) -> dict[str, Any]:
    """Return librdkafka's settings for a plan's producer."""
    return {
        **PRODUCER_SETTINGS,
        "bootstrap.servers": bootstrap,
        "acks": planned.acks,
        "enable.idempotence": planned.idempotent,
        "max.in.flight.requests.per.connection": planned.max_in_flight,
        "batch.num.messages": planned.batch_max_records,
        "linger.ms": planned.linger_ms,
        "message.send.max.retries": _WITHOUT_END if planned.retries else 0,
        "request.timeout.ms": planned.request_timeout_ms,
        "socket.timeout.ms": planned.request_timeout_ms + 500,
        "message.timeout.ms": planned.delivery_timeout_ms,
    }


class ConfluentProducer:
    """A producer whose outcomes come while it works.

    Also with message.send.max.retries=0 librdkafka sends a record again whose leader answered that
    it leads no more, and takes it for one that was not appended. A leader that is deposed while the
    record waits for its followers answers so, and the record may be committed.
    """

    sends_once = False

    def __init__(self, bootstrap: str, settings: PlannedProducer) -> None:
        self._producer = confluent_kafka.Producer(producer_settings(bootstrap, settings))

    def send(self, topic: str, partition: int, value: str, on_done: OnDone) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset() if error is None else -1
            on_done(-1 if offset is None else offset, error.name() if error else "")

        try:
            self._producer.produce(
                topic, value=value.encode(), partition=partition, on_delivery=delivered
            )
        except BufferError:
            raise NeverSent("_QUEUE_FULL") from None
        except KafkaException as error:
            raise NeverSent(error.args[0].name()) from error

    def work(self, within_s: float) -> None:
        self._producer.poll(within_s)

    def finish(self, within_s: float) -> None:
        self._producer.flush(within_s)


class ConfluentConsumer:
    """A consumer of assigned partitions, without a group's offsets."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 100,
                "socket.timeout.ms": 2_000,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def poll(self, timeout_s: float) -> Sequence[Read]:
        return [_read(message) for message in self._consumer.consume(_MOST_READ, timeout_s)]

    def end_offset(self, partition: int) -> int | None:
        at = TopicPartition(self._topic, partition)
        try:
            found = self._consumer.get_watermark_offsets(at, END_OFFSET_WITHIN_S)
        except KafkaException:
            return None
        return None if found is None else int(found[1])

    def close(self) -> None:
        self._consumer.close()


def _read(message: Message) -> Read:
    error = message.error()
    partition = message.partition()
    partition = -1 if partition is None else partition
    if error is not None:
        return Read(partition, -1, "", error.name())
    value, offset = message.value(), message.offset()
    text = (value if isinstance(value, bytes) else b"").decode("utf-8", "replace")
    return Read(partition, -1 if offset is None else offset, text)
