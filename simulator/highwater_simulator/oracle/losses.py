"""Whether the loss of a committed record is excused by what disks lost.

Source: docs/explanation/simulator.md: excused only if every replica that held it
lost it that way before another had it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from highwater_core.ids import TopicPartition
from highwater_simulator.oracle.shadow import ReplicaShadow


class Excuse(NamedTuple):
    """What was committed in [start_offset, end_offset) until at_ns, and disks alone lost then.

    Units: at_ns is virtual time. What is committed there later is asked for like all else.
    """

    topic_partition: TopicPartition
    start_offset: int
    end_offset: int
    at_ns: int

    def covers(self, at: TopicPartition, offset: int, before_ns: int) -> bool:
        """Return whether it excuses what was written or read at the offset at that time."""
        return (
            at == self.topic_partition
            and self.start_offset <= offset < self.end_offset
            and before_ns <= self.at_ns
        )


def is_excused(offset: int, elected: int, shadows: Mapping[int, ReplicaShadow]) -> bool:
    """Return whether nobody holds the committed record at offset, and only disks took it.

    The elected replica must itself have lost it by its disk. Another one that still holds it, or
    that cut it off on a leader's word, makes the loss the protocol's.
    """
    return shadows[elected].lost_by_disk(offset) and all(
        shadow.held_end <= offset and (shadow.cut_from is None or shadow.cut_from > offset)
        for shadow in shadows.values()
    )
