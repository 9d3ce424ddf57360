"""Bits that flip in batches that a start reads: from the checkpointed recovery point on."""

from __future__ import annotations

from collections import Counter

from highwater_broker.log.checkpoints import encode_rows
from highwater_core.ids import LeaderEpoch
from highwater_simulator.disk import Disk
from highwater_simulator.disk_tree import FileNode, FolderNode
from highwater_simulator.log_tails import flip_in_tail
from highwater_simulator.oracle.checkpoints import RECOVERY_POINTS
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.record_batch import build_batch

BATCHES = [build_batch([(None, b"value", 1)], offset, LeaderEpoch(0)) for offset in range(4)]
SIZE = len(BATCHES[0])
LOG = "00000000000000000000.log"


def disk_with(recovery_point: int, folder_name: str = "t-0") -> Disk:
    disk, folder = Disk(SeededRng(1)), FolderNode()
    folder.assign((LOG, FileNode(bytearray(b"".join(BATCHES)))))
    disk.root.assign((folder_name, folder))
    rows = encode_rows([("t", "0", str(recovery_point))], 3)
    disk.root.assign((RECOVERY_POINTS, FileNode(bytearray(rows.encode()))))
    return disk


def flips(recovery_point: int) -> Counter[tuple[int, int]]:
    """Return how often bits flip at each (batch, byte), over many draws."""
    found: Counter[tuple[int, int]] = Counter()
    for seed in range(300):
        disk = disk_with(recovery_point)
        before = disk.files()[f"t-0/{LOG}"]
        flipped = flip_in_tail(disk, SeededRng(seed))
        assert flipped is not None
        path, position = flipped
        after = disk.files()[path]
        changed = [at for at in range(len(before)) if before[at] != after[at]]
        assert changed == [position]
        assert (before[position] ^ after[position]).bit_count() == 1
        found[divmod(position, SIZE)] += 1
    return found


def test_every_batch_of_the_tail_may_be_hit_half_of_the_times_in_its_length() -> None:
    found = flips(recovery_point=2)
    assert {batch for batch, _ in found} == {2, 3}
    in_length = sum(count for (_, at), count in found.items() if 8 <= at < 12)
    assert 100 < in_length < 200
    assert not any(12 <= at < 16 for _, at in found), "nothing tells a leader epoch that flipped"


def test_without_a_checkpoint_all_is_tail() -> None:
    disk = disk_with(0)
    disk.root.assign((RECOVERY_POINTS, None))
    assert flip_in_tail(disk, SeededRng(1)) is not None


def test_nothing_flips_where_there_is_no_tail_nor_in_folders_that_are_aside() -> None:
    assert flip_in_tail(disk_with(4), SeededRng(1)) is None
    assert flip_in_tail(disk_with(0, "t-0.0-delete"), SeededRng(1)) is None
