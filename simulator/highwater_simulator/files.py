"""The FileSystem port over a node's Disk.

Each incarnation uses the disk through its own FileSystem, which refuses work once the incarnation
is dead. Bytes become durable by File.sync, names by FileSystem.sync_folder.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from highwater_chaos.faults import DiskOperation
from highwater_core.check import check
from highwater_core.ports import Buffer, DiskSpace
from highwater_simulator.bounded_syncs import BoundedSyncs
from highwater_simulator.disk import Disk, joined, path_parts
from highwater_simulator.disk_tree import FileNode, FolderNode
from highwater_simulator.tasks import NodeRuntime

NAME_MAX_BYTES = 255

__all__ = ["Disk", "FileNode", "FolderNode", "SimulatedFile", "SimulatedFileSystem"]


class SimulatedFile:
    """The File port: a file opened by one incarnation."""

    def __init__(
        self,
        runtime: NodeRuntime,
        disk: Disk,
        path: str,
        node: FileNode,
        syncs: BoundedSyncs | None = None,
    ) -> None:
        self._runtime = runtime
        self._disk = disk
        self._syncs = syncs or BoundedSyncs(runtime, disk)
        self._path = path
        self._node = node
        self._descriptor = disk.open_descriptor(node)
        self._is_closed = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def size_bytes(self) -> int:
        return len(self._node.content)

    def fileno(self) -> int:
        """Return the descriptor, for sending from the file; valid until close."""
        return self._descriptor

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._check_open()
        content, disk = self._node.content, self._disk
        position = len(content)
        if self._runtime.is_alive:
            if disk.faults is not None:
                disk.faults.meet(DiskOperation.APPEND, self._path)
                disk.faults.take_space(sum(map(len, buffers)), self._path)
            for buffer in buffers:
                content += buffer
            if disk.changed is not None:
                disk.changed(self._path, "append")
        return position

    def pread(self, position: int, length: int) -> bytes:
        self._check_open()
        if self._disk.faults is not None:
            self._disk.faults.meet(DiskOperation.READ, self._path)
        return self._node.pread(position, length)

    def truncate(self, size_bytes: int) -> None:
        self._check_open()
        check(0 <= size_bytes <= self.size_bytes, f"{self._path} cannot grow by truncation")
        if self._runtime.is_alive:
            if self._disk.faults is not None:
                self._disk.faults.meet(DiskOperation.TRUNCATE, self._path)
                self._disk.faults.give_back(self.size_bytes - size_bytes, names=0)
            self._node.truncate(size_bytes)
            if self._disk.changed is not None:
                self._disk.changed(self._path, "truncate")

    def overwrite(self, content: Buffer) -> None:
        self._check_open()
        node, disk = self._node, self._disk
        if self._runtime.is_alive:
            if disk.faults is not None:
                disk.faults.meet(DiskOperation.APPEND, self._path)
                disk.faults.take_space(max(0, len(content) - self.size_bytes), self._path)
                disk.faults.give_back(max(0, self.size_bytes - len(content)), names=0)
            node.truncate(0)
            node.content += content
            if disk.changed is not None:
                disk.changed(self._path, "append")

    async def sync(self) -> None:
        self._check_open()
        node = self._node
        covered = [len(node.content)]
        node.syncs.append(covered)
        try:
            await self._syncs.wait(self._path)
        finally:
            node.syncs.remove(covered)
        if self._disk.faults is not None:
            try:
                self._disk.faults.meet(DiskOperation.SYNC, self._path)
            except OSError:
                node.mark_sync_failed(covered[0], self._runtime.incarnation)
                raise
        node.mark_synced(covered[0])

    def close(self) -> None:
        check(not self._is_closed, f"{self._path} is closed once")
        self._is_closed = True
        self._disk.close_descriptor(self._descriptor)

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "closed", self._path)


class SimulatedFileSystem:
    """The FileSystem port of one incarnation."""

    def __init__(self, runtime: NodeRuntime, disk: Disk) -> None:
        self._runtime = runtime
        self._disk = disk
        self._syncs = BoundedSyncs(runtime, disk)

    def open(self, path: str) -> SimulatedFile:
        _check_names(path)
        folder, name = self._disk.folder_of(path)
        node = folder.entries.get(name)
        if node is None:
            node = FileNode()
            if self._runtime.is_alive:
                if self._disk.faults is not None:
                    self._disk.faults.take_name(path)
                folder.assign((name, node))
                self._name_changed(path)
        if not isinstance(node, FileNode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", path)
        return SimulatedFile(self._runtime, self._disk, path, node, self._syncs)

    def make_folder(self, path: str) -> None:
        _check_names(path)
        folder = self._disk.root
        for part in path_parts(path):
            child = folder.entries.get(part)
            if child is None:
                child = FolderNode()
                if self._runtime.is_alive:
                    if self._disk.faults is not None:
                        self._disk.faults.take_name(path)
                    folder.assign((part, child))
            if not isinstance(child, FolderNode):
                raise FileExistsError(errno.EEXIST, "is a file", path)
            folder = child

    def exists(self, path: str) -> bool:
        _check_names(path)
        return self._disk.find(path) is not None

    def list(self, path: str) -> list[str]:
        _check_names(path)
        node = self._disk.find(path)
        if isinstance(node, FileNode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
        return [] if node is None else sorted(node.entries)

    def rename(self, source: str, target: str) -> None:
        _check_names(source)
        _check_names(target)
        source_folder, source_name = self._disk.folder_of(source)
        target_folder, target_name = self._disk.folder_of(target)
        node = source_folder.entries.get(source_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        replaced = target_folder.entries.get(target_name)
        if isinstance(replaced, FolderNode):
            if isinstance(node, FileNode):
                raise IsADirectoryError(errno.EISDIR, "is a folder", target)
            if replaced.entries:
                raise OSError(errno.ENOTEMPTY, "not empty", target)
        elif replaced is not None and isinstance(node, FolderNode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", target)
        if not self._runtime.is_alive:
            return
        if self._disk.faults is not None:
            self._disk.faults.meet(DiskOperation.RENAME, source)
            if isinstance(replaced, FileNode):
                self._disk.faults.give_back(len(replaced.content))
        if source_folder is target_folder:
            source_folder.assign((source_name, None), (target_name, node))
        else:
            target_folder.assign((target_name, node))
            source_folder.assign((source_name, None))
        self._name_changed(source)
        self._name_changed(target)

    def remove(self, path: str) -> None:
        _check_names(path)
        node = self._disk.find(path)
        if node is not None and self._runtime.is_alive:
            if isinstance(node, FolderNode):
                self._remove_all_in(node, path)
            self._meet_removal(path, node)
            folder, name = self._disk.folder_of(path)
            folder.assign((name, None))
            self._name_changed(path)

    def _remove_all_in(self, folder: FolderNode, path: str) -> None:
        """Remove entry by entry, as the real one does: a fault may come in between."""
        for name, node in list(folder.entries.items()):
            if isinstance(node, FolderNode):
                self._remove_all_in(node, f"{path}/{name}")
            self._meet_removal(f"{path}/{name}", node)
            folder.assign((name, None))
            self._name_changed(f"{path}/{name}")

    def _meet_removal(self, path: str, node: FileNode | FolderNode) -> None:
        faults = self._disk.faults
        if faults is None:
            return
        try:
            faults.meet(DiskOperation.REMOVE, path)
        except OSError:
            folder, within = self._disk.in_log_folder(path)
            self._disk.unremoved.add(joined(folder, within.split("/", 1)[0]))
            raise
        faults.give_back(len(node.content) if isinstance(node, FileNode) else 0)

    def space(self, path: str) -> DiskSpace | None:
        return None  # no simulated disk has a size

    def bound_syncs(self, folder: str, timeout_ms: int, hangs: Callable[[], None]) -> None:
        self._syncs.bound(folder, timeout_ms, hangs)

    async def sync_folder(self, path: str) -> None:
        node = self._folder(path)
        change_count = node.change_count
        await self._syncs.wait(path)
        if self._disk.faults is not None:
            self._disk.faults.meet(DiskOperation.SYNC, path)
        node.mark_synced(change_count)

    async def sync_many(self, files: Sequence[str], folders: Sequence[str]) -> None:
        """Make exactly the requested bytes durable, at once; a real disk may do more."""
        nodes = [self._file(path) for path in files]
        covered = [[len(node.content)] for node in nodes]
        for node, sizes in zip(nodes, covered, strict=True):
            node.syncs.append(sizes)
        changes = [(node, node.change_count) for node in map(self._folder, folders)]
        try:
            await self._syncs.wait(files[0])
        finally:
            for node, sizes in zip(nodes, covered, strict=True):
                node.syncs.remove(sizes)
        try:
            if self._disk.faults is not None:
                self._disk.faults.meet(DiskOperation.SYNC, files[0])
        except OSError:
            for node, sizes in zip(nodes, covered, strict=True):
                node.mark_sync_failed(sizes[0], self._runtime.incarnation)
            raise
        for node, sizes in zip(nodes, covered, strict=True):
            node.mark_synced(sizes[0])
        for folder, count in changes:
            folder.mark_synced(count)

    def _file(self, path: str) -> FileNode:
        node = self._disk.find(path)
        if not isinstance(node, FileNode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def _folder(self, path: str) -> FolderNode:
        node = self._disk.find(path)
        if not isinstance(node, FolderNode):
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        return node

    def _name_changed(self, path: str) -> None:
        if self._disk.changed is not None:
            self._disk.changed(path, "name")


def _check_names(path: str) -> None:
    """Refuse names that no file system takes.

    Raises:
        OSError: a part of the path is longer than NAME_MAX bytes.
    """
    if len(path) * 4 > NAME_MAX_BYTES and any(
        len(part.encode()) > NAME_MAX_BYTES for part in path.split("/")
    ):
        raise OSError(errno.ENAMETOOLONG, "file name too long", path)
