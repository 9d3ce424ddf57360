"""Measures failovers from a history: the times without an acknowledgement; no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from highwater_checker.history import Acknowledged


@dataclass(frozen=True, slots=True)
class Gap:
    """The longest pause between two acknowledgements of one partition that overlaps a fault.

    Units: seconds, times from the run's start.
    """

    topic: str
    partition: int
    from_s: float
    to_s: float

    @property
    def length_s(self) -> float:
        return self.to_s - self.from_s

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        return f"{where} went {self.length_s:.2f} s without an acknowledgement"


def longest_gap(
    acknowledged: Sequence[Acknowledged],
    topic: str,
    partition: int,
    *,
    start_ns: int,
    end_ns: int,
) -> Gap | None:
    """Return the longest pause of the partition that overlaps [start_ns, end_ns).

    None without two acknowledgements that enclose a pause in that time.
    """
    times = sorted(
        ack.acknowledged_ns
        for ack in acknowledged
        if (ack.topic, ack.partition) == (topic, partition)
    )
    gaps = [
        (after - before, before, after)
        for before, after in pairwise(times)
        if after >= start_ns and before < end_ns
    ]
    if not gaps:
        return None
    _, before, after = max(gaps)
    return Gap(topic, partition, before / 1e9, after / 1e9)
