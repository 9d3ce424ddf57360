"""A violation that a check of the oracle found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated invariant, with its place and time.

    Units: at_ns is virtual time from the simulation's start; offset -1 is none in particular.
    trace_length: number of the trace's entries at that moment, None if unknown; more may follow for
    the same moment.
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
    """Ends a simulation at the event that violated an invariant."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation
