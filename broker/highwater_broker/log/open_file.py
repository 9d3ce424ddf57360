"""A segment's file while somebody has it open, and the views of it that readers are handed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from highwater_core.ids import Offset
from highwater_core.ports import File


class OpenFile:
    """A file that closes when the last segment, flush or view that holds it lets go.

    A view handed to a listener thus stays readable when retention removes its segment. Who sends
    straight from the file is told before a truncation changes what it was lent.
    """

    __slots__ = ("__weakref__", "_cuts", "_lent", "descriptor", "file")

    def __init__(self, file: File) -> None:
        self.file = file
        self._lent: dict[Callable[[], None], int] = {}
        """Whom to tell, and where what each was lent ends."""
        self._cuts: list[int] = []
        """Where the file was cut, in order."""
        fileno = getattr(file, "fileno", None)
        self.descriptor: int | None = None if fileno is None else fileno()

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes

    def pread(self, position: int, length: int) -> bytes:
        return self.file.pread(position, length)

    @property
    def cut_count(self) -> int:
        """How often the file was cut."""
        return len(self._cuts)

    def lowest_cut_since(self, cut_count: int) -> int | None:
        """Return the lowest position at which it was cut since it had been cut so often."""
        return min(self._cuts[cut_count:], default=None)

    def lend(self, end: int, take_back: Callable[[], None]) -> None:
        self._lent[take_back] = end

    def give_back(self, take_back: Callable[[], None]) -> None:
        self._lent.pop(take_back, None)

    def truncate(self, position: int) -> None:
        """Cut the file, once nobody reads beyond the cut any more: other bytes will follow there.

        Raises:
            OSError: nothing was cut.
        """
        for take_back in [each for each, end in self._lent.items() if end > position]:
            del self._lent[take_back]
            take_back()
        self.file.truncate(position)
        self._cuts.append(position)

    def __del__(self) -> None:
        self.file.close()


class SegmentRecords:
    """A RecordsView of whole batches in one segment; a listener holds it until all is sent.

    Whoever does not read at once borrows: a truncation takes back what it cuts before other
    bytes take its place (KAFKA-18723), and the connection must end. Bytes that were cut since the
    view was made read as zeros, which no reader takes for a batch.
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
        """Return how many of its bytes have not been cut since it was made."""
        cut = self._open_file.lowest_cut_since(self._cut_count)
        return self._length if cut is None else max(0, min(cut - self._position, self._length))

    def place(self) -> tuple[str, int, int]:
        """Return path, position and length, for whoever looks without reading."""
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

    base_offset is below the offset asked for when that lies inside a batch.
    """

    records: SegmentRecords | bytes
    base_offset: Offset
