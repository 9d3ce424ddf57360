"""Events of Chrome's trace format, which Perfetto opens: spans, instants, counters, arrows.

Times are whole microseconds. Format: "Trace Event Format", Google, 2016.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

Event = dict[str, Any]
THE_RUN, CLIENTS, _FIRST_NODE = 1, 2, 10
"""Processes of a trace: of what concerns the whole run, of the clients, and the first node's."""
_HEAD = b'{"displayTimeUnit":"ms","otherData":'


def pid_of(node: int) -> int:
    """Return the number of the node's process."""
    return _FIRST_NODE + node


@dataclass(frozen=True, slots=True)
class Track:
    """A row: tid within the process pid."""

    pid: int
    tid: int


@dataclass(slots=True)
class TraceEvents:
    """Collects events, and gives processes and rows their names in the order of their making.

    left_out: the number of events before the run's start, which Perfetto would drop.
    """

    left_out: int = 0
    _events: list[Event] = field(default_factory=list)
    _names: list[Event] = field(default_factory=list)
    _tracks: dict[tuple[int, str], Track] = field(default_factory=dict)
    _processes: dict[int, str] = field(default_factory=dict)
    _ids: int = 0

    def process(self, pid: int, name: str) -> None:
        """Name a process; processes stand in the order in which they are named."""
        place = len(self._processes)
        self._processes[pid] = name
        self._names.append(_named("process_name", Track(pid, 0), name=name))
        self._names.append(_named("process_sort_index", Track(pid, 0), sort_index=place))

    def track(self, pid: int, name: str) -> Track:
        """Return the process's row of that name; rows stand in the order of their making."""
        if (pid, name) not in self._tracks:
            tid = len(self._tracks) + 1
            track = self._tracks[pid, name] = Track(pid, tid)
            self._names.append(_named("thread_name", track, name=name))
            self._names.append(_named("thread_sort_index", track, sort_index=tid))
        return self._tracks[pid, name]

    def rows_for(self, pid: int, name: str, spans_ns: Sequence[tuple[int, int]]) -> list[Track]:
        """Return a row for each span (begin, end), so that those of one row do not overlap.

        spans_ns: in the order of their begins. The rows are "name", "name 2" and so on.
        """
        spans_us = [(begin // 1_000, end // 1_000) for begin, end in spans_ns]
        numbers = lanes(spans_us)
        return [self.track(pid, f"{name} {each + 1}" if each else name) for each in numbers]

    def span(self, track: Track, name: str, begin_ns: int, end_ns: int, **args: object) -> None:
        """Add a span of a microsecond at least; of one that begins before the run its later part.

        Spans of one row must not overlap in part: `rows_for` keeps them apart.
        """
        begin_us, end_us = begin_ns // 1_000, end_ns // 1_000
        if begin_us < 0:
            if end_us <= 0:
                self.left_out += 1
                return
            begin_us = 0
        event = _event("X", track, name, begin_us) | {"dur": max(1, end_us - begin_us)}
        self._events.append(event | {"args": args})

    def instant(
        self, track: Track, name: str, at_ns: int, args: Mapping[str, object], scope: str = "t"
    ) -> None:
        """Add a mark. scope: of the row (t), of its process (p), of the whole run (g)."""
        self._add(_event("i", track, name, at_ns // 1_000) | {"s": scope, "args": dict(args)})

    def counter(self, pid: int, name: str, at_ns: int, values: Mapping[str, float]) -> None:
        """Add a counter's values from that time on."""
        self._add(_event("C", Track(pid, 0), name, at_ns // 1_000) | {"args": dict(values)})

    def operation(
        self, pid: int, category: str, name: str, begin_ns: int, end_ns: int, **args: object
    ) -> None:
        """Add a span that may overlap others of its name: both its ends have an id of their own."""
        if begin_ns < 0:
            self.left_out += 1
            return
        self._ids += 1
        both = {"cat": category, "id": str(self._ids)}
        track = Track(pid, 0)
        begin_us = begin_ns // 1_000
        end_us = max(begin_us, end_ns // 1_000)
        self._add(_event("b", track, name, begin_us) | both | {"args": args})
        self._add(_event("e", track, name, end_us) | both)

    def arrow(self, name: str, places: Sequence[tuple[Track, int]]) -> None:
        """Add an arrow over spans: each place is a span's row and a time (us) within the span."""
        self._ids += 1
        last = len(places) - 1
        for number, (track, at_us) in enumerate(places):
            phase = "s" if number == 0 else "f" if number == last else "t"
            event = _event(phase, track, name, at_us)
            self._add(event | {"cat": "message", "id": str(self._ids), "bp": "e"})

    def _add(self, event: Event) -> None:
        if event["ts"] < 0:
            self.left_out += 1
            return
        self._events.append(event)

    def encoded(self, other: Mapping[str, object]) -> bytes:
        """Return the file: the same events give the same bytes.

        other: facts of the run, which Perfetto shows with the trace's.
        """
        encode = msgspec.json.Encoder().encode
        self._events.sort(key=lambda event: event["ts"])
        lines = b",\n".join(map(encode, (*self._names, *self._events)))
        return b'%s%s,"traceEvents":[\n%s\n]}\n' % (_HEAD, encode(other), lines)


def lanes(spans: Sequence[tuple[int, int]]) -> list[int]:
    """Return a lane for each span (begin, end), so that those of a lane do not overlap.

    Spans must be in the order of their begins. A lane that is free again is taken again, the lowest
    first.
    """
    found: list[int] = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for begin, end in spans:
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (max(end, begin + 1), lane))
        found.append(lane)
    return found


def _event(phase: str, track: Track, name: str, at_us: int) -> Event:
    return {"ph": phase, "pid": track.pid, "tid": track.tid, "name": name, "ts": at_us}


def _named(what: str, track: Track, **args: object) -> Event:
    return _event("M", track, what, 0) | {"args": args}
