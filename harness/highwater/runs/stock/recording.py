"""One stock client's history, written by whichever thread learns something."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

from highwater.runs.workload import HistoryRecorder
from highwater_checker.history import HistoryEvent, OperationType


class ClientHistory:
    """Writes the history of one client; any thread may write."""

    def __init__(self, folder: Path, process: str, start_ns: int) -> None:
        """start_ns: the machine's monotonic clock at the run's start."""
        self._recorder = HistoryRecorder(folder / f"{process}.jsonl", start_ns)
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
    ) -> None:
        """Write one line; once the history is closed, nothing: what comes then stays unknown.

        An invocation is the operating system's when this returns, before anything is sent.
        """
        with self._lock:
            if self._is_closed:
                return
            self.counts[function, kind] += 1
            self._recorder.record(
                HistoryEvent(
                    self._recorder.now_ns(),
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
                )
            )
            if kind is OperationType.INVOKE:
                self._recorder.hand_over()

    def hand_over(self) -> None:
        """Give what was written to the operating system."""
        with self._lock:
            if not self._is_closed:
                self._recorder.hand_over()

    def close(self) -> None:
        """Return once all of it is on the disk. Again is harmless."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._recorder.close()
