"""Bits that flip in a log's tail: from its checkpointed recovery point on, which a start reads.

Half of them are in a batch's length, which no CRC covers and which locates the next batch. None is
in a leader epoch: no CRC covers that either, and no check could find the flip.
"""

from __future__ import annotations

import re

from highwater_core.ids import TopicPartition
from highwater_core.ports import Rng
from highwater_simulator.disk import Disk, joined
from highwater_simulator.disk_tree import FileNode
from highwater_simulator.oracle.batches import Batch, parse_batches
from highwater_simulator.oracle.checkpoints import RECOVERY_POINTS, read_checkpoint

_SEGMENT = re.compile(r"[^/]+-[0-9]+/[0-9]+\.log")
_LENGTH_STARTS, _LENGTH_ENDS = 8, 12
_EPOCH_ENDS = 16


def flip_in_tail(disk: Disk, rng: Rng) -> tuple[str, int] | None:
    """Flip one bit of one batch; return path and byte position, None where no log has a tail.

    Also in unsynced bytes: the kernel writes them at some time, and may read them again. The node
    must be dead: a running one may have read them before.
    """
    batches = [(path, node, batch) for path, node in _logs(disk) for batch in _tail(disk, path)]
    if not batches:
        return None
    path, node, batch = batches[rng.randrange(0, len(batches))]
    position = batch.position + _place(batch, rng)
    node.content[position] ^= 1 << rng.randrange(0, 8)
    return path, position


def _logs(disk: Disk) -> list[tuple[str, FileNode]]:
    return [
        (path, node)
        for path, node in disk.root.files().items()
        if _SEGMENT.fullmatch(disk.in_log_folder(path)[1])
    ]


def _tail(disk: Disk, path: str) -> list[Batch]:
    """Return the segment's batches that recovery will read."""
    folder, within = disk.in_log_folder(path)
    points = read_checkpoint(bytes(disk.content(joined(folder, RECOVERY_POINTS)) or b""))
    recovery_point = points.get(TopicPartition.named(within.split("/")[0]), 0)
    batches = parse_batches(disk.content(path) or b"", 0)
    return [batch for batch in batches if batch.base_offset >= recovery_point]


def _place(batch: Batch, rng: Rng) -> int:
    """Return the byte's position in the batch."""
    if rng.randrange(0, 2):
        return rng.randrange(_LENGTH_STARTS, _LENGTH_ENDS)
    place = rng.randrange(0, batch.size_bytes - (_EPOCH_ENDS - _LENGTH_ENDS))
    return place if place < _LENGTH_ENDS else place + _EPOCH_ENDS - _LENGTH_ENDS
