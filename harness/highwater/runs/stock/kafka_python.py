"""kafka-python, written in Python throughout, as a plan's producers and consumers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

from highwater.runs.stock.clients import NeverSent, OnDone, Read
from highwater_chaos.plan import Producer as PlannedProducer

with warnings.catch_warnings():
    # It reads its schemas by an old call of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.errors import KafkaError

_BLOCK_MS = 2_000
_COMMON: dict[str, Any] = {
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 100,
    "retry_backoff_ms": 50,
    "metadata_max_age_ms": 500,
}


class KafkaPython:
    """Makes kafka-python's clients."""

    @property
    def version(self) -> str:
        return f"kafka-python {kafka.__version__}"

    def producer(self, bootstrap: str, settings: PlannedProducer) -> KafkaPythonProducer:
        return KafkaPythonProducer(bootstrap, settings)

    def consumer(self, bootstrap: str, topic: str, partitions: int) -> KafkaPythonConsumer:
        return KafkaPythonConsumer(bootstrap, topic, partitions)


def producer_settings(bootstrap: str, planned: PlannedProducer) -> dict[str, Any]:
    """Return kafka-python's settings for a plan's producer; its batches count bytes alone."""
    return {
        **_COMMON,
        "bootstrap_servers": bootstrap.split(","),
        "acks": planned.acks,
        "enable_idempotence": planned.idempotent,
        "max_in_flight_requests_per_connection": planned.max_in_flight,
        "batch_size": 0 if planned.batch_max_records == 1 else 16_384,
        "linger_ms": planned.linger_ms,
        "retries": float("inf") if planned.retries else 0,
        "request_timeout_ms": planned.request_timeout_ms,
        "delivery_timeout_ms": max(
            planned.delivery_timeout_ms, planned.request_timeout_ms + planned.linger_ms
        ),
        "max_block_ms": _BLOCK_MS,
    }


class KafkaPythonProducer:
    """A producer whose outcomes come in a thread of the library's."""

    def __init__(self, bootstrap: str, settings: PlannedProducer) -> None:
        self._producer = kafka.KafkaProducer(**producer_settings(bootstrap, settings))
        self.sends_once = not settings.retries

    def send(self, topic: str, partition: int, value: str, on_done: OnDone) -> None:
        try:
            future = self._producer.send(topic, value.encode(), partition=partition)
        except (KafkaError, ValueError) as error:
            raise NeverSent(type(error).__name__) from error
        future.add_callback(lambda metadata: on_done(metadata.offset, ""))
        future.add_errback(lambda error: on_done(-1, type(error).__name__))

    def work(self, within_s: float) -> None:
        time.sleep(within_s)  # the library works in its own thread

    def finish(self, within_s: float) -> None:
        self._producer.close(timeout=within_s)


class KafkaPythonConsumer:
    """A consumer of assigned partitions, without a group."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._places = [kafka.TopicPartition(topic, number) for number in range(partitions)]
        self._consumer = kafka.KafkaConsumer(
            **_COMMON,
            bootstrap_servers=bootstrap.split(","),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            request_timeout_ms=2_000,
        )
        self._consumer.assign(self._places)
        self._consumer.seek_to_beginning(*self._places)

    def poll(self, timeout_s: float) -> Sequence[Read]:
        try:
            found = self._consumer.poll(round(timeout_s * 1000))
        except KafkaError as error:
            return [Read(-1, -1, "", type(error).__name__)]
        return [
            Read(record.partition, record.offset, (record.value or b"").decode("utf-8", "replace"))
            for records in found.values()
            for record in records
        ]

    def end_offset(self, partition: int) -> int | None:
        place = self._places[partition]
        try:
            return int(self._consumer.end_offsets([place])[place])
        except (KafkaError, KeyError):
            return None

    def close(self) -> None:
        self._consumer.close(autocommit=False)
