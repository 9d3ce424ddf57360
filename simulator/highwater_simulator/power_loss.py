"""Draws what a power loss leaves of unsynced files and names, within these rules.

Names: of each folder's unsynced changes a prefix survives; a rename is one change. So a rename
may survive while the renamed file's content does not (ext4 without auto_da_alloc).
Content: a prefix of the unsynced bytes survives, the last of which may be zeros or garbage where
a sector was torn. An unsynced truncation may be undone; bytes written after it may then lie over
the truncated ones.
Synced data always survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from highwater_core.common_prefix import common_prefix_bytes
from highwater_core.ports import Rng
from highwater_simulator.disk_tree import FileNode, FolderNode

SECTOR_BYTES = 512


class Loss(NamedTuple):
    """The loss of one file: the first kept_size_bytes of its contents are still there.

    what: "cut", "torn" (zeros or garbage follow), "truncation undone", "older file is back",
    "name gone", "name is back", "wiped".
    """

    path: str
    kept_size_bytes: int
    lost_bytes: int
    what: str


def lose_unsynced(root: FolderNode, rng: Rng | None) -> tuple[Loss, ...]:
    """Leave below root the files that survive, all of them durable; return the losses.

    Without rng nothing unsynced survives.
    """
    before = {path: (node, bytes(node.content)) for path, node in root.files().items()}
    _lose_in_folder(root, rng)
    return _losses(before, root.files())


def _lose_in_folder(folder: FolderNode, rng: Rng | None) -> None:
    folder.mark_synced(folder.settled + _drawn_count(len(folder.changes), rng))
    folder.changes.clear()
    folder.entries = dict(sorted(folder.durable_entries.items()))
    for node in folder.entries.values():
        if isinstance(node, FolderNode):
            _lose_in_folder(node, rng)
        else:
            _lose_in_file(node, rng)


def _drawn_count(count: int, rng: Rng | None) -> int:
    """Return how many of so many unsynced changes survive: none, all or some, equally likely."""
    if rng is None or not count:
        return 0
    which = rng.randrange(0, 3)
    return rng.randrange(0, count + 1) if which == 2 else which * count


def _lose_in_file(node: FileNode, rng: Rng | None) -> None:
    synced_size, durable = node.synced_size, node.durable()
    if rng is not None:
        kept_size = synced_size + _drawn_count(len(node.content) - synced_size, rng)
        del node.content[kept_size:]
        if kept_size > synced_size:
            _maybe_tear(node.content, synced_size, rng)
        if node.lost_tail and rng.randrange(0, 2):
            node.content += durable[kept_size:]
    else:
        node.content[:] = durable
    node.synced_size = len(node.content)
    node.lost_tail = b""
    node.unsyncable_from = None


def _maybe_tear(content: bytearray, synced_size: int, rng: Rng) -> None:
    """Perhaps replace the end: by zeros for allocated bytes, by garbage within a sector."""
    how = rng.randrange(0, 4)
    if how == 0:
        torn_from = rng.randrange(synced_size, len(content))
        content[torn_from:] = bytes(len(content) - torn_from)
    elif how == 1:
        sector_start = (len(content) - 1) // SECTOR_BYTES * SECTOR_BYTES
        torn_from = rng.randrange(max(sector_start, synced_size), len(content))
        content[torn_from:] = bytes(rng.randrange(0, 256) for _ in content[torn_from:])


# ---------------------------------------------------------------- losses


def _losses(
    before: Mapping[str, tuple[FileNode, bytes]], after: Mapping[str, FileNode]
) -> tuple[Loss, ...]:
    """Return the changes that readers find, in the order of the paths."""
    losses: list[Loss] = []
    for path in sorted({**before, **after}):
        found = after.get(path)
        if path not in before:
            losses.append(Loss(path, 0, 0, "name is back"))
            continue
        node, content = before[path]
        if found is None:
            losses.append(Loss(path, 0, len(content), "name gone"))
        elif found is not node:
            losses.append(Loss(path, 0, len(content), "older file is back"))
        elif found.content != content:
            losses.append(_loss_of_content(path, content, found.content))
    return tuple(losses)


def _loss_of_content(path: str, content: bytes, found: bytearray) -> Loss:
    kept_size = common_prefix_bytes(content, found)
    if len(found) > len(content):
        what = "truncation undone"
    else:
        what = "cut" if kept_size == len(found) else "torn"
    return Loss(path, kept_size, len(content) - kept_size, what)
