"""The coverage marks that a run reached, counted from its trace.

A mark is a short name such as "became_leader" or "log_truncated: by epoch". The search reports how
many marks its schedules reached, and the marks that none reached.
"""

from __future__ import annotations

from collections import Counter

from highwater_core.events import EventKind, TraceEvent

# For each kind of event, the details whose values make marks of their own.
_DETAILS: dict[EventKind, tuple[str, ...]] = {
    EventKind.PARTITION_STATE_CHANGED: ("from_state", "to_state"),
    EventKind.REPLICA_STATE_CHANGED: ("from_state", "to_state"),
    EventKind.LEADER_ELECTED: ("selector", "unclean"),
    EventKind.REQUEST_REFUSED: ("request", "error"),
    EventKind.COMMAND_TIMED_OUT: ("request",),
    EventKind.CONTROLLER_RESIGNED: ("reason",),
    EventKind.FAIL_POINT_HIT: ("name",),
    EventKind.REPLICA_STOPPED: ("deleted",),
    EventKind.LOG_RECOVERED: ("clean",),
    EventKind.BAD_INPUT_MET: ("where",),
    EventKind.NODE_STOPPED: ("reason",),
}


class Coverage:
    """Counts marks while a run goes on; feed it every node's event."""

    def __init__(self) -> None:
        self.marks: Counter[str] = Counter()
        self._leaders: dict[tuple[str | None, int | None], int] = {}

    def event_traced(self, event: TraceEvent) -> None:
        kind, detail = event.kind, event.detail
        names = _DETAILS.get(kind)
        if names is None:
            self.marks[kind.value] += 1
        else:
            values = " ".join(str(detail.get(name)) for name in names)
            self.marks[f"{kind.value}: {values}"] += 1
        if kind is EventKind.LOG_TRUNCATED:
            self._truncated(event)
        elif kind is EventKind.BECAME_LEADER:
            self._became_leader(event)
        elif kind is EventKind.ISR_CHANGED and len(detail["isr"]) == 1:
            self.marks["sometimes: the ISR is one"] += 1

    def _truncated(self, event: TraceEvent) -> None:
        below = (event.offset or 0) < event.detail["high_watermark"]
        where = "below" if below else "at or above"
        self.marks[f"sometimes: truncated {where} the high watermark"] += 1

    def _became_leader(self, event: TraceEvent) -> None:
        if event.detail["high_watermark"] < (event.offset or 0):
            self.marks["sometimes: elected with a stale high watermark"] += 1
        key = event.topic, event.partition
        if self._leaders.get(key, event.node) != event.node:
            self.marks["sometimes: another broker leads"] += 1
        self._leaders[key] = event.node
