"""Full disks: several faults keep one full, and every tried disk gets room at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater.faults.disks import full_disks
from highwater.faults.disks.full_disks import FullDisks
from highwater.faults.done import NotDone


class Disks:
    """The helpers' actions, and the names of those that are refused."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.refuses: set[str] = set()

    def doing(self, what: str, told: str) -> Callable[[object, int], str]:
        def do(cluster: object, node: int) -> str:
            self.done.append((what, node))
            if what in self.refuses:
                raise NotDone(f"{what} is refused")
            return told

        return do


class SizedCluster:
    def has_sized_disk(self, node: int) -> bool:
        return True


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    disks = Disks()
    monkeypatch.setattr(full_disks, "fill_disk", disks.doing("fill", "a page more: ENOSPC"))
    monkeypatch.setattr(full_disks, "make_room", disks.doing("make room", "full until now"))
    lines = [b'{"what":"[Errno 28] No space left on device"}', b"{}"]
    monkeypatch.setattr(full_disks, "newest_trace", lambda cluster, node: lines)
    return disks


@pytest.fixture
def told() -> list[int]:
    return []


@pytest.fixture
def full(disks: Disks, told: list[int]) -> FullDisks:
    cluster: Any = SizedCluster()
    return FullDisks(cluster, told.append)


def test_room_is_made_when_the_last_of_several_faults_is_over(
    full: FullDisks, disks: Disks, told: list[int]
) -> None:
    one, other = full.fill(2), full.fill(2)
    assert (one.node, one.proof, told) == (2, "a page more: ENOSPC", [2, 2])
    told_of = "the node's trace tells of it 1 times"
    assert one.revert() == f"filled by another fault still; {told_of}"
    assert other.revert() == f"full until now; {told_of}"
    assert (one.later(), other.later()) == (told_of, told_of)
    assert disks.done == [("fill", 2), ("fill", 2), ("make room", 2)]
    assert full.end() == []
    assert disks.done[3:] == []


def test_a_disk_not_seen_full_may_have_ballast_and_gets_room_at_the_end(
    full: FullDisks, disks: Disks
) -> None:
    disks.refuses = {"fill"}
    with pytest.raises(NotDone):
        full.fill(1)
    assert full.end() == []
    assert disks.done == [("fill", 1), ("make room", 1)]


def test_a_disk_that_stays_full_is_reported_and_tried_again(full: FullDisks, disks: Disks) -> None:
    full.fill(1)
    disks.refuses = {"make room"}
    assert full.end() == ["the disk of node 1: make room is refused"]
    disks.refuses = set()
    assert full.end() == []
