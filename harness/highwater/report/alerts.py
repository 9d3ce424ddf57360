"""Alerts of commands that brokers did not answer (V3's discussion), now and of a run; no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from highwater_checker.looks import Look
from highwater_core.events import EventKind, TraceEvent


@dataclass(frozen=True, slots=True)
class Alert:
    """A command that a broker did not answer in one controller's term, for each command_timeout_ms.

    Units: of the controller's clock, in ns since 1970.
    """

    controller: int
    controller_epoch: int
    broker: int
    request: str
    count: int
    first_ts_ns: int
    last_ts_ns: int


def alerts_in(look: Look) -> list[str]:
    """Return a line for each command that waits too long at the moment."""
    return [
        f"alert: broker {each.broker_id} has not answered {each.request} of controller {node} "
        f"for {each.waiting_ms / 1000:.1f} s"
        for node, snapshot in look.nodes.items()
        if snapshot is not None
        for each in snapshot.unanswered_commands
    ]


def alerts_of(traces: Iterable[TraceEvent]) -> list[Alert]:
    """Return a run's alerts, the first one first."""
    found: dict[tuple[int, int, int, str], Alert] = {}
    for event in traces:
        if event.kind is not EventKind.COMMAND_TIMED_OUT:
            continue
        broker, request = event.detail["broker"], event.detail["request"]
        key = (event.node, event.controller_epoch or 0, broker, request)
        known = found.get(key) or Alert(*key, 0, event.ts_ns, event.ts_ns)
        found[key] = replace(known, count=known.count + 1, last_ts_ns=event.ts_ns)
    return sorted(found.values(), key=lambda alert: alert.first_ts_ns)
