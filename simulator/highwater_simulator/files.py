"""A node's disk in memory: what the page cache holds and what a power loss would leave.

A Disk outlives its node's incarnations; each incarnation reaches it through its own FileSystem,
fenced once it is dead. Bytes become durable by File.sync, names by FileSystem.sync_folder.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field

from highwater_core.check import check
from highwater_core.ports import Buffer, Rng
from highwater_simulator.tasks import NodeRuntime

SYNC_MINIMUM_NS = 200_000
SYNC_MAXIMUM_NS = 5_000_000


@dataclass(slots=True, eq=False)
class FileNode:
    """A file's bytes.

    Invariant: content[:synced_size] is durable; the durable file is that followed by lost_tail,
    what was durable behind it before a truncation that has not been synced.
    """

    content: bytearray = field(default_factory=bytearray)
    synced_size: int = 0
    lost_tail: bytes = b""
    syncs: list[list[int]] = field(default_factory=list)
    """One-element lists: how much each sync under way will have made durable."""

    def truncate(self, size: int) -> None:
        if size < self.synced_size:
            self.lost_tail = bytes(self.content[size : self.synced_size]) + self.lost_tail
            self.synced_size = size
        for covered in self.syncs:
            covered[0] = min(covered[0], size)
        del self.content[size:]

    def mark_synced(self, size: int) -> None:
        self.synced_size = max(self.synced_size, size)
        self.lost_tail = b""

    def durable(self) -> bytes:
        return bytes(self.content[: self.synced_size]) + self.lost_tail


@dataclass(slots=True, eq=False)
class FolderNode:
    """A folder's entries, and those that were there when it was last synced."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable_entries: dict[str, Node] = field(default_factory=dict)


Node = FileNode | FolderNode


class Disk:
    """A node's volume."""

    def __init__(self, rng: Rng) -> None:
        self.root = FolderNode()
        self._rng = rng

    def sync_duration_ns(self) -> int:
        return self._rng.randrange(SYNC_MINIMUM_NS, SYNC_MAXIMUM_NS)

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for part in _parts(path):
            node = node.entries.get(part) if isinstance(node, FolderNode) else None
        return node

    def folder_of(self, path: str) -> tuple[FolderNode, str]:
        """Return the folder that holds or would hold the path, and the name in it.

        Raises:
            OSError: there is no such folder.
        """
        *folders, name = _parts(path) or [""]
        folder = self.find("/".join(folders))
        if folder is None:
            raise FileNotFoundError(path)
        if not isinstance(folder, FolderNode):
            raise NotADirectoryError(path)
        return folder, name

    def files(self) -> dict[str, bytes]:
        """Return every file's content as a reader sees it, by path in ascending order."""
        found: dict[str, bytes] = {}
        stack: list[tuple[str, Node]] = [("", self.root)]
        while stack:
            path, node = stack.pop()
            if isinstance(node, FileNode):
                found[path] = bytes(node.content)
            else:
                prefix = f"{path}/" if path else ""
                stack.extend((f"{prefix}{name}", child) for name, child in node.entries.items())
        return dict(sorted(found.items()))


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    check(not path.startswith("/") and ".." not in parts, f"{path!r} leaves the node's folder")
    return [part for part in parts if part not in ("", ".")]


class SimulatedFile:
    """The File port: a file opened by one incarnation."""

    def __init__(self, runtime: NodeRuntime, disk: Disk, path: str, node: FileNode) -> None:
        self._runtime = runtime
        self._disk = disk
        self._path = path
        self._node = node
        self._is_closed = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def size_bytes(self) -> int:
        return len(self._node.content)

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._check_open()
        position = len(self._node.content)
        if self._runtime.is_alive:
            for buffer in buffers:
                self._node.content += buffer
        return position

    def pread(self, position: int, length: int) -> bytes:
        self._check_open()
        return bytes(self._node.content[position : position + length])

    def truncate(self, size_bytes: int) -> None:
        self._check_open()
        check(0 <= size_bytes <= self.size_bytes, f"{self._path} cannot grow by truncation")
        if self._runtime.is_alive:
            self._node.truncate(size_bytes)

    async def sync(self) -> None:
        self._check_open()
        covered = [len(self._node.content)]
        self._node.syncs.append(covered)
        try:
            await self._runtime.sleep_ns(self._disk.sync_duration_ns())
        finally:
            self._node.syncs.remove(covered)
        self._node.mark_synced(covered[0])

    def close(self) -> None:
        check(not self._is_closed, f"{self._path} is closed once")
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "closed", self._path)


class SimulatedFileSystem:
    """The FileSystem port of one incarnation."""

    def __init__(self, runtime: NodeRuntime, disk: Disk) -> None:
        self._runtime = runtime
        self._disk = disk

    def open(self, path: str) -> SimulatedFile:
        folder, name = self._disk.folder_of(path)
        node = folder.entries.get(name)
        if node is None:
            node = FileNode()
            if self._runtime.is_alive:
                folder.entries[name] = node
        if not isinstance(node, FileNode):
            raise IsADirectoryError(path)
        return SimulatedFile(self._runtime, self._disk, path, node)

    def make_folder(self, path: str) -> None:
        folder = self._disk.root
        for part in _parts(path):
            child = folder.entries.get(part)
            if child is None:
                child = FolderNode()
                if self._runtime.is_alive:
                    folder.entries[part] = child
            if not isinstance(child, FolderNode):
                raise FileExistsError(path)
            folder = child

    def exists(self, path: str) -> bool:
        return self._disk.find(path) is not None

    def list(self, path: str) -> list[str]:
        node = self._disk.find(path)
        if isinstance(node, FileNode):
            raise NotADirectoryError(path)
        return [] if node is None else sorted(node.entries)

    def rename(self, source: str, target: str) -> None:
        source_folder, source_name = self._disk.folder_of(source)
        target_folder, target_name = self._disk.folder_of(target)
        node = source_folder.entries.get(source_name)
        if node is None:
            raise FileNotFoundError(source)
        replaced = target_folder.entries.get(target_name)
        if isinstance(replaced, FolderNode):
            if isinstance(node, FileNode):
                raise IsADirectoryError(target)
            if replaced.entries:
                raise OSError(errno.ENOTEMPTY, "not empty", target)
        elif replaced is not None and isinstance(node, FolderNode):
            raise NotADirectoryError(target)
        if self._runtime.is_alive:
            del source_folder.entries[source_name]
            target_folder.entries[target_name] = node

    def remove(self, path: str) -> None:
        if self._disk.find(path) is not None and self._runtime.is_alive:
            folder, name = self._disk.folder_of(path)
            del folder.entries[name]

    async def sync_folder(self, path: str) -> None:
        node = self._disk.find(path)
        if not isinstance(node, FolderNode):
            raise FileNotFoundError(path)
        entries = dict(node.entries)
        await self._runtime.sleep_ns(self._disk.sync_duration_ns())
        node.durable_entries = entries
