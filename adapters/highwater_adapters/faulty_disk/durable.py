"""Which contents of the folder are on the disk: copies as of their last sync, and the names.

All of it lies on the node's volume, beside the folder, so that it outlives a kill:

    synced/names.jsonl  the journal of the tree
    synced/files/KEY    a file's bytes as of its last sync

A start does not know which bytes were written since the last sync: the next sync of a file copies
all of it. So a start also forgets which bytes a failed sync lost.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

from highwater_adapters.faulty_disk.tree import Entry, Tree

STORE, JOURNAL = "synced", "names.jsonl"
BALLAST = ".ballast"
"""A helper's file that fills the disk: no part of what the broker has, or loses."""
_CHUNK_BYTES: Final = 1 << 20


def store_of(folder: Path) -> Path:
    """Return where the durable part of the folder is kept."""
    return folder.parent / STORE


def boot_id_of(folder: Path) -> Path:
    """Return the file with the boot id that a power loss drew; without one it is the machine's."""
    return folder.parent / "boot_id"


def read_journal(store: Path) -> list[list[Any]]:
    """Return the changes of the names, in their order; a line that was torn by a kill is left out.

    Raises:
        FileNotFoundError: there is no journal: nothing of the folder was ever served.
    """
    lines = (store / JOURNAL).read_bytes().split(b"\n")
    return [json.loads(line) for line in lines[:-1]]


class Durable:
    """The durable part of a folder that is being served. Its caller takes turns (a lock)."""

    def __init__(self, folder: Path, root: int) -> None:
        """root: a descriptor of the folder itself, below the mount."""
        self._store = store_of(folder)
        self._root = root
        self._unsynced_from: dict[int, int] = {}
        """By key, the first byte that is not as it was at the last sync. Absent: nothing is."""
        (self._store / "files").mkdir(parents=True, exist_ok=True)
        self._journal: io.BytesIO | io.FileIO = io.BytesIO()
        self.tree = self._tree_of_before()
        for entry in self.tree.walk():
            if not entry.is_folder:
                self._unsynced_from[entry.key] = 0
        self._take_in(self.tree.root)
        self._journal = self._begin_journal(self._journal.getvalue())
        self._forget(self.tree.keys())

    def close(self) -> None:
        self._journal.close()

    def _tree_of_before(self) -> Tree:
        try:
            changes = read_journal(self._store)
        except FileNotFoundError:
            return Tree()
        self._journal.write(b"".join(map(_line, changes)))  # without a torn line
        return Tree.replayed(changes)

    def _begin_journal(self, lines: bytes) -> io.FileIO:
        """Replace the journal at once: a start that is killed has changed nothing."""
        journal, fresh = self._store / JOURNAL, self._store / "names.new"
        fresh.write_bytes(lines)
        fresh.replace(journal)
        return journal.open("ab", buffering=0)

    def _take_in(self, folder: Entry) -> None:
        """Take names that the folder got or lost unserved (the first start, a helper) as synced."""
        listed = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._root)
        try:
            found = {each.name: each.is_dir(follow_symlinks=False) for each in os.scandir(listed)}
            found.pop(BALLAST, None)
        finally:
            os.close(listed)
        is_changed = False
        for name in sorted({*found, *folder.seen}):
            known = folder.seen.get(name)
            if known is not None and found.get(name) != known.is_folder:
                self.remove(known)
                known, is_changed = None, True
            if known is None and name in found:
                known = self.create(folder, name, is_folder=found[name])
                is_changed = True
                if not known.is_folder:
                    self.sync_path(known)
            if known is not None and known.is_folder:
                self._take_in(known)
        if is_changed:
            self.sync_folder(folder)

    # ------------------------------------------------------------ names

    def create(self, folder: Entry, name: str, *, is_folder: bool) -> Entry:
        """Note a new file or folder, and return it; its key is new."""
        path, key = f"{folder.path}/{name}", self.tree.next_key
        if not is_folder:
            (self._store / "files" / str(key)).write_bytes(b"")
        self._note("create", path, key, is_folder)
        return self.tree.create(path, key, is_folder)

    def rename(self, entry: Entry, folder: Entry, name: str) -> None:
        source, target = entry.path, f"{folder.path}/{name}"
        self._note("rename", source, target)
        self.tree.rename(source, target)

    def remove(self, entry: Entry) -> None:
        path = entry.path
        self._note("remove", path)
        self.tree.remove(path)

    def sync_folder(self, folder: Entry) -> None:
        """Put the names of a folder on the disk."""
        if not folder.path:
            return  # it has no name any more
        gone = set(folder.durable.values()) - set(folder.seen.values())
        self._note("sync", folder.path)
        self.tree.sync_folder(folder.path)
        if gone and isinstance(self._journal, io.FileIO):  # a start forgets at its end
            self._forget(self.tree.keys())

    def _forget(self, kept: set[int]) -> None:
        for path in (self._store / "files").iterdir():
            if int(path.name) not in kept:
                path.unlink()
                self._unsynced_from.pop(int(path.name), None)

    def _note(self, *change: object) -> None:
        """Write a line of the journal, or none of it.

        Raises:
            OSError: the volume refused, or has no room.
        """
        line, end = _line(list(change)), self._journal.tell()
        written = 0
        try:
            written = self._journal.write(line)
        finally:
            if written != len(line):
                self._journal.truncate(end)
                self._journal.seek(end)
        if written != len(line):
            raise OSError(errno.ENOSPC, "no room for a line of the journal")

    # ------------------------------------------------------------ contents

    def changed(self, entry: Entry, position: int) -> None:
        """Note that the file's bytes from the position on, or its size, may have changed."""
        self._unsynced_from[entry.key] = min(position, self._unsynced_from.get(entry.key, position))

    def sync(self, entry: Entry, descriptor: int) -> None:
        """Put the file's content on the disk, as it is now.

        Bytes that stay the same are on the disk all the while: a kill may come at any moment.
        """
        start = self._unsynced_from.pop(entry.key, None)
        if start is None:
            return
        size = os.fstat(descriptor).st_size
        with self._copy_of(entry) as copy:
            copy.truncate(min(size, copy.seek(0, os.SEEK_END)))
            copy.seek(start)
            while piece := os.pread(descriptor, _CHUNK_BYTES, start):
                copy.write(piece)
                start += len(piece)
            copy.truncate(size)

    def sync_path(self, entry: Entry) -> None:
        """As sync, of a file that is not open."""
        self.changed(entry, 0)
        descriptor = os.open(entry.path, os.O_RDONLY, dir_fd=self._root)
        try:
            self.sync(entry, descriptor)
        finally:
            os.close(descriptor)

    def lose(self, entry: Entry, descriptor: int) -> None:
        """Have a sync fail: what was not synced is taken for synced, and is not (fsyncgate)."""
        if self._unsynced_from.pop(entry.key, None) is not None:
            with self._copy_of(entry) as copy:
                copy.truncate(os.fstat(descriptor).st_size)

    def _copy_of(self, entry: Entry) -> Any:
        path = self._store / "files" / str(entry.key)
        return path.open("r+b" if path.exists() else "w+b")


def forget(folder: Path) -> None:
    """Take all of the folder for synced, whatever it was: the next start copies it."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(store_of(folder))


def _line(change: list[Any]) -> bytes:
    return json.dumps(change).encode() + b"\n"
