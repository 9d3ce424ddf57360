"""I9, ListOffsets' half: the latest offset that clients are told never falls.

Source: replication.md, I9, and row 23: KIP-207, KAFKA-2334.
"""

from __future__ import annotations


class OffsetsTold:
    """What may be told of one partition, by the leader epoch in which it is told.

    A later epoch's leader must not go back behind what an earlier one's was told or had committed
    by then. An earlier one's that still answers, because it does not know better, may: it can
    only repeat itself, and a client that asks it has not heard of the other one.
    """

    def __init__(self) -> None:
        self._least: dict[int, int] = {}

    def epoch_begun(self, leader_epoch: int, committed_end: int) -> None:
        """Take note of what was committed when the epoch's leader began to lead."""
        self._told(leader_epoch, committed_end)

    def told(self, leader_epoch: int, offset: int) -> int:
        """Take note of an answer; return the offset that it must not be below."""
        least = max((end for epoch, end in self._least.items() if epoch <= leader_epoch), default=0)
        self._told(leader_epoch, offset)
        return least

    def _told(self, leader_epoch: int, offset: int) -> None:
        self._least[leader_epoch] = max(offset, self._least.get(leader_epoch, 0))

    def forget_beyond(self, end_offset: int) -> None:
        """Take what lay beyond as never told: its loss was excused."""
        self._least = {epoch: min(end, end_offset) for epoch, end in self._least.items()}
