"""Files and folders in memory: their contents for readers, and the durable part.

A file's bytes become durable by a sync of the file, its name by a sync of its folder. There are no
random draws and no faults here.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class FileNode:
    """A file's bytes.

    Invariant: the durable file is content[:synced_size] followed by lost_tail.
    lost_tail: durable bytes that an unsynced truncation removed.
    """

    content: bytearray = field(default_factory=bytearray)
    synced_size: int = 0
    lost_tail: bytes = b""
    syncs: list[list[int]] = field(default_factory=list)
    """One-element lists: the size that each running sync will make durable."""
    unsyncable_from: int | None = None
    """From here on the bytes of a failed sync are lost; later syncs do not write them either."""
    failure_told_to: int = 0
    """The incarnation that got the sync's error; later incarnations cannot know of it."""

    def pread(self, position: int, length: int) -> bytes:
        with memoryview(self.content) as content:  # one copy, not two
            return bytes(content[position : position + length])

    def truncate(self, size: int) -> None:
        if size < self.synced_size:
            self.lost_tail = bytes(self.content[size : self.synced_size]) + self.lost_tail
            self.synced_size = size
        for covered in self.syncs:
            covered[0] = min(covered[0], size)
        if self.unsyncable_from is not None and size <= self.unsyncable_from:
            self.unsyncable_from = None
        del self.content[size:]

    def mark_synced(self, size: int) -> None:
        if self.unsyncable_from is not None:
            size = min(size, self.unsyncable_from)
        self.synced_size = max(self.synced_size, size)
        self.lost_tail = b""

    def mark_sync_failed(self, size: int, incarnation: int) -> None:
        """Take the bytes of a failed sync as lost for every later sync."""
        if size > self.synced_size and self.unsyncable_from is None:
            self.unsyncable_from = self.synced_size
        self.failure_told_to = incarnation

    def durable(self) -> bytes:
        return bytes(self.content[: self.synced_size]) + self.lost_tail


Assignment = tuple[str, "FileNode | FolderNode | None"]
"""A name and its new file or folder; None: it is removed."""


@dataclass(slots=True, eq=False)
class FolderNode:
    """A folder's entries, and its entries at the last sync.

    Invariant: durable_entries, changed by `changes` in their order, are the entries. Each change
    is one operation, of which a power loss leaves all or nothing.
    """

    entries: dict[str, Node] = field(default_factory=dict)
    durable_entries: dict[str, Node] = field(default_factory=dict)
    changes: list[tuple[Assignment, ...]] = field(default_factory=list)
    settled: int = 0
    """Number of durable changes so far."""

    def assign(self, *change: Assignment) -> None:
        """Change names as one operation."""
        self.changes.append(change)
        _apply(change, self.entries)

    def mark_synced(self, change_count: int) -> None:
        """Make the first change_count changes ever durable."""
        for change in self.changes[: max(0, change_count - self.settled)]:
            _apply(change, self.durable_entries)
            del self.changes[0]
            self.settled += 1

    @property
    def change_count(self) -> int:
        """Number of all changes ever."""
        return self.settled + len(self.changes)

    def files(self) -> dict[str, FileNode]:
        """Return every file below, by path in ascending order."""
        found: dict[str, FileNode] = {}
        stack: list[tuple[str, Node]] = [("", self)]
        while stack:
            path, node = stack.pop()
            if isinstance(node, FileNode):
                found[path] = node
            else:
                prefix = f"{path}/" if path else ""
                stack.extend((f"{prefix}{name}", child) for name, child in node.entries.items())
        return dict(sorted(found.items()))


Node = FileNode | FolderNode


def _apply(change: tuple[Assignment, ...], entries: dict[str, Node]) -> None:
    for name, node in change:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node
