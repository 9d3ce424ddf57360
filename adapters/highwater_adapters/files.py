"""The FileSystem port over os, rooted at a node's own folder.

Appends, reads and truncations go to the page cache on the event loop; syncs run on a few threads
(periodic syncs stall for 0.1 to 0.6 s, and a file system commits waiting ones together), each log
folder's on its own (`syncs`). There are no retries: OSError goes to the caller.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from highwater_adapters.syncs import Disk, Syncs
from highwater_core.check import check
from highwater_core.ports import Buffer, DiskSpace

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk without room, or of a quota that is used up."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_SYNCED_ONE_BY_ONE_MAX = 16
"""Files and folders: with more than that the whole file system is synced."""
_FUSE_SUPER_MAGIC = 0x65735546
"""Source: statfs(2)."""
_MAX_BUFFERS = os.sysconf("SC_IOV_MAX")


class RealFile:
    """See highwater_core.ports.File. One writer: this object's size is the file's."""

    def __init__(self, path: str, descriptor: int, disk: Disk) -> None:
        self._path = path
        self._descriptor = descriptor
        self._syncs = Syncs(disk)
        self._size_bytes = os.fstat(descriptor).st_size
        self._is_closed = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def fileno(self) -> int:
        """Return the descriptor, for sendfile; valid until close: dup it for longer."""
        return self._descriptor

    def append(self, buffers: Sequence[Buffer]) -> int:
        position = self._size_bytes
        try:
            written = _write_at(self._descriptor, position, buffers)
        except OSError:
            os.ftruncate(self._descriptor, position)
            raise
        self._size_bytes = position + written
        return position

    def pread(self, position: int, length: int) -> bytes:
        wanted = max(0, min(length, self._size_bytes - position))
        content = os.pread(self._descriptor, wanted, position)
        while len(content) < wanted:  # the kernel returns at most 2 GiB at once
            more = os.pread(self._descriptor, wanted - len(content), position + len(content))
            if not more:
                break
            content += more
        return content

    def truncate(self, size_bytes: int) -> None:
        check(0 <= size_bytes <= self._size_bytes, f"{self._path} cannot grow by truncation")
        os.ftruncate(self._descriptor, size_bytes)
        self._size_bytes = size_bytes

    def overwrite(self, content: Buffer) -> None:
        size_bytes = _write_at(self._descriptor, 0, [content])
        if size_bytes < self._size_bytes:
            os.ftruncate(self._descriptor, size_bytes)
        self._size_bytes = size_bytes

    async def sync(self) -> None:
        await self._syncs.run(lambda: os.fdatasync(self._descriptor), self._maybe_release)

    def close(self) -> None:
        """Close the file; the descriptor lives until the last sync of it has ended."""
        check(not self._is_closed, f"{self._path} is closed once")
        self._is_closed = True
        self._maybe_release()

    def _maybe_release(self) -> None:
        if self._is_closed and not self._syncs.in_flight:
            os.close(self._descriptor)


def _write_at(descriptor: int, position: int, buffers: Sequence[Buffer]) -> int:
    """Write all buffers from position on; one system call unless the kernel writes less."""
    total = sum(map(_length, buffers))
    if len(buffers) <= _MAX_BUFFERS:
        written = os.pwritev(descriptor, buffers, position) if total else 0
        if written == total:
            return total
    else:
        written = 0
    rest = [memoryview(buffer).cast("B") for buffer in buffers if _length(buffer)]
    _drop_front(rest, written)
    while rest:
        count = os.pwritev(descriptor, rest[:_MAX_BUFFERS], position + written)
        _drop_front(rest, count)
        written += count
    return total


def _length(buffer: Buffer) -> int:
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)


def _drop_front(views: list[memoryview], count: int) -> None:
    """Remove the first count bytes."""
    whole = 0
    while whole < len(views) and count >= len(views[whole]):
        count -= len(views[whole])
        whole += 1
    del views[:whole]
    if count:
        views[0] = views[0][count:]


class RealFileSystem:
    """See highwater_core.ports.FileSystem."""

    def __init__(self, root: str | Path, sync_threads: int = 8) -> None:
        self._root = Path(root)
        self._sync_threads = sync_threads
        self._disks: dict[str, Disk] = {}
        """By the folder whose syncs have a bound."""
        self._syncs: dict[str, Syncs] = {}
        """Syncs of folders, and of files that are not open here, likewise."""
        self._add_disk("")

    def open(self, path: str) -> RealFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._at(path), flags, 0o644)
        return RealFile(path, descriptor, self._disks[self._bounded(path)])

    def make_folder(self, path: str) -> None:
        self._at(path).mkdir(parents=True, exist_ok=True)

    def exists(self, path: str) -> bool:
        try:
            return self._at(path).exists()
        except PermissionError:  # the next open in there raises the error
            return False

    def list(self, path: str) -> list[str]:
        try:
            return sorted(entry.name for entry in self._at(path).iterdir())
        except FileNotFoundError:
            return []

    def rename(self, source: str, target: str) -> None:
        self._at(source).rename(self._at(target))

    def remove(self, path: str) -> None:
        place = self._at(path)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def space(self, path: str) -> DiskSpace | None:
        found = os.statvfs(self._at(path))
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def bound_syncs(self, folder: str, timeout_ms: int, hangs: Callable[[], None]) -> None:
        check("/" not in folder, f"{folder!r} is a folder of the node's own")
        if folder not in self._disks:
            self._add_disk(folder)
        self._disks[folder].bound(timeout_ms, hangs)

    async def sync_folder(self, path: str) -> None:
        place = self._at(path)
        await self._syncs[self._bounded(path)].run(lambda: sync_folder(place))

    async def sync_many(self, files: Sequence[str], folders: Sequence[str]) -> None:
        paths = [*files, *folders]
        places = [self._at(path) for path in paths]
        await self._syncs[self._bounded(paths[0])].run(lambda: sync_all(places))

    def close(self) -> None:
        """End idle threads, without a wait for running syncs; the port must not be used then."""
        for disk in self._disks.values():
            disk.threads.close()

    def _add_disk(self, folder: str) -> None:
        self._disks[folder] = Disk(self._sync_threads)
        self._syncs[folder] = Syncs(self._disks[folder])

    def _bounded(self, path: str) -> str:
        """Return the folder with a bound that has the path."""
        first = path.partition("/")[0]
        return first if first in self._disks else ""

    def _at(self, path: str) -> Path:
        parts = path.split("/")
        check(not path.startswith("/") and ".." not in parts, f"{path!r} leaves the node's folder")
        return self._root / path


def sync_folder(folder: Path) -> None:
    """Make the folder's entries survive a power loss (blocks)."""
    _with_descriptor(folder, os.fsync, os.O_DIRECTORY)


def sync_all(places: Sequence[Path]) -> None:
    """Make files and folders of one file system survive a power loss (blocks).

    Many are synced together with their whole file system. A sync of each would be one journal
    commit each, and every creation and rename of a file would wait for all of them. The kernel
    passes no sync of a whole file system on to one in user space (FUSE): there each is synced.
    """
    if len(places) > _SYNCED_ONE_BY_ONE_MAX and not _is_fuse(places[0]):
        _with_descriptor(places[0], _sync_file_system)
        return
    for place in places:
        _with_descriptor(place, os.fsync)


def _with_descriptor(place: Path, act: Callable[[int], None], flags: int = 0) -> None:
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        act(descriptor)
    finally:
        os.close(descriptor)


def _is_fuse(place: Path) -> bool:
    """Return whether the place is on a file system in user space, by statfs(2)'s f_type."""
    answer = (ctypes.c_long * 32)()
    return not _LIBC.statfs(os.fsencode(place), answer) and answer[0] == _FUSE_SUPER_MAGIC


def _sync_file_system(descriptor: int) -> None:
    """syncfs(2), which Python lacks; sync(2) on other systems than Linux."""
    if not hasattr(_LIBC, "syncfs"):
        os.sync()
    elif _LIBC.syncfs(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
