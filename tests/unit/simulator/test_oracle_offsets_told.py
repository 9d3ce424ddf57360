"""I9 of ListOffsets: a reported log end is committed, and never falls."""

from __future__ import annotations

import pytest

from highwater_core.ids import TopicPartition
from highwater_simulator.oracle.offsets_told import OffsetsTold
from highwater_simulator.oracle.partition_oracle import PartitionOracle

AT = TopicPartition("t", 0)


class Asked:
    """A partition's oracle whose clients ask for the latest offset."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int]] = []
        self.oracle = PartitionOracle(AT, {}, self._report, lambda: 0, lambda author, broker: False)

    def _report(self, at: TopicPartition, invariant: str, message: str, offset: int) -> None:
        assert message
        self.reports.append((invariant, offset))

    def answer(self, *answers: tuple[int, int]) -> list[tuple[str, int]]:
        """Give answers as (leader epoch, offset), each from right at the high watermark."""
        for epoch, offset in answers:
            self.oracle.check_latest(offset, epoch, offset)
        return self.reports


@pytest.mark.parametrize(("offset", "broken"), [(4, []), (5, []), (6, [("I9", 6)])])
def test_no_client_gets_an_uncommitted_latest_offset(
    offset: int, broken: list[tuple[str, int]]
) -> None:
    told = Asked()
    told.oracle.check_latest(offset, 0, high_watermark=5)
    assert told.reports == broken


@pytest.mark.parametrize(
    ("answers", "broken"),
    [
        (((0, 3), (0, 5), (1, 5), (2, 6)), []),
        (((0, 5), (0, 4)), [("I9", 4)]),
        (((0, 5), (1, 4)), [("I9", 4)]),
        (((0, 5), (2, 6), (3, 5)), [("I9", 5)]),
        (((0, 3), (2, 6), (1, 4), (2, 6)), []),
        (((1, 5), (2, 6), (1, 4)), [("I9", 4)]),
    ],
    ids=[
        "it rises", "one leader goes back", "the next goes back", "behind the last but one",
        "a deposed leader repeats itself", "a deposed leader goes back",
    ],
)  # fmt: skip
def test_a_later_leader_does_not_go_back(
    answers: tuple[tuple[int, int], ...], broken: list[tuple[str, int]]
) -> None:
    assert Asked().answer(*answers) == broken


@pytest.mark.parametrize(("offset", "least"), [(7, 7), (6, 7)])
def test_a_new_leader_knows_all_that_was_committed_when_it_began(offset: int, least: int) -> None:
    told = OffsetsTold()
    told.epoch_begun(3, 7)
    assert told.told(3, offset) == least
    assert told.told(2, 0) == 0, "its predecessor is asked for no more than it knew"


def test_offsets_of_an_excused_loss_are_not_required_again() -> None:
    told = OffsetsTold()
    told.told(0, 9)
    told.forget_beyond(4)
    assert told.told(1, 4) == 4
