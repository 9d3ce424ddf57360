"""Finds the rows of the catalogue that explain a violation, in a run of a preset that may break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from highwater_checker.catalogue.rows import CATALOGUE
from highwater_core.config import PROMISES, MayBreak, Preset
from highwater_core.events import TraceEvent

SHOWN_BY: Mapping[str, str] = {"unseen": "I9", "realtime-send": "I3"}
"""Each anomaly of a client's history, and the invariant whose violation causes it. A record stays
unseen when the consumer had read another record at its offset. Records are out of order when logs
diverged.
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

    topic, partition, offset: of the violation. One of no partition has topic "" and partition -1,
      one of no offset has offset -1.
    trace: the run's events up to the violation, each after those that caused it.
    may_break: the rows that the run's preset permits, by invariant.
    An empty result leaves the violation without an excuse.
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
