"""Finds the rows of the catalogue that explain a violation, in a run of a preset that may break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from highwater_checker.catalogue.rows import CATALOGUE
from highwater_core.config import PROMISES, MayBreak, Preset
from highwater_core.events import TraceEvent
from highwater_core.internal_topics import OFFSETS_TOPIC

SHOWN_BY: Mapping[str, str] = {
    "unseen": "I9",
    "inconsistent-offsets": "I9",
    "nonmonotonic-poll": "I9",
    "realtime-send": "I3",
    "nonmonotonic-send": "I3",
}
"""Each anomaly of a client's history, and the invariant whose violation causes it. A record stays
unseen when the consumer had read another record at its offset. Two records have one offset, or are
out of order, when logs diverged or lost records.
"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A row whose trigger is in the trace, with the evidence in one sentence."""

    row: int
    ids: tuple[str, ...]
    evidence: str


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

    A committed offset that is lost (I14 of the partition that it is of) is a lost record (I1) of
    some partition of OFFSETS_TOPIC: the finding does not say which.
    An empty result leaves the violation without an excuse.
    """
    invariant = SHOWN_BY.get(violation_invariant, violation_invariant)
    shown = [(invariant, (topic, partition, offset))]
    if invariant == "I14" and topic != OFFSETS_TOPIC:
        shown += [("I1", (OFFSETS_TOPIC, each, -1)) for each in _of_commits(trace)]
    found: list[Explanation] = []
    for row in CATALOGUE:
        if row.trigger is None:
            continue
        told = (
            row.trigger(trace, *at)
            for broken, at in shown
            if row.number in may_break.get(broken, MayBreak(())).rows
        )
        evidence = next((each for each in told if each is not None), None)
        if evidence is not None:
            found.append(Explanation(row.number, row.ids, evidence))
    return tuple(found)


def _of_commits(trace: Sequence[TraceEvent]) -> list[int]:
    """Return the partitions of OFFSETS_TOPIC in the trace, by number."""
    return sorted(
        {
            event.partition
            for event in trace
            if event.topic == OFFSETS_TOPIC and event.partition is not None
        }
    )
