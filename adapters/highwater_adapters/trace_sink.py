"""The sink of a node's trace events: a file of JSON lines on its volume, and watchers.

Ordering: lines are in the file in the order of seq. An event is in the file (page cache) before
emit returns. The two kinds that come with every append wait for the next other event or for
FLUSH_INTERVAL_MS, so a SIGKILL may lose the last of them. Measured on a busy machine, with the
recorder: 8 to 10 us of CPU for an event written at once, 5 to 7 us for one that waits.

A trace may be cut into parts: 7.jsonl.000001 is the first, 7.jsonl the one that is written to.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path

from highwater_adapters.files import FULL
from highwater_core.events import EventKind, TraceEvent
from highwater_core.traces import decode_event, encode_event

FLUSH_INTERVAL_MS = 50
_MAY_WAIT = frozenset({EventKind.LOG_APPENDED, EventKind.HIGH_WATERMARK_ADVANCED})
_MAX_PENDING_LINES = 512
_HELD_EVENTS = 8192
"""How many events stay in memory for watchers, as lines: as events they take twice as much."""

_LOGGER = logging.getLogger("highwater.trace")


class TraceSink:
    """The sink of one incarnation's TraceRecorder. Made inside the running loop."""

    def __init__(self, path: Path, part_bytes: int = 0) -> None:
        """part_bytes: a part is closed when it has so many; 0: never."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._part_bytes = part_bytes
        self._closed_parts = 0
        self._descriptor: int | None = None
        """None while a full disk has no room for the file."""
        self._size_bytes = 0
        try:
            self._open()
        except OSError as error:
            if error.errno not in FULL:
                raise
            _LOGGER.error("no trace: %s", error)  # noqa: TRY400
        self._loop = asyncio.get_running_loop()
        self._pending: list[bytes] = []
        self._flush_timer: asyncio.TimerHandle | None = None
        self._held: deque[bytes] = deque(maxlen=_HELD_EVENTS)
        self._next_seq = 0
        self._watchers: list[asyncio.Future[None]] = []

    def __call__(self, event: TraceEvent) -> None:
        line = encode_event(event)
        self._pending.append(line)
        self._held.append(line)
        self._next_seq = event.seq + 1
        if event.kind not in _MAY_WAIT or len(self._pending) >= _MAX_PENDING_LINES:
            self.flush()
        elif self._flush_timer is None:
            self._flush_timer = self._loop.call_later(FLUSH_INTERVAL_MS / 1000, self.flush)
        if self._watchers:
            self._wake_watchers()

    def flush(self) -> None:
        """Write the waiting lines. On a full disk they are lost: the gap in seq shows it."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if not self._pending:
            return
        lines = b"\n".join(self._pending) + b"\n"
        self._pending.clear()
        try:
            descriptor = self._open()
            while lines:
                count = os.write(descriptor, lines)
                self._size_bytes += count
                lines = lines[count:]
        except OSError as error:
            _LOGGER.error("%d bytes of trace lost: %s", len(lines), error)  # noqa: TRY400
            return
        if 0 < self._part_bytes <= self._size_bytes:
            self._begin_part()

    def _open(self) -> int:
        """Return the file's descriptor; open the file if it is not open yet.

        Raises:
            OSError: the disk refused.
        """
        if self._descriptor is None:
            self._descriptor = _open(self._path)
            self._size_bytes = os.fstat(self._descriptor).st_size
        return self._descriptor

    def _begin_part(self) -> None:
        """Close this part and go on in a new file; where that cannot be, go on in this one.

        Ordering: a part that has its number is never written to again. Whoever copied it may
        remove it.
        """
        name, number = self._path.name, self._closed_parts + 1
        new = self._path.with_name(f"{name}.new")
        try:
            descriptor = _open(new)
            self._path.rename(self._path.with_name(f"{name}.{number:06}"))
            new.rename(self._path)
        except OSError as error:
            _LOGGER.warning("the trace goes on in one file: %s", error)
            self._part_bytes = 0
            return
        os.close(self._open())
        self._descriptor, self._size_bytes, self._closed_parts = descriptor, 0, number

    def close(self) -> None:
        self.flush()
        if self._descriptor is not None:
            os.close(self._descriptor)

    async def watch(self, from_seq: int) -> AsyncIterator[TraceEvent]:
        """Yield the events still in memory from from_seq on, then each new one.

        A watcher that falls behind by more than these gets a gap in seq.
        """
        next_seq = from_seq
        while True:
            for line in self._held_from(next_seq):
                event = decode_event(line)
                yield event
                next_seq = event.seq + 1
            if self._next_seq <= next_seq:
                news: asyncio.Future[None] = self._loop.create_future()
                self._watchers.append(news)
                await news

    def _held_from(self, seq: int) -> list[bytes]:
        first = self._next_seq - len(self._held)
        return list(islice(self._held, max(0, seq - first), None))

    def _wake_watchers(self) -> None:
        watchers, self._watchers = self._watchers, []
        for news in watchers:
            if not news.done():
                news.set_result(None)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
