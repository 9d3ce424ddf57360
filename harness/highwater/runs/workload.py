"""A stock librdkafka producer that writes at a steady rate and records every operation.

Each value is unique, so that a reader can tell which send a record came from. The history line
of an invoke is written before the record is handed to librdkafka.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from highwater_checker.client_errors import outcome_of_send
from highwater_checker.history import HistoryEvent, OperationType, encode

PRODUCER_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": False,  # brokers check no sequences yet; duplicates are counted
    "linger.ms": 2,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    # Until the dead leader's session expires metadata still names it: ask again often.
    "topic.metadata.refresh.interval.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "request.timeout.ms": 1500,
    "socket.timeout.ms": 2000,
    "message.timeout.ms": 60_000,
    "log_level": 0,
}
"""What a client that should notice a failover quickly sets; a user's own may differ."""


class HistoryRecorder:
    """Writes history lines in the order of its calls; all from one thread."""

    def __init__(self, path: Path, start_ns: int) -> None:
        self._file = path.open("wb", buffering=1 << 16)
        self._start_ns = start_ns

    def now_ns(self) -> int:
        """Return monotonic nanoseconds since the run's start."""
        return time.monotonic_ns() - self._start_ns

    def record(self, event: HistoryEvent) -> None:
        self._file.write(encode(event) + b"\n")

    def hand_over(self) -> None:
        """Give what was recorded to the operating system: a killed harness does not lose it."""
        self._file.flush()

    def close(self) -> None:
        """Return once all that was recorded is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


@dataclass(frozen=True, slots=True)
class Progress:
    """What a workload has reached; last_acknowledged_ns is the recorder's clock."""

    sent: int
    acknowledged: int
    failed: int
    unknown: int
    last_acknowledged_ns: int


class ProducerWorkload:
    """Sends `records_per_second` to the topic's partitions in turn until it is stopped."""

    def __init__(
        self,
        *,
        bootstrap: str,
        topic: str,
        partition_count: int,
        records_per_second: int,
        recorder: HistoryRecorder,
        process: str = "producer-0",
        value_bytes: int = 100,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self._errors: deque[str] = deque(maxlen=3)
        self._producer = Producer(
            {
                **PRODUCER_SETTINGS,
                "bootstrap.servers": bootstrap,
                "error_cb": lambda error: self._errors.append(str(error)),
                **(settings or {}),
            }
        )
        self._topic = topic
        self._partition_count = partition_count
        self._interval_ns = 1_000_000_000 // records_per_second
        self._recorder = recorder
        self._process = process
        self._value_bytes = value_bytes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=process, daemon=True)
        self._counts = {"sent": 0, "acknowledged": 0, "failed": 0, "unknown": 0}
        self._last_acknowledged_ns = 0
        self._crash: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def progress(self) -> Progress:
        return Progress(**self._counts, last_acknowledged_ns=self._last_acknowledged_ns)

    def describe(self) -> str:
        """Return what is known of it, and what its client can reach now; it takes 3 s at most."""
        try:
            metadata = self._producer.list_topics(self._topic, timeout=3)
            partitions = metadata.topics[self._topic].partitions.values()
            leaders = {partition.id: partition.leader for partition in partitions}
            reached = f"brokers {sorted(metadata.brokers)}, leaders {leaders}"
        except KafkaException as error:
            reached = f"nobody: {error}"
        is_alive = "runs" if self._thread.is_alive() else f"has ended: {self._crash!r}"
        errors = list(self._errors)
        return f"{self._process} {is_alive}; {self._counts}; errors {errors}; it reaches {reached}"

    def stop(self, timeout_s: float = 70.0) -> Progress:
        """Stop sending, wait until every record has its outcome, write the history to disk.

        Raises:
            RuntimeError: the producer thread died or did not end in time; the history up to
                there is on disk.
        """
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        stuck = self._thread.is_alive()
        if not stuck:
            self._recorder.close()
        if self._crash is not None:
            raise RuntimeError(f"{self._process} died") from self._crash
        if stuck:
            raise RuntimeError(f"{self._process} has not ended after {timeout_s} s: {self._counts}")
        return self.progress()

    def _run(self) -> None:
        try:
            self._send_until_stopped()
            self._producer.flush(PRODUCER_SETTINGS["message.timeout.ms"] / 1000 + 5)
        except BaseException as error:  # noqa: BLE001 - handed to stop(), which raises it
            self._crash = error

    def _send_until_stopped(self) -> None:
        started_ns = time.monotonic_ns()
        while not self._stopping.is_set():
            due = (time.monotonic_ns() - started_ns) // self._interval_ns + 1
            while self._counts["sent"] < due and not self._stopping.is_set():
                self._send_one(self._counts["sent"])
            self._producer.poll(0.002)
            self._recorder.hand_over()

    def _send_one(self, number: int) -> None:
        self._counts["sent"] += 1
        partition = number % self._partition_count
        value = f"{self._process}:{number:010d}:".ljust(self._value_bytes, ".")
        self._write(OperationType.INVOKE, number, partition, value)
        try:
            self._producer.produce(
                self._topic,
                value=value.encode(),
                partition=partition,
                on_delivery=self._on_delivery(number, partition, value),
            )
        except BufferError:
            self._complete(number, partition, value, -1, "_QUEUE_FULL")

    def _on_delivery(
        self, number: int, partition: int, value: str
    ) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset() if error is None else -1
            self._complete(number, partition, value, offset, error.name() if error else "")

        return delivered

    def _complete(self, number: int, partition: int, value: str, offset: int, error: str) -> None:
        outcome = outcome_of_send(error)
        if outcome is OperationType.OK:
            self._counts["acknowledged"] += 1
            self._last_acknowledged_ns = self._recorder.now_ns()
        else:
            self._counts["failed" if outcome is OperationType.FAIL else "unknown"] += 1
        self._write(outcome, number, partition, value, offset, error)

    def _write(
        self,
        outcome: OperationType,
        number: int,
        partition: int,
        value: str,
        offset: int = -1,
        error: str = "",
    ) -> None:
        self._recorder.record(
            HistoryEvent(
                time_ns=self._recorder.now_ns(),
                type=outcome,
                operation_id=number,
                process=self._process,
                function="send",
                topic=self._topic,
                partition=partition,
                value=value,
                offset=offset,
                error=error,
            )
        )
