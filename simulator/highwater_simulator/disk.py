"""A node's disk: its page cache, the durable part of it, and the effects of a power loss.

A Disk outlives its node's incarnations; they use it through highwater_simulator.files. It draws
from a random stream of its own for each kind of fault, and only while one acts.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from highwater_chaos.faults import DiskOperation, FileKind
from highwater_core.check import check
from highwater_core.ports import Rng
from highwater_simulator.disk_faults import DiskFaults, flippable_files
from highwater_simulator.disk_tree import FileNode, FolderNode, Node
from highwater_simulator.power_loss import Loss, lose_unsynced

SYNC_MINIMUM_NS = 200_000
SYNC_MAXIMUM_NS = 5_000_000


class Disk:
    """A node's volume.

    changed: called with (path, "append" | "truncate" | "name") after a node changed a file's
        content or a name in the page cache. A renamed or removed folder stands for all in it. An
        open file goes by the name under which it was opened.

    Methods that do faults return the changes of the fault instead.
    """

    def __init__(self, rng: Rng, log_folders: Sequence[str] = ("",)) -> None:
        """log_folders: the names of the broker's log folders; "" where the disk is its only one."""
        self.root = FolderNode()
        self.log_folders = tuple(log_folders)
        self.faults: DiskFaults | None = None
        """The faults that act now; None without any."""
        self.changed: Callable[[str, str], None] | None = None
        self.power_losses = 0
        """How often its machine lost power, and with it the page cache."""
        self.unremoved: set[str] = set()
        """The files and folders of log folders in which a removal failed once."""
        self._rng = rng
        self._fault_rngs: dict[str, Rng] = {}
        self._opened: dict[int, FileNode] = {}
        self._next_descriptor = 0

    # ------------------------------------------------------------ contents

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for part in path_parts(path):
            node = node.entries.get(part) if isinstance(node, FolderNode) else None
        return node

    def folder_of(self, path: str) -> tuple[FolderNode, str]:
        """Return the folder that has or would have the path, and the name in it.

        Raises:
            OSError: there is no such folder.
        """
        *folders, name = path_parts(path) or [""]
        folder = self.find("/".join(folders))
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        if not isinstance(folder, FolderNode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
        return folder, name

    def in_log_folder(self, path: str) -> tuple[str, str]:
        """Return the log folder that has the path, "" for the disk itself, and the path in it."""
        first, _, rest = path.partition("/")
        return (first, rest) if first in self.log_folders else ("", path)

    def replica_folders(self, name: str) -> list[str]:
        """Return the paths of the folders of that name, in every log folder that has one."""
        paths = (joined(each, name) for each in self.log_folders)
        return [path for path in paths if isinstance(self.find(path), FolderNode)]

    def files(self) -> dict[str, bytes]:
        """Return every file's content as a reader sees it, by path in ascending order."""
        return {path: bytes(node.content) for path, node in self.root.files().items()}

    def paths(self, folder: str) -> list[str]:
        """Return the paths of the files in the folder itself, ascending; none without one."""
        node = self.find(folder)
        if not isinstance(node, FolderNode):
            return []
        prefix = f"{folder}/" if folder else ""
        names = sorted(node.entries)
        return [f"{prefix}{name}" for name in names if isinstance(node.entries[name], FileNode)]

    def content(self, path: str) -> bytearray | None:
        """Return the file's bytes themselves, not to be changed or kept; None without the file."""
        node = self.find(path)
        return node.content if isinstance(node, FileNode) else None

    def durable_file(self, path: str) -> FileNode | None:
        """Return the file that has the path after a power loss.

        None also where a folder on the way is another one by then.
        """
        folder: Node | None = self.root
        *folders, name = path_parts(path)
        for each in folders:
            before = folder
            folder = before.entries.get(each) if isinstance(before, FolderNode) else None
            if not isinstance(before, FolderNode) or before.durable_entries.get(each) is not folder:
                return None
        node = folder.durable_entries.get(name) if isinstance(folder, FolderNode) else None
        return node if isinstance(node, FileNode) else None

    def durable_content(self, path: str) -> bytes:
        """Return the bytes of a file that every power loss leaves; none without a durable name."""
        node = self.durable_file(path)
        if node is None:
            return b""
        return bytes(node.content[: node.synced_size]) + node.lost_tail

    def read(self, path: str, position: int, length: int) -> bytes:
        """Return up to length bytes of the file; nothing when there is none."""
        content = self.content(path)
        return b"" if content is None else bytes(content[position : position + length])

    def open_descriptor(self, node: FileNode) -> int:
        """Return a descriptor that is valid until the file is closed."""
        self._next_descriptor += 1
        self._opened[self._next_descriptor] = node
        return self._next_descriptor

    def close_descriptor(self, descriptor: int) -> None:
        del self._opened[descriptor]

    def opened(self, descriptor: int) -> FileNode:
        """Return the open file, even if its name is gone."""
        return self._opened[descriptor]

    def path_of(self, node: FileNode) -> str:
        """Return the file's path, "" once its name is gone."""
        return next((path for path, each in self.root.files().items() if each is node), "")

    def sync_duration_ns(self) -> int:
        duration_ns = self._rng.randrange(SYNC_MINIMUM_NS, SYNC_MAXIMUM_NS)
        return duration_ns if self.faults is None else self.faults.slowed_ns(duration_ns)

    def is_hanging(self, path: str) -> bool:
        """Return whether a sync of the path that begins now never returns."""
        return self.faults is not None and self.faults.is_hanging(path)

    # ------------------------------------------------------------ faults that last

    def fill(self, free_bytes: int = 0) -> None:
        """Make the disk full once free_bytes more are written: ENOSPC.

        From now on a file or folder can only be created in place of a removed one.
        """
        self._ail().fill(free_bytes)

    def make_room(self) -> None:
        """Undo fill."""
        if self.faults is not None:
            self.faults.free_bytes = None
            self._maybe_recover()

    def fail(
        self,
        operation: DiskOperation,
        percent: int = 100,
        count: int | None = None,
        within: str = "",
    ) -> None:
        """Refuse operations with EIO: each with the probability, or the next `count` ones.

        within: only for files and folders whose paths contain this.

        The bytes of a failed sync are lost: the kernel takes their pages for clean, and no later
        sync writes them (fsyncgate). They can only be read from the cache.
        """
        self._ail().fail(operation, percent, count, within)

    def mend(self, operation: DiskOperation) -> None:
        """Undo fail."""
        if self.faults is not None:
            self.faults.mend(operation)
            self._maybe_recover()

    def die(self, folder: str = "") -> None:
        """Refuse every operation in the folder, or on the whole disk, with EIO; the data stays."""
        self._ail().die(folder)

    def revive(self, folder: str = "") -> None:
        """Undo die: the data can be used again."""
        if self.faults is not None:
            self.faults.revive(folder)
            self._maybe_recover()

    def slow_down(self, delay_ms: int = 0, factor: int = 1) -> None:
        """Make every sync that begins from now on take factor times as long and delay_ms more."""
        self._ail().slow_down(delay_ms, factor)

    def speed_up(self) -> None:
        """Undo slow_down."""
        self.slow_down()
        self._maybe_recover()

    def hang(self, folder: str = "") -> None:
        """Let no sync return that begins from now on in the folder, or on the whole disk.

        Everything else goes on in the page cache.
        """
        self._ail().hang(folder)

    def hang_no_more(self, folder: str = "") -> None:
        """Undo hang for syncs that begin from now on."""
        if self.faults is not None:
            self.faults.hang_no_more(folder)
            self._maybe_recover()

    def heal(self) -> None:
        """Undo all of these faults."""
        self.faults = None

    def _ail(self) -> DiskFaults:
        if self.faults is None:
            self.faults = DiskFaults(self.fault_rng("errors"))
        return self.faults

    def _maybe_recover(self) -> None:
        if self.faults is not None and self.faults.is_over:
            self.faults = None

    def fault_rng(self, kind: str) -> Rng:
        """Return the random stream of a kind of fault, at its present position."""
        return self._fault_rngs.setdefault(kind, self._rng.stream(kind))

    # ------------------------------------------------------------ faults that strike once

    def lose_power(self, *, spares_nothing: bool = False) -> tuple[Loss, ...]:
        """Keep the synced data and a drawn part of the rest; the node must be dead.

        spares_nothing: lose all unsynced data, and draw nothing.
        """
        self.power_losses += 1
        return lose_unsynced(self.root, None if spares_nothing else self.fault_rng("power"))

    def wipe(self) -> tuple[Loss, ...]:
        """Replace it by an empty disk; the node must be dead."""
        before, self.root = self.root.files(), FolderNode()
        return tuple(Loss(path, 0, len(node.content), "wiped") for path, node in before.items())

    def flip_bit(self, kind: FileKind) -> tuple[str, int] | None:
        """Flip one bit of one file of the kind; return path and byte position, or None.

        Only durable bytes flip: bits flip on the medium, and dirty pages are not read from there.
        None when no file of the kind has durable bytes. The node must be dead: a running one may
        have read the file before.
        """
        files = flippable_files(self.root.files(), kind)
        if not files:
            return None
        rng = self.fault_rng("flips")
        path, node = files[rng.randrange(0, len(files))]
        position = rng.randrange(0, node.synced_size)
        node.content[position] ^= 1 << rng.randrange(0, 8)
        return path, position


def joined(folder: str, name: str) -> str:
    """Return the path of a name in the folder; "" is the disk itself."""
    return f"{folder}/{name}" if folder else name


def path_parts(path: str) -> list[str]:
    parts = path.split("/")
    check(not path.startswith("/") and ".." not in parts, f"{path!r} leaves the node's folder")
    return [part for part in parts if part not in ("", ".")]
