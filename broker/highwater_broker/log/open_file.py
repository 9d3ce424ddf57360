"""A segment's open file, and the views of it for readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from highwater_core.ids import Offset
from highwater_core.ports import File


class OpenFile:
    """A file that closes with its last user: the segment, a flush or a view.

    So a listener's view stays readable when retention removes its segment. A sender straight from
    the file is called before a truncation changes the bytes lent to it.
    """

    __slots__ = ("__weakref__", "_cuts", "_lent", "descriptor", "file")

    def __init__(self, file: File) -> None:
        self.file = file
        self._lent: dict[Callable[[], None], int] = {}
        """The borrowers' callbacks, with the end of each loan."""
        self._cuts: list[int] = []
        """The positions of truncations, in order."""
        fileno = getattr(file, "fileno", None)
        self.descriptor: int | None = None if fileno is None else fileno()

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes

    def pread(self, position: int, length: int) -> bytes:
        return self.file.pread(position, length)

    @property
    def cut_count(self) -> int:
        """The number of truncations."""
        return len(self._cuts)

    def lowest_cut_since(self, cut_count: int) -> int | None:
        """Return the lowest position of a truncation after the first so many."""
        return min(self._cuts[cut_count:], default=None)

    def lend(self, end: int, take_back: Callable[[], None]) -> None:
        self._lent[take_back] = end

    def give_back(self, take_back: Callable[[], None]) -> None:
        self._lent.pop(take_back, None)

    def truncate(self, position: int) -> None:
        """Truncate the file, after ending the loans beyond: other bytes will follow there.

        Raises:
            OSError: the file was not truncated.
        """
        for take_back in [each for each, end in self._lent.items() if end > position]:
            del self._lent[take_back]
            take_back()
        self.file.truncate(position)
        self._cuts.append(position)

    def __del__(self) -> None:
        self.file.close()


class SegmentRecords:
    """A RecordsView of whole batches in one segment; a listener keeps it until all is sent.

    A reader that does not read at once borrows it: before a truncation lets other bytes take their
    place (KAFKA-18723) it ends the loan, and the connection must end. Bytes that were removed since
    the view was made read as zeros, which are no batch.
    """

    __slots__ = ("_cut_count", "_length", "_open_file", "_position")

    def __init__(self, open_file: OpenFile, position: int, length: int) -> None:
        self._open_file = open_file
        self._position = position
        self._length = length
        self._cut_count = open_file.cut_count

    def __len__(self) -> int:
        return self._length

    def read(self) -> bytes:
        data = self._open_file.pread(self._position, self._whole_bytes())
        return data if len(data) == self._length else data.ljust(self._length, b"\0")

    def _whole_bytes(self) -> int:
        """Return how many of its bytes have not been removed since it was made."""
        cut = self._open_file.lowest_cut_since(self._cut_count)
        return self._length if cut is None else max(0, min(cut - self._position, self._length))

    def place(self) -> tuple[str, int, int]:
        """Return path, position and length, without reading."""
        return self._open_file.file.path, self._position, self._length

    def file_range(self) -> tuple[int, int, int] | None:
        descriptor = self._open_file.descriptor
        is_whole = self._whole_bytes() == self._length
        return (
            None
            if descriptor is None or not is_whole
            else (descriptor, self._position, self._length)
        )

    def borrow(self, take_back: Callable[[], None]) -> None:
        self._open_file.lend(self._position + self._length, take_back)

    def give_back(self, take_back: Callable[[], None]) -> None:
        self._open_file.give_back(take_back)


class LogRead(NamedTuple):
    """Whole batches, the first of which begins at base_offset; records may be empty.

    base_offset is below the requested offset when that is inside a batch.
    """

    records: SegmentRecords | bytes
    base_offset: Offset
