"""A producer of librdkafka whose sends and their outcomes go to the run's history."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from highwater.errors import HarnessError
from highwater.runs.stock.recording import ClientHistory
from highwater_checker.client_errors import outcome_of_send
from highwater_checker.history import SEND, OperationType
from highwater_checker.run_folder.documents import ACKS_ALL, PromisedProducer
from highwater_client.outcomes import UNACKNOWLEDGED

OnDelivery = Callable[[KafkaError | None, Message], object]
_ANY_NUMBER = 0
_FINISH_WITHIN_S = 10.0


class Values:
    """The values that a run's producers have sent; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: set[str] = set()

    def add(self, value: str) -> None:
        """Add a value.

        Raises:
            ValueError: it was sent before: the judge tells records apart by their values.
        """
        with self._lock:
            if value in self._sent:
                raise ValueError(f"{value!r} was sent before: a run's values must be unique")
            self._sent.add(value)

    def remove(self, value: str) -> None:
        """Forget a value whose record was refused, so that it can be sent again."""
        with self._lock:
            self._sent.remove(value)

    def __contains__(self, value: str) -> bool:
        with self._lock:
            return value in self._sent


class RecordedProducer:
    """Produces as confluent_kafka.Producer does; safe from any thread.

    A record needs a value of its own in the run, and a key is text in UTF-8.
    """

    def __init__(
        self, config: Mapping[str, Any], process: str, history: ClientHistory, values: Values
    ) -> None:
        self.promised = promised_by(process, config)
        """The configuration's promises about acknowledged records."""
        self._producer: Any = confluent_kafka.Producer(dict(config))
        self._history = history
        self._values = values
        self._has_ended = False
        self._refused: dict[str, Callable[[], None]] = {}
        """By the value of a record that librdkafka refused: writes that it was never sent."""

    def produce(
        self,
        topic: str,
        value: str | bytes,
        *,
        key: str | bytes | None = None,
        partition: int = -1,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Give librdkafka a record; on_delivery is called by poll or flush.

        partition: -1 is librdkafka's choice.

        Raises:
            ValueError: the value was sent before in this run, or the key is no UTF-8.
            BufferError, KafkaException: librdkafka refused the record, which may be given again.
        """
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        key_text = key.decode("utf-8") if isinstance(key, bytes) else key or ""
        self._values.add(text)
        operation = self._history.new_operation()
        write = self._history.write

        def delivered(error: KafkaError | None, message: Message) -> None:
            name = error.name() if error is not None else ""
            offset = message.offset() if error is None else None
            if self.promised.acks == 0 and not name:
                offset, name = None, UNACKNOWLEDGED
            found = -1 if offset is None else offset
            at = message.partition()
            at = partition if at is None else at
            write(
                outcome_of_send(name), operation, SEND, topic, at, text, found, name,
                key=key_text,
            )  # fmt: skip
            if on_delivery is not None and not self._has_ended:
                on_delivery(error, message)

        place = topic, partition, text
        write(OperationType.INVOKE, operation, SEND, *place, key=key_text)
        try:
            self._producer.produce(
                topic, value=value, key=key, partition=partition, on_delivery=delivered
            )
        except (BufferError, KafkaException) as error:
            name = "_QUEUE_FULL" if isinstance(error, BufferError) else error.args[0].name()
            self._refused[text] = partial(
                write, OperationType.FAIL, operation, SEND, *place, error=name, key=key_text
            )
            self._values.remove(text)
            raise

    def poll(self, timeout: float = 0) -> int:
        """Serve callbacks, and return how many events were served."""
        return int(self._producer.poll(timeout))

    def flush(self, timeout: float = _FINISH_WITHIN_S) -> int:
        """Wait for outcomes, s, and return how many records have none yet."""
        return int(self._producer.flush(timeout))

    def finish(self) -> None:
        """Wait for outcomes within a bound, then end: later ones stay unknown.

        The test is over: its own callbacks, which might raise, are called no more. Of a refused
        record that was given again, its value has the later send's outcome alone.
        """
        self._has_ended = True
        self._producer.flush(_FINISH_WITHIN_S)
        for value, write_that_it_failed in self._refused.items():
            if value not in self._values:
                write_that_it_failed()
        self._history.close()
        self._producer = _Ended()  # librdkafka's threads end with their producer


class _Ended:
    """Stands for the producer of a run that has ended."""

    def __getattr__(self, name: str) -> Any:
        raise HarnessError("the run has ended: its producers send no more")


def promised_by(process: str, config: Mapping[str, Any]) -> PromisedProducer:
    """Return what a configuration of librdkafka promises; defaults are librdkafka's.

    Source: librdkafka's configuration properties (acks, max.in.flight, enable.idempotence).
    """
    in_flight = _of(config, "max.in.flight.requests.per.connection", "max.in.flight")
    return PromisedProducer(
        client=process,
        acks=_acks(_of(config, "acks", "request.required.acks")),
        max_in_flight=_ANY_NUMBER if in_flight is None else int(in_flight),
        is_idempotent=_is_true(config.get("enable.idempotence", False)),
    )


def _acks(setting: Any) -> int:
    return ACKS_ALL if setting is None or str(setting) == "all" else int(setting)


def _of(config: Mapping[str, Any], *names: str) -> Any:
    return next((config[name] for name in names if name in config), None)


def _is_true(setting: Any) -> bool:
    return str(setting).lower() in ("true", "t", "1")
