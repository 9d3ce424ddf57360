"""Answers the kernel about the files of a folder, and notes which of it is on the disk."""

from __future__ import annotations

import errno
import os
import struct
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from highwater_adapters.faulty_disk import kernel
from highwater_adapters.faulty_disk.ailing import LOOK_S, Ailing
from highwater_adapters.faulty_disk.durable import Durable
from highwater_adapters.faulty_disk.kernel import Op, Request
from highwater_adapters.faulty_disk.tree import ROOT_KEY, Entry

SYNC_THREADS = 8
_NOW_GONE = (errno.ENOENT, errno.EINTR, errno.EAGAIN)
"""Errors of reading /dev/fuse after which the next read may succeed."""
_MODE, _SIZE, _HANDLE = 1, 8, 1 << 6
"""Flags of SETATTR: the fields that are to be set."""


@dataclass(frozen=True, slots=True)
class _Open:
    entry: Entry
    descriptor: int


class Server:
    """Serves one folder to one mount until that is gone.

    One thread answers, in the order of the requests; syncs, which may take long, run on others.
    """

    def __init__(self, device: int, folder: Path, root: int) -> None:
        """device: /dev/fuse, which is mounted on the folder.

        root: a descriptor of the folder itself, from before the mount.
        """
        self._device, self._root = device, root
        self._lock = threading.Lock()
        """Held while names, contents or the table of open files change."""
        self._ailing = Ailing(folder.parent)
        self._durable = Durable(folder, root)
        tree = self._durable.tree
        self._entries = {ROOT_KEY: tree.root} | {each.key: each for each in tree.walk()}
        self._opened: dict[int, _Open] = {}
        self._listed: dict[int, list[tuple[str, os.stat_result]]] = {}
        """By handle, an open folder's entries: a listing in pieces neither skips nor repeats."""
        self._next_handle = 1
        self._syncs = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="sync")
        self._is_over = threading.Event()

    def serve(self) -> None:
        """Answer until the mount is gone."""
        self._ailing.look()
        threading.Thread(target=self._look, name="orders", daemon=True).start()
        buffer = bytearray(kernel.REQUEST_BYTES)
        while True:
            try:
                length = os.readv(self._device, [buffer])
            except OSError as error:
                if error.errno in _NOW_GONE:
                    continue
                if error.errno == errno.ENODEV:
                    break
                raise
            request = kernel.parse(bytes(memoryview(buffer)[:length]))
            if request.op in (Op.FSYNC, Op.FSYNCDIR):
                self._syncs.submit(self._answer, request)
            else:
                self._answer(request)
        self._is_over.set()
        self._syncs.shutdown()
        self._durable.close()

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_S):
            if self._ailing.look() and self._ailing.refuses_reads:
                self._forget_pages()

    def _forget_pages(self) -> None:
        """Have the kernel forget the files' bytes, so that reads come here, as from a cold disk."""
        with self._lock:
            keys = [key for key, entry in self._entries.items() if not entry.is_folder]
        for key in keys:
            # FUSE_NOTIFY_INVAL_INODE (2): all bytes of the node.
            body = struct.pack("<Qqq", key, 0, -1)
            message = struct.pack("<IiQ", 16 + len(body), 2, 0) + body
            try:
                os.write(self._device, message)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENODEV):  # it knows no such node
                    raise

    def _answer(self, request: Request) -> None:
        handle = _HANDLERS.get(request.op)
        if request.op in kernel.UNANSWERED:
            if request.op != Op.INTERRUPT:
                for key in kernel.forgotten(request):
                    self._forget(key)
            return
        if handle is None:
            self._send(kernel.reply(request.unique, error=errno.ENOSYS))
            return
        try:
            body = handle(self, request)
        except OSError as error:
            self._send(kernel.reply(request.unique, error=error.errno or errno.EIO))
        except Exception:  # noqa: BLE001 (unanswered, the broker would wait for ever)
            traceback.print_exc()
            self._send(kernel.reply(request.unique, error=errno.EIO))
        else:
            self._send(kernel.reply(request.unique, body))

    def _send(self, message: bytes) -> None:
        try:
            os.write(self._device, message)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # nobody waits for it any more
                raise

    # ------------------------------------------------------------ names

    def _entry(self, key: int) -> Entry:
        try:
            return self._entries[key]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such node") from None

    def _child(self, request: Request, name: str) -> Entry:
        child = self._entry(request.node).seen.get(name)
        if child is None:
            raise FileNotFoundError(errno.ENOENT, name)
        return child

    def _forget(self, key: int) -> None:
        """Drop an entry without a name that the kernel does not know any more."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and not entry.path:
                del self._entries[key]

    def lookup(self, request: Request) -> bytes:
        entry = self._child(request, request.name())
        return kernel.entry(entry.key, self._stat(entry))

    def getattr(self, request: Request) -> bytes:
        return kernel.attr_reply(self._stat(self._entry(request.node)))

    def _stat(self, entry: Entry) -> os.stat_result:
        if path := entry.path:
            return os.stat(path, dir_fd=self._root, follow_symlinks=False)
        with self._lock:
            opened = [each for each in self._opened.values() if each.entry is entry]
        if not opened:
            raise FileNotFoundError(errno.ENOENT, "its name is gone")
        return os.fstat(opened[0].descriptor)

    def mkdir(self, request: Request) -> bytes:
        mode, umask = request.take("II")
        folder, name = self._entry(request.node), request.name(8)
        with self._lock:
            os.mkdir(_in(folder, name), mode & ~umask, dir_fd=self._root)
            entry = self._add(folder, name, is_folder=True)
        return kernel.entry(entry.key, self._stat(entry))

    def create(self, request: Request) -> bytes:
        flags, mode, umask, _ = request.take("IIII")
        folder, name = self._entry(request.node), request.name(16)
        with self._lock:
            descriptor = os.open(
                _in(folder, name),
                os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (flags & os.O_EXCL),
                mode & ~umask,
                dir_fd=self._root,
            )
            try:
                entry = folder.seen.get(name) or self._add(folder, name, is_folder=False)
            except OSError:
                os.close(descriptor)
                raise
        about = os.fstat(descriptor)
        return kernel.entry(entry.key, about) + kernel.open_reply(self._keep(entry, descriptor))

    def _add(self, folder: Entry, name: str, *, is_folder: bool) -> Entry:
        entry = self._durable.create(folder, name, is_folder=is_folder)
        self._entries[entry.key] = entry
        return entry

    def unlink(self, request: Request) -> bytes:
        return self._remove(request, os.unlink)

    def rmdir(self, request: Request) -> bytes:
        return self._remove(request, os.rmdir)

    def _remove(self, request: Request, remove: Callable[..., None]) -> bytes:
        entry = self._child(request, request.name())
        self._ailing.maybe_refuse("remove", entry.path)
        with self._lock:
            remove(entry.path, dir_fd=self._root)
            self._durable.remove(entry)
        return b""

    def rename(self, request: Request) -> bytes:
        skipped = 8 if request.op == Op.RENAME else 16
        if skipped == 16 and request.take("QII")[1]:
            raise OSError(errno.EINVAL, "an exchange of names, or a rename without replacing")
        source, target = request.names(skipped)
        entry, folder = self._child(request, source), self._entry(request.take("Q")[0])
        self._ailing.maybe_refuse("rename", entry.path)
        with self._lock:
            os.rename(entry.path, _in(folder, target), src_dir_fd=self._root, dst_dir_fd=self._root)
            self._durable.rename(entry, folder, target)
        return b""

    def readdir(self, request: Request) -> bytes:
        handle, offset, size = request.take("QQI")
        if not offset:
            self._listed[handle] = self._list(self._entry(request.node))
        return kernel.dirents(self._listed[handle], offset, size)

    def _list(self, folder: Entry) -> list[tuple[str, os.stat_result]]:
        found = []
        for name, entry in sorted(folder.seen.items()):
            try:
                found.append((name, self._stat(entry)))
            except FileNotFoundError:
                continue  # a helper removed it on the volume
        return found

    def opendir(self, request: Request) -> bytes:
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._listed[handle] = []
        return kernel.open_reply(handle)

    def releasedir(self, request: Request) -> bytes:
        self._listed.pop(request.take("Q")[0], None)
        return b""

    # ------------------------------------------------------------ contents

    def open(self, request: Request) -> bytes:
        entry = self._entry(request.node)
        descriptor = os.open(entry.path, os.O_RDWR | os.O_CLOEXEC, dir_fd=self._root)
        return kernel.open_reply(self._keep(entry, descriptor))

    def _keep(self, entry: Entry, descriptor: int) -> int:
        with self._lock:
            handle, self._next_handle = self._next_handle, self._next_handle + 1
            self._opened[handle] = _Open(entry, descriptor)
        return handle

    def read(self, request: Request) -> bytes:
        handle, offset, size = request.take("QQI")
        opened = self._opened[handle]
        self._ailing.maybe_refuse("read", opened.entry.path)
        return os.pread(opened.descriptor, size, offset)

    def write(self, request: Request) -> bytes:
        """Write the bytes; of a refused write a part, as a disk does that fails half-way."""
        handle, offset, size = request.take("QQI")
        opened = self._opened[handle]
        try:
            self._ailing.maybe_refuse("append", opened.entry.path)
        except OSError:
            self._write_at(opened, request.body[40 : 40 + self._ailing.part_of(size)], offset)
            raise
        return kernel.write_reply(self._write_at(opened, request.body[40 : 40 + size], offset))

    def _write_at(self, opened: _Open, content: bytes, offset: int) -> int:
        with self._lock:
            self._durable.changed(opened.entry, offset)
            return os.pwrite(opened.descriptor, content, offset)

    def setattr(self, request: Request) -> bytes:
        valid, _, handle, size = request.take("IIQQ")
        entry = self._entry(request.node)
        if valid & _MODE:
            os.chmod(entry.path, request.take("68xI")[0] & 0o7777, dir_fd=self._root)
        if valid & _SIZE:
            self._ailing.maybe_refuse("truncate", entry.path)
            with self._lock:
                self._durable.changed(entry, size)
                if valid & _HANDLE and handle in self._opened:
                    os.ftruncate(self._opened[handle].descriptor, size)
                else:
                    self._truncate(entry, size)
        return kernel.attr_reply(self._stat(entry))

    def _truncate(self, entry: Entry, size: int) -> None:
        descriptor = os.open(entry.path, os.O_RDWR | os.O_CLOEXEC, dir_fd=self._root)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def fsync(self, request: Request) -> bytes:
        (handle,) = request.take("Q")
        self._ailing.wait_for_sync()
        opened = self._opened.get(handle)
        try:
            self._ailing.maybe_refuse("sync", "" if opened is None else opened.entry.path)
        except OSError:
            self._with_opened(handle, self._durable.lose)
            raise
        self._with_opened(handle, self._durable.sync)
        return b""

    def _with_opened(self, handle: int, act: Callable[[Entry, int], None]) -> None:
        with self._lock:
            opened = self._opened.get(handle)
            if opened is None:  # who waited was killed, and the file is closed since
                raise OSError(errno.EBADF, "closed before its sync began")
            act(opened.entry, opened.descriptor)

    def fsyncdir(self, request: Request) -> bytes:
        self._ailing.wait_for_sync()
        self._ailing.maybe_refuse("sync", self._entry(request.node).path)
        with self._lock:
            self._durable.sync_folder(self._entry(request.node))
        return b""

    def release(self, request: Request) -> bytes:
        with self._lock:
            opened = self._opened.pop(request.take("Q")[0], None)
            if opened is not None:  # under the lock: a sync may be copying it
                os.close(opened.descriptor)
        return b""

    # ------------------------------------------------------------ the rest

    def init(self, request: Request) -> bytes:
        return kernel.init_reply(request)

    def statfs(self, request: Request) -> bytes:
        return kernel.statfs_reply(os.fstatvfs(self._root))

    def agree(self, request: Request) -> bytes:
        """Answer what needs no work."""
        return b""


def _in(folder: Entry, name: str) -> str:
    if not folder.path:
        raise FileNotFoundError(errno.ENOENT, "its folder is gone")
    return f"{folder.path}/{name}"


_HANDLERS: dict[int, Callable[[Server, Request], bytes]] = {
    Op.LOOKUP: Server.lookup,
    Op.GETATTR: Server.getattr,
    Op.SETATTR: Server.setattr,
    Op.MKDIR: Server.mkdir,
    Op.UNLINK: Server.unlink,
    Op.RMDIR: Server.rmdir,
    Op.RENAME: Server.rename,
    Op.RENAME2: Server.rename,
    Op.OPEN: Server.open,
    Op.READ: Server.read,
    Op.WRITE: Server.write,
    Op.STATFS: Server.statfs,
    Op.RELEASE: Server.release,
    Op.FSYNC: Server.fsync,
    Op.FLUSH: Server.agree,
    Op.INIT: Server.init,
    Op.OPENDIR: Server.opendir,
    Op.READDIR: Server.readdir,
    Op.RELEASEDIR: Server.releasedir,
    Op.FSYNCDIR: Server.fsyncdir,
    Op.CREATE: Server.create,
    Op.DESTROY: Server.agree,
}
