"""I9, for ListOffsets: the latest offset that leaders answer never falls.

Source: docs/reference/invariants.md, I9, and docs/reference/catalogue.md, row 23:
KIP-207, KAFKA-2334.
"""

from __future__ import annotations


class OffsetsTold:
    """The latest offsets that leaders of one partition have answered, by leader epoch.

    The leader of an epoch must not answer an offset below one that a leader of the same or an
    earlier epoch has answered, or below what was committed when the epoch began. The leader of an
    earlier epoch that still answers may stay below a later leader's answers: it does not know that
    it was deposed, and its client does not know the later leader.
    """

    def __init__(self) -> None:
        self._least: dict[int, int] = {}

    def epoch_begun(self, leader_epoch: int, committed_end: int) -> None:
        """Take note of the committed end offset when the epoch's leader began to lead."""
        self._told(leader_epoch, committed_end)

    def told(self, leader_epoch: int, offset: int) -> int:
        """Take note of an answered offset; return the least offset that the answer could have."""
        least = max((end for epoch, end in self._least.items() if epoch <= leader_epoch), default=0)
        self._told(leader_epoch, offset)
        return least

    def _told(self, leader_epoch: int, offset: int) -> None:
        self._least[leader_epoch] = max(offset, self._least.get(leader_epoch, 0))

    def forget_beyond(self, end_offset: int) -> None:
        """Lower all answers to end_offset: the loss of the records beyond it was excused."""
        self._least = {epoch: min(end, end_offset) for epoch, end in self._least.items()}
