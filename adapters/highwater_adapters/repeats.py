"""Repeated log lines and trace events are written a few times, then counted.

Otherwise a client that repeats its mistake for ever, or a disk that fails at every write, would
fill the disk. Memory is bounded, too: beyond KINDS_MAX kinds at a time, the rest counts as one
kind.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from highwater_core.events import EventKind
from highwater_core.ports import Trace

KINDS_MAX = 256
INTERVAL_S = 10.0
LINES_OF_A_KIND = 100
LINES_OF_A_LOGGER = 200
"""In each interval, less than KINDS_MAX, so that a logger whose lines all differ crowds out no
other. Errors that end the process are always logged."""
EVENTS_OF_A_KIND = 100
"""Of bad input, in each interval."""

_OTHERS = "others"
_KIND_LENGTH = 200
_LOGGER_NAME = "highwater.log"
_NUMBERS = re.compile(r"\d+")


@dataclass(slots=True)
class _Window:
    ends: float
    said: int = 0
    held_back: int = 0


class Repeats:
    """Counts the messages of each kind, in intervals that begin with the first of them."""

    def __init__(
        self, interval_s: float = INTERVAL_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def may_say(self, kind: str, most: int, of: str = "", most_of_all: int = 0) -> bool:
        """Return whether one more may be written; else it is held back and counted.

        For one of many kinds in a group, the bound is that of the whole group.
        """
        if of and self._window(of).said >= most_of_all:
            self._window(of).held_back += 1
            return False
        window = self._window(kind)
        if window.said >= most:
            window.held_back += 1
            return False
        window.said += 1
        if of:
            self._window(of).said += 1
        return True

    def _window(self, kind: str) -> _Window:
        window = self._windows.get(kind)
        if window is None:
            if len(self._windows) >= KINDS_MAX:
                kind = _OTHERS
            window = self._windows.setdefault(kind, _Window(self._clock() + self._interval_s))
        return window

    def ended(self, *, at_once: bool = False) -> list[tuple[str, int]]:
        """Return the numbers held back, by kind, in ended intervals, and forget these.

        at_once: in all intervals, as if they had ended.
        """
        now = self._clock()
        over = [kind for kind, window in self._windows.items() if at_once or window.ends <= now]
        held_back = [(kind, self._windows.pop(kind).held_back) for kind in over]
        return [(kind, count) for kind, count in held_back if count]


class BoundedHandler(logging.Handler):
    """Passes the first lines of each logger and template in an interval on, then a count."""

    def __init__(self, handler: logging.Handler, repeats: Repeats | None = None) -> None:
        super().__init__()
        self._handler = handler
        self._repeats = repeats or Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held."""
        self.tell_held_back()
        kind = f"{record.name}: {str(record.msg)[:_KIND_LENGTH]}"
        if record.levelno >= logging.CRITICAL or self._repeats.may_say(
            kind, LINES_OF_A_KIND, of=record.name, most_of_all=LINES_OF_A_LOGGER
        ):
            self._handler.handle(record)

    def tell_held_back(self, *, at_once: bool = False) -> None:
        """Log how many lines were held back in the intervals that have ended, or in all."""
        self.acquire()
        try:
            for kind, count in self._repeats.ended(at_once=at_once):
                fields = {
                    "name": _LOGGER_NAME,
                    "levelno": logging.WARNING,
                    "levelname": "WARNING",
                    "msg": "... and %d more like it: %s",
                    "args": (count, kind),
                }
                self._handler.handle(logging.makeLogRecord(fields))
        finally:
            self.release()


class BoundedTrace:
    """A Trace that passes the first events of bad input of each kind on, then a count.

    The kind is `where` without its numbers: a listener without the peer's port; for a refused
    request, its name and the error.
    """

    def __init__(self, trace: Trace, repeats: Repeats | None = None) -> None:
        self._trace = trace
        self._repeats = repeats or Repeats()

    def emit(self, kind: EventKind, **fields: Any) -> None:
        where = _kind_of(kind, fields)
        if where is not None:
            self.tell_held_back()
            if not self._repeats.may_say(where, EVENTS_OF_A_KIND):
                return
        self._trace.emit(kind, **fields)

    def tell_held_back(self, *, at_once: bool = False) -> None:
        """Emit how many events were held back in the intervals that have ended, or in all."""
        for where, count in self._repeats.ended(at_once=at_once):
            what = f"... and {count} more like it"
            self._trace.emit(EventKind.BAD_INPUT_MET, where=where, what=what)


def _kind_of(kind: EventKind, fields: dict[str, Any]) -> str | None:
    """Return the kind by which the event is counted, None for an event that is always passed on."""
    if kind is EventKind.BAD_INPUT_MET:
        where = str(fields.get("where", ""))[:_KIND_LENGTH]
    elif kind is EventKind.REQUEST_REFUSED:
        where = f"{fields.get('request')} {fields.get('error')}"
    else:
        return None
    return _NUMBERS.sub("#", where)
