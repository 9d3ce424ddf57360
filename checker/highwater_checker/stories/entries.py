"""An entry of a run: a node's event, or a note of the world around the nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from highwater_core.events import TraceEvent

PLAN, ORACLE, JUDGE = "plan", "oracle", "judge"
"""The writers of notes on a plan's steps and on violations: during a run, and after it."""
STARTED = "started"
"""The note of each start of a node, with its incarnation."""
FAULTS_BEGIN, HEALED = "faults begin", "healed"
"""The plan's notes before its first step, and after its last."""


@dataclass(frozen=True, slots=True)
class Note:
    """An event that no node traces: a kill, a start, an answer to a client."""

    who: str
    what: str
    detail: dict[str, Any] = field(default_factory=dict)


class Entry(NamedTuple):
    """Units: at_ns is the run's time; in the simulator virtual time."""

    at_ns: int
    who: str
    event: TraceEvent | Note
