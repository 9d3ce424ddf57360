"""The controller's one queue of events, with their waiting and handling times."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from highwater_controller.controller_events import ControllerEvent
from highwater_core.runtime import Queue, Runtime

E = TypeVar("E", bound=ControllerEvent)


class EventQueue:
    """Events in their order of arrival; times are summed from the queue's beginning."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: Queue[tuple[int, ControllerEvent]] = runtime.queue()
        self._waiting_once: dict[type[ControllerEvent], None] = {}
        self._taken_count = 0
        self._waited_ms = 0
        self._handled: dict[str, tuple[int, int]] = {}
        """Number of handled events and their total ms, by the event's name."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, event: ControllerEvent) -> None:
        self._waiting.put((self._runtime.now_ms(), event))

    def put_once(self, event: ControllerEvent) -> None:
        """Put the event, unless one of its kind waits already that was put so."""
        if type(event) not in self._waiting_once:
            self._waiting_once[type(event)] = None
            self.put(event)

    def drain(self) -> list[ControllerEvent]:
        """Remove and return all waiting events, oldest first."""
        self._waiting_once.clear()
        return [event for _, event in self._waiting.drain()]

    def take_waiting(self, kind: type[E]) -> list[E]:
        """Remove and return the waiting events of a kind, oldest first; the others stay in order.

        They count with the event that is being handled.
        """
        taken: list[E] = []
        for put_at_ms, event in self._waiting.drain():
            if isinstance(event, kind):
                taken.append(event)
                self._waited_ms += self._runtime.now_ms() - put_at_ms
            else:
                self._waiting.put((put_at_ms, event))
        self._taken_count += len(taken)
        return taken

    async def get(self) -> ControllerEvent:
        """Remove and return the oldest event."""
        put_at_ms, event = await self._waiting.get()
        self._waiting_once.pop(type(event), None)
        self._taken_count += 1
        self._waited_ms += self._runtime.now_ms() - put_at_ms
        return event

    async def timed(self, event: ControllerEvent, handling: Coroutine[Any, Any, None]) -> None:
        """Await an event's handling, and count it and its time, however it ends."""
        begun_at_ms = self._runtime.now_ms()
        try:
            await handling
        finally:
            name = type(event).__name__
            count, took_ms = self._handled.get(name, (0, 0))
            took_ms += self._runtime.now_ms() - begun_at_ms
            self._handled[name] = (count + 1, took_ms)

    def counters(self) -> tuple[tuple[str, int], ...]:
        """Return counts and sums of milliseconds: of all waiting, and of each event's handling."""
        handled = (
            (f"{what}.{name}", number)
            for name in sorted(self._handled)
            for what, number in zip(
                ("events_handled", "handling_ms"), self._handled[name], strict=True
            )
        )
        return (
            ("events_taken", self._taken_count),
            ("events_waited_ms", self._waited_ms),
            *handled,
        )
