"""One stock client's history, written by any of its threads."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path

from highwater_checker.history import HistoryEvent, OperationType, encode


class HistoryFile:
    """Writes history lines in the order of its calls; all from one thread."""

    def __init__(self, path: Path, start_ns: int) -> None:
        """start_ns: the machine's monotonic clock at the run's start."""
        self._file = path.open("wb", buffering=1 << 16)
        self._start_ns = start_ns

    def now_ns(self) -> int:
        """Return monotonic nanoseconds since the run's start."""
        return time.monotonic_ns() - self._start_ns

    def record(self, event: HistoryEvent) -> None:
        self._file.write(encode(event) + b"\n")

    def hand_over(self) -> None:
        """Flush to the operating system, so that a killed harness loses no line."""
        self._file.flush()

    def close(self) -> None:
        """Return once all lines are on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class ClientHistory:
    """Writes the history of one client; any thread may write."""

    def __init__(self, folder: Path, process: str, start_ns: int) -> None:
        """start_ns: the machine's monotonic clock at the run's start."""
        self._file = HistoryFile(folder / f"{process}.jsonl", start_ns)
        self._process = process
        self._lock = threading.Lock()
        self._operations = 0
        self._is_closed = False
        self.counts: Counter[tuple[str, OperationType]] = Counter()

    def new_operation(self) -> int:
        """Return an id that no other operation of this client has."""
        with self._lock:
            self._operations += 1
            return self._operations - 1

    def write(
        self,
        kind: OperationType,
        operation_id: int,
        function: str,
        topic: str,
        partition: int,
        value: str,
        offset: int = -1,
        error: str = "",
        tries: int = 0,
        key: str = "",
    ) -> None:
        """Write one line; nothing once the history is closed: a later outcome stays unknown.

        An invocation is flushed to the operating system on return, before its request is sent.
        """
        with self._lock:
            if self._is_closed:
                return
            self.counts[function, kind] += 1
            self._file.record(
                HistoryEvent(
                    self._file.now_ns(),
                    kind,
                    operation_id,
                    self._process,
                    function,
                    topic,
                    partition,
                    value,
                    offset,
                    error,
                    tries,
                    key=key,
                )
            )
            if kind is OperationType.INVOKE:
                self._file.hand_over()

    def hand_over(self) -> None:
        """Flush to the operating system."""
        with self._lock:
            if not self._is_closed:
                self._file.hand_over()

    def close(self) -> None:
        """Return once all lines are on the disk; a second call does nothing."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._file.close()
