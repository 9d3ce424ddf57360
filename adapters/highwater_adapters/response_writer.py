"""Writes responses to a transport in order: small pieces joined, records straight from their file.

Ordering: pieces leave in the order of `send`, whatever their kind. Bounds: nothing goes to the
transport while the client does not read; who sends asks is_blocked first.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable

from highwater_wire.kafka.codec import Piece
from highwater_wire.kafka.messages import RecordsView

SENDFILE_FROM_BYTES = 32 * 1024
"""Below, a read and a write cost less than sendfile (performance.md section 1)."""
_WRITE_BUFFER_BYTES = 256 * 1024
_EMPTY_FILE = os.memfd_create("empty")

_LOGGER = logging.getLogger("highwater.listener")


class FileRange:
    """Bytes [position, position + length) of a file, by a descriptor of its own.

    Invariant: other bytes than those are never sent. Before a truncation changes them the
    descriptor becomes an empty file's, also under a sendfile that is under way: it then meets the
    file's end early, and the connection is given up. What the kernel has taken already it sends
    from the page cache: there the one page in which the cut lies may still change, which the
    reader sees by the batch's CRC or its leader epoch.
    """

    __slots__ = ("_records", "descriptor", "length", "position")

    def __init__(self, records: RecordsView, file_range: tuple[int, int, int]) -> None:
        descriptor, self.position, self.length = file_range
        self.descriptor = os.dup(descriptor)
        self._records = records
        records.borrow(self._take_back)

    def _take_back(self) -> None:
        os.dup2(_EMPTY_FILE, self.descriptor, inheritable=False)

    def fileno(self) -> int:
        return self.descriptor

    def advance(self, count: int) -> None:
        self.position += count
        self.length -= count

    def close(self) -> None:
        self._records.give_back(self._take_back)
        os.close(self.descriptor)


OwnedPiece = bytes | bytearray | memoryview | FileRange


def own(pieces: Iterable[Piece]) -> list[OwnedPiece]:
    """Return the pieces in a form that outlives the log's closing of the segment they lie in."""
    return [_own(piece) for piece in pieces]


def _own(piece: Piece) -> OwnedPiece:
    if isinstance(piece, bytes | bytearray | memoryview):
        return piece
    file_range = piece.file_range() if len(piece) >= SENDFILE_FROM_BYTES else None
    return piece.read() if file_range is None else FileRange(piece, file_range)


def release(pieces: Iterable[OwnedPiece]) -> None:
    """Close the descriptors of pieces that will not be sent."""
    for piece in pieces:
        if isinstance(piece, FileRange):
            piece.close()


class ResponseWriter:
    """One connection's way out. `on_progress` is called when a pause or a file has ended."""

    def __init__(self, transport: asyncio.Transport, on_progress: Callable[[], None]) -> None:
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        self._on_progress = on_progress
        self._pieces: deque[OwnedPiece] = deque()
        self._is_paused = False
        self._file_task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_sending_file(self) -> bool:
        return self._file_task is not None

    @property
    def is_blocked(self) -> bool:
        """Whether what was given to send still waits for the client to read."""
        return self._is_paused or bool(self._pieces)

    def send(self, pieces: Iterable[OwnedPiece]) -> None:
        """Queue pieces; flush sends them."""
        self._pieces.extend(pieces)

    def flush(self) -> None:
        """Hand over to the transport as much as the client takes."""
        joined: list[bytes | bytearray | memoryview] = []
        while self._pieces and self._file_task is None and not self._is_paused:
            piece = self._pieces[0]
            if not isinstance(piece, FileRange):
                joined.append(piece)
                self._pieces.popleft()
                continue
            if joined:
                self._transport.write(b"".join(joined))
                joined.clear()
            if self._send_now(piece):
                self._pieces.popleft().close()  # type: ignore[union-attr]
            elif not self._is_closed:
                loop = asyncio.get_running_loop()
                self._file_task = loop.create_task(self._send_file(piece))
        if joined:
            self._transport.write(b"".join(joined))

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.flush()
        self._on_progress()

    def close(self) -> None:
        """Drop what waits; the connection is lost."""
        self._is_closed = True
        if self._file_task is not None:
            self._file_task.cancel()
        release(self._pieces)
        self._pieces.clear()

    def _send_now(self, piece: FileRange) -> bool:
        """Send what the socket takes at once; return whether that was all."""
        if self._transport.get_write_buffer_size() > 0:
            return False  # the transport still holds what comes before
        try:
            sent = os.sendfile(
                self._socket.fileno(), piece.descriptor, piece.position, piece.length
            )
        except BlockingIOError:
            return False
        except OSError as error:
            self._abort(f"sendfile: {error}")
            return False
        if sent == 0:
            self._abort("the file ends before the records that were to be sent")
        piece.advance(sent)
        return piece.length == 0

    async def _send_file(self, piece: FileRange) -> None:
        """Send the rest of the piece as the client reads; nothing else is written meanwhile."""
        loop = asyncio.get_running_loop()
        if self._transport.is_closing():
            self._file_task = None
            return  # close() releases the pieces once the connection is lost
        try:
            sent = await loop.sendfile(
                self._transport,
                piece,  # type: ignore[arg-type]
                piece.position,
                piece.length,
                fallback=False,
            )
        except (OSError, asyncio.SendfileNotAvailableError) as error:
            # asyncio makes the latter of any error before the first byte: the reader has gone.
            self._abort(f"sendfile: {error}")
            return
        finally:
            self._file_task = None
        if sent < piece.length:
            self._abort("the file ends before the records that were to be sent")
            return
        self._pieces.popleft().close()  # type: ignore[union-attr]
        self.flush()
        self._on_progress()

    def _abort(self, why: str) -> None:
        """Give the connection up: the announced length can no longer be kept."""
        _LOGGER.warning("%s: %s; closed", self._transport.get_extra_info("peername"), why)
        self._is_closed = True
        self._transport.abort()
