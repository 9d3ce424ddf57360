"""Writes one client's history: the events of highwater_checker.history, in their order."""

from __future__ import annotations

from collections.abc import Callable

from highwater_checker.history import HistoryEvent, OperationType


class HistoryRecorder:
    """One client's history.

    now_ns: returns the time since the run's start.
    on_event: called with each event as it is recorded.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        process: str,
        *,
        on_event: Callable[[HistoryEvent], None] | None = None,
    ) -> None:
        self.events: list[HistoryEvent] = []
        self._now_ns = now_ns
        self._process = process
        self._on_event = on_event
        self._next_operation_id = 0

    def new_operation(self) -> int:
        """Return an id that no other operation of this client has."""
        operation_id = self._next_operation_id
        self._next_operation_id += 1
        return operation_id

    def record(
        self,
        kind: OperationType,
        operation_id: int,
        function: str,
        topic: str,
        partition: int,
        value: str,
        offset: int = -1,
        error: str = "",
        *,
        tries: int = 0,
        high_watermark: int = -1,
        key: str = "",
        generation: int = -1,
    ) -> None:
        event = HistoryEvent(
            self._now_ns(),
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
            high_watermark,
            key,
            generation,
        )
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)
