"""The one trace of a simulation: nodes' events and the world's notes, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from highwater_checker.stories.entries import Entry, Note
from highwater_core.events import EventKind, TraceEvent
from highwater_core.traces import encode_event

_NOTE_ENCODER = msgspec.json.Encoder(order="deterministic")


class TraceLog:
    """Entries in the order in which they happened."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.entries: list[Entry] = []

    def sink(self, node_name: str) -> Callable[[TraceEvent], None]:
        """Return the sink for a node's recorder."""
        return lambda event: self.entries.append(Entry(self._now_ns(), node_name, event))

    def note(self, who: str, what: str, **detail: Any) -> None:
        self.entries.append(Entry(self._now_ns(), who, Note(who, what, detail)))

    def events(self, *kinds: EventKind) -> list[TraceEvent]:
        """Return the nodes' events of these kinds, or all, in order."""
        return [
            entry.event
            for entry in self.entries
            if isinstance(entry.event, TraceEvent) and (not kinds or entry.event.kind in kinds)
        ]

    def in_virtual_time(self, *kinds: EventKind) -> list[TraceEvent]:
        """Return the nodes' events of these kinds, with ts_ns in virtual time from the run's start.

        A plan may change the nodes' own clocks.
        """
        return [
            replace(entry.event, ts_ns=entry.at_ns)
            for entry in self.entries
            if isinstance(entry.event, TraceEvent) and entry.event.kind in kinds
        ]

    def digest(self) -> str:
        """Return a SHA-256 of all entries: equal digests mean equal runs."""
        digest = hashlib.sha256()
        for entry in self.entries:
            event = entry.event
            encoded = (
                encode_event(event)
                if isinstance(event, TraceEvent)
                else _NOTE_ENCODER.encode(event)
            )
            digest.update(b"%d %s " % (entry.at_ns, entry.who.encode()))
            digest.update(encoded)
            digest.update(b"\n")
        return digest.hexdigest()
