"""Writes unique values at a plan's rate through a stock producer, and outcomes to its history."""

from __future__ import annotations

import threading
import time

from highwater.runs.stock.clients import NeverSent, OnDone, StockProducer
from highwater.runs.stock.recording import ClientHistory
from highwater_chaos.plan import Producer as PlannedProducer
from highwater_checker.client_errors import outcome_of_send
from highwater_checker.history import SEND, OperationType
from highwater_client.outcomes import UNACKNOWLEDGED

_NS_PER_S = 1_000_000_000
_END_MARGIN_S = 2.0
MOST_AT_ONCE = 100
"""Records between two looks at outcomes. A client that cannot keep its rate is behind for ever;
outcomes that wait for it to catch up would have the wrong times."""
IDLE_S = 0.005
_NOT_TOLD, _ONCE = 0, 1


class WritingThread:
    """One producer of a plan; partitions take turns."""

    def __init__(
        self,
        process: str,
        producer: StockProducer,
        settings: PlannedProducer,
        partitions: int,
        history: ClientHistory,
    ) -> None:
        self._process = process
        self._producer = producer
        self._settings = settings
        self._partitions = partitions
        self._history = history
        self._tries = _ONCE if producer.sends_once else _NOT_TOLD
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=process, daemon=True)
        self._crash = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send nothing new."""
        self._stopping.set()

    def ended(self) -> str:
        """Wait until every record has its outcome or its time is over; return an error, or ""."""
        within_s = self._settings.delivery_timeout_ms / 1000 + 2 * _END_MARGIN_S
        if self._thread.ident is not None:
            self._thread.join(within_s)
        if self._thread.is_alive():
            return f"{self._process} has not ended within {within_s:g} s"
        return self._crash

    def _run(self) -> None:
        try:
            self._send_until_stopped()
            self._producer.finish(self._settings.delivery_timeout_ms / 1000 + _END_MARGIN_S)
        except Exception as error:  # noqa: BLE001 - reported to the owner
            self._crash = f"{self._process} died: {error!r}"

    def _send_until_stopped(self) -> None:
        begun_ns = time.monotonic_ns()
        sent = 0
        while not self._stopping.is_set():
            due = (time.monotonic_ns() - begun_ns) * self._settings.rate_per_s // _NS_PER_S + 1
            for _ in range(min(due - sent, MOST_AT_ONCE)):
                self._send(sent)
                sent += 1
            self._history.hand_over()
            self._producer.work(0.0 if sent < due else IDLE_S)

    def _send(self, number: int) -> None:
        value = f"{self._process}-{number:06}".ljust(self._settings.value_bytes, ".")
        place = self._settings.topic, number % self._partitions
        operation = self._history.new_operation()
        self._history.write(OperationType.INVOKE, operation, SEND, *place, value, tries=self._tries)
        try:
            self._producer.send(*place, value, self._on_done(operation, *place, value))
        except NeverSent as refused:
            self._history.write(
                OperationType.FAIL, operation, SEND, *place, value, error=str(refused)
            )

    def _on_done(self, operation: int, topic: str, partition: int, value: str) -> OnDone:
        def done(offset: int, error: str) -> None:
            if self._settings.acks == 0 and not error:
                offset, error = -1, UNACKNOWLEDGED
            kind = outcome_of_send(error)
            self._history.write(
                kind, operation, SEND, topic, partition, value, offset, error, self._tries
            )

        return done
