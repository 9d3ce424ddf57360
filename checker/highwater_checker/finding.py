"""What a check found, and the shape that every check returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation, by the invariant's id in the catalogue, with where it shows."""

    invariant: str
    message: str
    topic: str = ""
    partition: int = -1
    offset: int = -1


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check's findings, and how much it looked at: nothing examined proves nothing."""

    check: str
    examined: int
    findings: tuple[Finding, ...]
    noted: tuple[tuple[str, int], ...] = ()
