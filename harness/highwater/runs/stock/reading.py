"""Reads every partition of a topic through a stock consumer, into its history."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from highwater.runs.stock.clients import Read, StockConsumer
from highwater.runs.stock.recording import ClientHistory
from highwater_checker.history import POLL, OperationType

POLL_S = 0.1
_STOP_WITHIN_S = 5.0


class ReadingThread:
    """One consumer of a plan; it reads from the start of each partition until it is stopped."""

    def __init__(
        self,
        process: str,
        consumer: StockConsumer,
        topic: str,
        partitions: int,
        history: ClientHistory,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._history = history
        self._next = dict.fromkeys(range(partitions), 0)
        self._stopping = threading.Event()
        self._asked = threading.Event()
        self._caught_up = threading.Event()
        self._ends: dict[int, int] = {}
        self._thread = threading.Thread(target=self._run, name=process, daemon=True)
        self._crash = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_WITHIN_S)

    def caught_up(self, within_s: float) -> str:
        """Wait until all is read up to the ends requested from now on; return an error, or ""."""
        self._asked.set()
        if self._caught_up.wait(within_s):
            return ""
        return self._crash or f"read up to {self._next}, the ends are {self._ends}"

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._record(self._consumer.poll(POLL_S))
                if self._asked.is_set():
                    self._compare()
            self._consumer.close()
        except Exception as error:  # noqa: BLE001 - reported to the owner
            self._crash = f"a consumer died: {error!r}"

    def _record(self, found: Sequence[Read]) -> None:
        operation = self._history.new_operation()
        for read in found:
            kind = OperationType.FAIL if read.error else OperationType.OK
            self._history.write(
                kind, operation, POLL, self._topic, read.partition, read.value, read.offset,
                read.error,
            )  # fmt: skip
            if not read.error:
                self._next[read.partition] = read.offset + 1
        self._history.hand_over()

    def _compare(self) -> None:
        """Request the unknown ends, and return whether all is read up to them."""
        for partition in self._next.keys() - self._ends.keys():
            end_offset = self._consumer.end_offset(partition)
            if end_offset is not None:
                self._ends[partition] = end_offset
        if self._ends.keys() == self._next.keys() and all(
            self._next[partition] >= end_offset for partition, end_offset in self._ends.items()
        ):
            self._caught_up.set()
