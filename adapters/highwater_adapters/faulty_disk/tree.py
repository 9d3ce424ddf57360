"""A folder's names as everybody sees them, and as they are on the disk. Pure.

A name that was made, renamed or removed is on the disk once its folder was synced; POSIX promises
no less, and no more. Contents are told apart by key: a file keeps its key through renames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

ROOT_KEY = 1


@dataclass(slots=True, eq=False)
class Entry:
    """A file or folder.

    parent: the folder in which it is seen; None for the root, and for an entry without a name.
    seen: a folder's entries as everybody sees them, by name.
    durable: a folder's entries as a power loss leaves them, by name.
    """

    key: int
    is_folder: bool
    name: str = ""
    parent: Entry | None = None
    seen: dict[str, Entry] = field(default_factory=dict)
    durable: dict[str, Entry] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path from the root, "." for the root; "" for an entry without a name."""
        if self.key == ROOT_KEY:
            return "."
        if self.parent is None:
            return ""
        above = self.parent.path
        return self.name if above == "." else f"{above}/{self.name}" if above else ""


class Tree:
    """The folder; every change is also a line of the journal, by which it is made again."""

    def __init__(self) -> None:
        self.root = Entry(ROOT_KEY, is_folder=True)
        self.next_key = ROOT_KEY + 1

    @classmethod
    def replayed(cls, journal: Iterable[list[Any]]) -> Tree:
        """Return the tree after the changes of a journal."""
        tree = cls()
        for what, *arguments in journal:
            _CHANGES[what](tree, *arguments)
        return tree

    def find(self, path: str) -> Entry | None:
        """Return what is seen at the path."""
        found: Entry | None = self.root
        for name in _parts(path):
            found = None if found is None else found.seen.get(name)
        return found

    def walk(self) -> Iterator[Entry]:
        """Yield everything that is seen below the root, folders before what is in them."""
        folders = [self.root]
        for folder in folders:
            for _, entry in sorted(folder.seen.items()):
                yield entry
                if entry.is_folder:
                    folders.append(entry)

    def durable_files(self) -> dict[str, Entry]:
        """Return the files that a power loss leaves, by path; folders end with "/"."""
        found: dict[str, Entry] = {}
        _gather(self.root, "", found)
        return dict(sorted(found.items()))

    def keys(self) -> set[int]:
        """Return the keys of all files that are seen or durable."""
        found, folders = set(), [self.root]
        met = {ROOT_KEY}
        while folders:
            folder = folders.pop()
            for entry in (*folder.seen.values(), *folder.durable.values()):
                if not entry.is_folder:
                    found.add(entry.key)
                elif entry.key not in met:
                    met.add(entry.key)
                    folders.append(entry)
        return found

    # ------------------------------------------------------------ changes

    def create(self, path: str, key: int, is_folder: bool) -> Entry:
        folder, name = self._place(path)
        entry = Entry(key, bool(is_folder), name, folder)
        folder.seen[name] = entry
        self.next_key = max(self.next_key, key + 1)
        return entry

    def rename(self, source: str, target: str) -> None:
        entry = self.remove(source)
        folder, name = self._place(target)
        replaced = folder.seen.get(name)
        if replaced is not None:
            replaced.parent = None
        entry.parent, entry.name = folder, name
        folder.seen[name] = entry

    def remove(self, path: str) -> Entry:
        folder, name = self._place(path)
        entry = folder.seen.pop(name)
        entry.parent = None
        return entry

    def sync_folder(self, path: str) -> None:
        """Put the folder's names on the disk; those of the folders in it are their own matter."""
        folder = self.find(path)
        if folder is not None:
            folder.durable = dict(folder.seen)

    def _place(self, path: str) -> tuple[Entry, str]:
        *above, name = _parts(path)
        folder = self.find("/".join(above))
        if folder is None:
            raise FileNotFoundError(path)
        return folder, name


def _gather(folder: Entry, prefix: str, found: dict[str, Entry]) -> None:
    for name, entry in folder.durable.items():
        if entry.is_folder:
            found[f"{prefix}{name}/"] = entry
            _gather(entry, f"{prefix}{name}/", found)
        else:
            found[f"{prefix}{name}"] = entry


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


_CHANGES: dict[str, Callable[..., object]] = {
    "create": Tree.create,
    "rename": Tree.rename,
    "remove": Tree.remove,
    "sync": Tree.sync_folder,
}
