"""A trace that also counts some kinds of events, for a node's snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater_core.events import EventKind
from highwater_core.ports import Trace

UNCLEAN_ELECTIONS = "unclean_elections"


class CountingTrace:
    """Passes every event on; counts the named kinds, and unclean elections."""

    def __init__(self, trace: Trace, counted: Mapping[EventKind, str]) -> None:
        """Take the next trace, and the counters' names by kind of event."""
        self._trace = trace
        self._counted = counted
        self._counts = dict.fromkeys(counted.values(), 0)
        if EventKind.LEADER_ELECTED in counted:
            self._counts[UNCLEAN_ELECTIONS] = 0

    def counters(self) -> tuple[tuple[str, int], ...]:
        """Return how many events there were since the node started, by name."""
        return tuple(self._counts.items())

    def emit(self, kind: EventKind, **fields: Any) -> None:
        name = self._counted.get(kind)
        if name is not None:
            self._counts[name] += 1
            if kind is EventKind.LEADER_ELECTED and fields["unclean"]:
                self._counts[UNCLEAN_ELECTIONS] += 1
        self._trace.emit(kind, **fields)
