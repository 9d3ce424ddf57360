"""Names what a run of a preset that may break has shown: the rows that explain a violation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from highwater_checker.catalogue.rows import CATALOGUE
from highwater_core.config import PROMISES, MayBreak, Preset
from highwater_core.events import TraceEvent

SHOWN_BY: Mapping[str, str] = {"unseen": "I9", "realtime-send": "I3"}
"""Anomalies of histories that are what a broken invariant looks like to a client.

A record is never read when it took the place of one that was; sent records lie out of order when
logs diverged.
"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A row whose trigger is in the trace, with the evidence in one sentence."""

    row: int
    ids: tuple[str, ...]
    evidence: str

    def __str__(self) -> str:
        return f"row {self.row} ({', '.join(self.ids)}): {self.evidence}"


def explain(
    violation_invariant: str,
    topic: str,
    partition: int,
    offset: int,
    trace: Sequence[TraceEvent],
    may_break: Mapping[str, MayBreak] = PROMISES[Preset.V3],
) -> tuple[Explanation, ...]:
    """Return the rows that may break the invariant and whose trigger is in the trace.

    The trace is that of the run up to the violation, in an order that causality allows; topic ""
    with partition -1, and offset -1, are none in particular. An empty result leaves the violation
    without an excuse. Whoever calls knows whether the run's preset may break at all.
    """
    invariant = SHOWN_BY.get(violation_invariant, violation_invariant)
    permitted = may_break.get(invariant, MayBreak(())).rows
    found: list[Explanation] = []
    for row in CATALOGUE:
        if row.number not in permitted or row.trigger is None:
            continue
        evidence = row.trigger(trace, topic, partition, offset)
        if evidence is not None:
            found.append(Explanation(row.number, row.ids, evidence))
    return tuple(found)
