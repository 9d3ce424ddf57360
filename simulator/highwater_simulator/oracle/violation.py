"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant, where and when it showed.

    Units: at_ns is virtual time from the simulation's start; offset -1 is none in particular.
    trace_length: how many entries the trace had by then, None if that is not known; more may be
    of the same moment.
    """

    invariant: str
    message: str
    at_ns: int
    topic: str = ""
    partition: int = -1
    offset: int = -1
    trace_length: int | None = None

    def __str__(self) -> str:
        place = f" {self.topic}-{self.partition}" if self.topic else ""
        offset = f" @{self.offset}" if self.offset >= 0 else ""
        return f"{self.invariant}{place}{offset}: {self.message}"


class InvariantBroken(Exception):
    """Ends a simulation at the event that broke an invariant."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation
