"""Answers that leave piece by piece: records stay in their file until their reader takes them.

The real listener sends large records by sendfile, as fast as the reader reads: it sends the file's
contents of that moment, not of the moment when the handler ran (KAFKA-18723). Here small records
are read when the answer leaves, large ones when it has arrived and its reader runs.
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
from highwater_wire.kafka.messages import RecordsView


@dataclass(frozen=True, slots=True)
class Unread:
    """An answer with records that still lie in files.

    read() returns the whole answer. It raises OSError where a file is shorter by then: the
    announced length is wrong, and the connection ends.
    """

    read: Callable[[], Any]


class FileRange:
    """Bytes [position, position + length) of an open file, even if its name changes.

    The bytes are borrowed: a truncation first ends the loan, as with the real listener.
    note_bad_place: called with the file and the position that cannot be read.
    """

    __slots__ = (
        "_disk",
        "_is_taken_back",
        "_length",
        "_node",
        "_note_bad_place",
        "_position",
        "_records",
    )

    def __init__(
        self,
        disk: Disk,
        records: RecordsView,
        place: tuple[int, int, int],
        note_bad_place: Callable[[FileNode, int], None],
    ) -> None:
        descriptor, self._position, self._length = place
        self._disk, self._node, self._records = disk, disk.opened(descriptor), records
        self._note_bad_place = note_bad_place
        self._is_taken_back = False
        records.borrow(self._take_back)

    def _take_back(self) -> None:
        self._is_taken_back = True

    def __len__(self) -> int:
        return self._length

    def read(self) -> bytes:
        """Return the present bytes; the loan ends.

        Raises:
            OSError: EIO, the file ends before, or it was truncated.
        """
        self._records.give_back(self._take_back)
        try:
            return self._read()
        except OSError:
            if not self._is_taken_back:
                self._note_bad_place(self._node, self._position)
            raise

    def _read(self) -> bytes:
        if self._disk.faults is not None:
            self._disk.faults.meet(DiskOperation.READ, self._disk.path_of(self._node))
        data = b"" if self._is_taken_back else self._node.pread(self._position, self._length)
        if len(data) < self._length:
            raise OSError(errno.EIO, "the file ends before the records that were to be sent")
        return data


class Sender:
    """Decides which records of an answer stay in their file; without a disk none.

    A range with a place that could not be read before is read at once: as in the real listener, it
    is read before its length is announced, so that only its partition gets the error.
    """

    def __init__(
        self, disk: Disk | None = None, sends_file_from_bytes: int = SENDFILE_FROM_BYTES
    ) -> None:
        self._disk = disk
        self._sends_file_from_bytes = sends_file_from_bytes
        self._bad_places: dict[tuple[FileNode, int], None] = {}

    def own(self, records: Any) -> bytes | FileRange:
        """Return the records in a form that outlives the log's closing of their segment.

        Raises:
            OSError: the records cannot be read.
        """
        if isinstance(records, bytes | FileRange):
            return records
        if isinstance(records, bytearray | memoryview):
            return bytes(records)
        if self._disk is not None and len(records) >= self._sends_file_from_bytes:
            file_range = records.file_range()
            if file_range is not None and not self._is_bad(self._disk, *file_range):
                return FileRange(self._disk, records, file_range, self._note_bad_place)
        found: bytes = records.read()
        return found

    def _note_bad_place(self, node: FileNode, position: int) -> None:
        self._bad_places[node, position] = None

    def _is_bad(self, disk: Disk, descriptor: int, position: int, length: int) -> bool:
        return bool(self._bad_places) and any(
            node is disk.opened(descriptor) and 0 <= place - position < length
            for node, place in self._bad_places
        )
