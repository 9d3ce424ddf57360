"""Answers that leave piece by piece: records stay in their file until their reader takes them.

The real listener sends large records by sendfile, as fast as the reader reads: what it sends is
what the file holds by then, not what it held when the handler ran (KAFKA-18723). Here small
records are read when the answer leaves, large ones when it has arrived and its reader runs.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from highwater_chaos.faults import DiskOperation
from highwater_chaos.plan import SENDFILE_FROM_BYTES
from highwater_simulator.disk import Disk
from highwater_simulator.disk_tree import FileNode


@dataclass(frozen=True, slots=True)
class Unread:
    """An answer of which some still lies in files.

    read() returns it whole; OSError where a file does not hold as much any more: the announced
    length cannot be kept, and the connection ends.
    """

    read: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes [position, position + length) of an open file, whatever becomes of its name."""

    disk: Disk
    node: FileNode
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """Return what is there now.

        Raises:
            OSError: EIO, or the file ends before.
        """
        if self.disk.faults is not None:
            self.disk.faults.meet(DiskOperation.READ, "")
        data = self.node.pread(self.position, self.length)
        if len(data) < self.length:
            raise OSError(errno.EIO, "the file ends before the records that were to be sent")
        return data


class Sender:
    """Decides what of an answer stays in its file; without a disk nothing does."""

    def __init__(
        self, disk: Disk | None = None, sends_file_from_bytes: int = SENDFILE_FROM_BYTES
    ) -> None:
        self._disk = disk
        self._sends_file_from_bytes = sends_file_from_bytes

    def own(self, records: Any) -> bytes | FileRange:
        """Return the records in a form that outlives the log's closing of their segment.

        Raises:
            OSError: they cannot be read.
        """
        if type(records) is bytes:
            return records
        if isinstance(records, bytearray | memoryview):
            return bytes(records)
        if self._disk is not None and len(records) >= self._sends_file_from_bytes:
            file_range = records.file_range()
            if file_range is not None:
                descriptor, position, length = file_range
                return FileRange(self._disk, self._disk.opened(descriptor), position, length)
        found: bytes = records.read()
        return found
