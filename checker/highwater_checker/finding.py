"""The result of a check and its findings."""

from __future__ import annotations

from dataclasses import dataclass

from highwater_core.events import TraceEvent
from highwater_core.numbers import Int64


@dataclass(frozen=True, slots=True, order=True)
class Traced:
    """An event of a run: a node, one of its starts, and the event's number in that trace."""

    node: int
    incarnation: int
    seq: int

    @classmethod
    def of(cls, event: TraceEvent) -> Traced:
        return cls(event.node, event.incarnation, event.seq)


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe of a run: its time, broker, partition and offset."""

    asked_ns: int
    broker: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation, by the invariant's id in the catalogue or the anomaly's name.

    offset and broker are -1 where they do not apply.
    operation: as "p0's send 12".
    around: each replica's records from three before the offset to three after it.
    """

    invariant: str
    message: str
    topic: str = ""
    partition: int = -1
    offset: int = -1
    broker: int = -1
    operation: str = ""
    around: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    """The rows of the catalogue of historical bugs that explain it."""
    ids: tuple[str, ...] = ()
    """The JIRA and KIP ids of those rows."""
    cause: str = ""
    """The events of the run that are those rows' triggers, in a sentence; "" without a row."""
    traced: tuple[Traced, ...] = ()
    """The trace events that show it."""
    looks: tuple[int, ...] = ()
    """The times (Look.time_ns) of the looks that show it."""
    probed: Probed | None = None
    """The probe whose answer shows it."""

    def __str__(self) -> str:
        """Return rule, place, operation, message and cause in one line."""
        where = [f"{self.topic}-{self.partition}"] if self.topic and self.partition >= 0 else []
        where += [f"offset {self.offset}"] if self.offset >= 0 else []
        where += [f"broker {self.broker}"] if self.broker >= 0 else []
        where += [self.operation] if self.operation else []
        rows = ", ".join(map(str, self.rows))
        cause = f": row {rows} ({', '.join(self.ids)}): {self.cause}" if self.cause else ""
        return f"{self.invariant}: {', '.join(where)}{': ' if where else ''}{self.message}{cause}"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check's findings, and how much it examined: without that it proves nothing."""

    check: str
    examined: Int64
    findings: tuple[Finding, ...]
    noted: tuple[tuple[str, int], ...] = ()
    unread: tuple[str, ...] = ()
    """The parts that it could not examine, with reasons: a run with any is never a pass."""
