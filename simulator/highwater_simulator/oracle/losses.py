"""Whether the loss of a committed record is excused by disk faults; the excuses.

Source: docs/explanation/simulator.md: excused only if every replica with the record lost it by a
disk fault before another one fetched it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from highwater_core.ids import TopicPartition
from highwater_simulator.oracle.shadow import ReplicaShadow


class Excuse(NamedTuple):
    """Committed records in [start_offset, end_offset) that nothing but disk faults lost, at at_ns,
    or an unclean election that an operator allowed.

    Units: at_ns is virtual time. Records that are committed at these offsets later must stay.
    """

    topic_partition: TopicPartition
    start_offset: int
    end_offset: int
    at_ns: int

    def covers(self, at: TopicPartition, offset: int, before_ns: int) -> bool:
        """Return whether it excuses the loss of a record that was sent or read at before_ns."""
        return (
            at == self.topic_partition
            and self.start_offset <= offset < self.end_offset
            and before_ns <= self.at_ns
        )


def is_excused(offset: int, elected: int, shadows: Mapping[int, ReplicaShadow]) -> bool:
    """Return whether no replica has the committed record, and only disk faults lost it.

    The elected replica must have lost the record by a fault of its disk. The loss is the
    protocol's where another replica still holds the record, or truncated it.
    """
    return shadows[elected].lost_by_disk(offset) and all(
        shadow.held_end <= offset and (shadow.cut_from is None or shadow.cut_from > offset)
        for shadow in shadows.values()
    )


def lost_too(excuses: list[Excuse], high_watermark: int, at_ns: int) -> None:
    """Extend the last excuse to what a deposed leader commits, and serves, until at_ns.

    The loss began with another leader. The deposed one has not heard of it.
    """
    last = excuses[-1]
    if high_watermark > last.start_offset:
        end_offset = max(last.end_offset, high_watermark)
        excuses[-1] = last._replace(end_offset=end_offset, at_ns=at_ns)
