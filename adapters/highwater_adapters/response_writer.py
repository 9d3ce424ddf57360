"""Writes responses to a transport in order: small pieces joined, records straight from their file.

Ordering: pieces of any kind leave in the order of `send`. Bounds: the transport gets little more
than the client takes, and nothing while the client does not read; a sender checks is_blocked and
waiting_bytes first. A piece's descriptor is closed once: when it is sent, or when the connection
ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import ClassVar

from highwater_core.check import check
from highwater_wire.kafka.codec import Piece
from highwater_wire.kafka.messages import RecordsView

SENDFILE_FROM_BYTES = 32 * 1024
"""Below, a read and a write cost less than sendfile."""
MAX_OPEN_RANGES = 4096
"""Of all connections together, each with a descriptor; records beyond are read at once."""
MAX_SUSPECTS = 1024
_WRITE_BYTES = 256 * 1024
_EMPTY_FILE = os.memfd_create("empty")

_suspects: dict[tuple[int, int, int], None] = {}
"""The latest places (device, inode, position) where a sendfile failed, or would have failed, to
read. The length was announced by then, and the connection had to end. Records over such a place are
read before their length is announced, so that no other connection ends.
"""

_LOGGER = logging.getLogger("highwater.listener")


class FileRange:
    """Bytes [position, position + length) of a file, by a descriptor of its own.

    Invariant: no other bytes are ever sent. Before a truncation changes them the descriptor becomes
    an empty file's, also during a sendfile: this meets the file's end early, and the connection is
    given up. The kernel sends bytes that it has taken already from the page cache. There the page
    of the truncation may still change, which the reader notices by the batch's CRC or its leader
    epoch.
    """

    __slots__ = ("_records", "descriptor", "is_taken_back", "length", "position")

    open_count: ClassVar[int] = 0

    def __init__(self, records: RecordsView, file_range: tuple[int, int, int]) -> None:
        descriptor, self.position, self.length = file_range
        self.descriptor = os.dup(descriptor)
        self.is_taken_back = False
        FileRange.open_count += 1
        self._records = records
        records.borrow(self._take_back)

    def _take_back(self) -> None:
        self.is_taken_back = True
        os.dup2(_EMPTY_FILE, self.descriptor, inheritable=False)

    def __len__(self) -> int:
        return self.length

    def advance(self, count: int) -> None:
        self.position += count
        self.length -= count

    def close(self) -> None:
        self._records.give_back(self._take_back)
        FileRange.open_count -= 1
        os.close(self.descriptor)


OwnedPiece = bytes | bytearray | memoryview | FileRange


def own(pieces: Iterable[Piece]) -> list[OwnedPiece]:
    """Return the pieces in a form that stays valid when the log closes their segment.

    Raises:
        OSError: the disk failed; no descriptor is left open.
    """
    owned: list[OwnedPiece] = []
    try:
        for piece in pieces:
            owned.append(own_piece(piece))
    except OSError:
        release(owned)
        raise
    return owned


def own_piece(piece: Piece | FileRange) -> OwnedPiece:
    """Return the piece in such a form; one that is in it stays as it is.

    Raises:
        OSError: the disk failed.
    """
    if isinstance(piece, bytes | bytearray | memoryview | FileRange):
        return piece
    if len(piece) >= SENDFILE_FROM_BYTES and FileRange.open_count < MAX_OPEN_RANGES:
        file_range = piece.file_range()
        if file_range is not None and not (_suspects and _is_suspect(*file_range)):
            try:
                return FileRange(piece, file_range)
            except OSError:  # there is no free descriptor
                return piece.read()
    return piece.read()


def suspect(descriptor: int, position: int) -> None:
    """Note that the file cannot be read at that place."""
    status = os.fstat(descriptor)
    _suspects[status.st_dev, status.st_ino, position] = None
    if len(_suspects) > MAX_SUSPECTS:
        del _suspects[next(iter(_suspects))]


def _is_suspect(descriptor: int, position: int, length: int) -> bool:
    status = os.fstat(descriptor)
    return any(
        (device, inode) == (status.st_dev, status.st_ino) and 0 <= place - position < length
        for device, inode, place in _suspects
    )


def release(pieces: Iterable[OwnedPiece]) -> None:
    """Close the descriptors of pieces that will not be sent."""
    for piece in pieces:
        if isinstance(piece, FileRange):
            piece.close()


def memory_of(pieces: Iterable[OwnedPiece]) -> int:
    """Return the pieces' bytes in memory; pieces in files have none."""
    return sum([len(piece) for piece in pieces if not isinstance(piece, FileRange)])


class ResponseWriter:
    """Writes one connection's responses. on_progress: called when the client has read on."""

    __slots__ = (
        "_ends",
        "_given_bytes",
        "_is_closed",
        "_is_paused",
        "_loop",
        "_on_progress",
        "_pieces",
        "_queued_bytes",
        "_room",
        "_socket",
        "_transport",
    )

    def __init__(self, transport: asyncio.Transport, on_progress: Callable[[], None]) -> None:
        # it reports at once that the client does not read
        transport.set_write_buffer_limits(high=0)
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        self._on_progress = on_progress
        self._pieces: deque[OwnedPiece] = deque()
        self._queued_bytes = 0  # the pieces' bytes in memory
        self._given_bytes = 0  # to the transport or the socket
        self._is_paused = False
        self._is_closed = False
        self._ends = False
        self._room: int | None = None
        """The descriptor that waits until the client reads, for the rest of a file."""

    @property
    def is_blocked(self) -> bool:
        """Whether sent bytes still wait for the client to read."""
        return self._is_paused or bool(self._pieces)

    @property
    def waiting_bytes(self) -> int:
        """Bytes in memory that wait for the client to read."""
        if not self._is_paused:
            return self._queued_bytes  # the transport's buffer is empty
        return self._queued_bytes + self._transport.get_write_buffer_size()

    @property
    def taken_bytes(self) -> int:
        """Bytes that the socket has taken since the connection began."""
        return self._given_bytes - self._transport.get_write_buffer_size()

    def send(self, pieces: Iterable[OwnedPiece], memory_bytes: int) -> None:
        """Queue pieces, with memory_of them; flush sends them."""
        if self._is_closed:
            release(pieces)
            return
        self._pieces.extend(pieces)
        self._queued_bytes += memory_bytes

    def flush(self) -> None:
        """Give the transport as much as the client takes."""
        pieces = self._pieces
        while pieces and not self._is_paused and self._room is None and not self._is_closed:
            first = pieces[0]
            if isinstance(first, FileRange):
                self._send_file(first)
            else:
                self._write_joined()
            if self._transport.is_closing():
                self.close()  # the reader is gone
        if self._ends and not pieces and not self._is_closed:
            self._transport.close()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        """Go on, in a step of its own.

        asyncio ends a connection twice, with an error, that is closed or fails within
        resume_writing (_SelectorSocketTransport._write_ready of Python 3.11).
        """
        self._is_paused = False
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self._is_closed:
            self.flush()
            self._on_progress()

    def close_when_sent(self) -> None:
        """Close the connection once the client has read all responses."""
        self._ends = True
        self.flush()

    def close(self) -> None:
        """Drop the waiting pieces; the connection is lost."""
        self._is_closed = True
        self._stop_waiting()
        release(self._pieces)
        self._pieces.clear()
        self._queued_bytes = 0

    def _write_joined(self) -> None:
        """Give the transport the next pieces in memory, up to _WRITE_BYTES."""
        pieces = self._pieces
        first = pieces[0]
        if len(pieces) == 1 and isinstance(first, bytes) and len(first) <= _WRITE_BYTES:
            pieces.clear()
            self._queued_bytes -= len(first)
            self._give(first)
            return
        joined: list[bytes | bytearray | memoryview] = []
        room = _WRITE_BYTES
        while pieces and room > 0:
            piece = pieces[0]
            if isinstance(piece, FileRange):
                break
            pieces.popleft()
            if len(piece) > room:
                view = memoryview(piece)
                pieces.appendleft(view[room:])
                piece = view[:room]
            joined.append(piece)
            room -= len(piece)
        self._queued_bytes -= _WRITE_BYTES - room
        self._give(joined[0] if len(joined) == 1 else b"".join(joined))

    def _give(self, data: bytes | bytearray | memoryview) -> None:
        self._given_bytes += len(data)
        self._transport.write(data)

    def _send_file(self, piece: FileRange) -> None:
        """Send the part of the piece that the socket takes, and wait if that is not all.

        The transport's buffer is empty now.
        """
        try:
            sent = os.sendfile(
                self._socket.fileno(), piece.descriptor, piece.position, piece.length
            )
        except BlockingIOError:
            self._wait_for_room()
            return
        except ConnectionError as error:
            self._abort(f"sendfile: {error}")
            return
        except OSError as error:
            self._suspect_what_waits()
            self._abort(f"sendfile: {error}")
            return
        if sent == 0:
            if not piece.is_taken_back:
                self._suspect_what_waits()
            self._abort("the file ends before the records that were to be sent")
            return
        self._given_bytes += sent
        piece.advance(sent)
        if piece.length:
            self._wait_for_room()
        else:
            self._pieces.popleft()
            piece.close()

    def _suspect_what_waits(self) -> None:
        """Suspect the file that failed and, where its disk may be failing, the next ones."""
        for piece in self._pieces:
            if isinstance(piece, FileRange):
                suspect(piece.descriptor, piece.position)

    def _wait_for_room(self) -> None:
        """Call _has_room when the client has read on.

        The transport waits by the socket's own descriptor, so this uses another one.
        """
        if self._room is not None:
            return
        try:
            self._room = os.dup(self._socket.fileno())
        except OSError as error:
            self._abort(f"dup: {error}")
            return
        self._loop.add_writer(self._room, self._has_room)

    def _has_room(self) -> None:
        first = self._pieces[0]
        check(isinstance(first, FileRange), "a file waits for room")
        self._send_file(first)  # type: ignore[arg-type]
        if not self._is_closed and (not self._pieces or self._pieces[0] is not first):
            self._stop_waiting()
            self.flush()
            self._on_progress()

    def _stop_waiting(self) -> None:
        if self._room is not None:
            self._loop.remove_writer(self._room)
            os.close(self._room)
            self._room = None

    def _abort(self, why: str) -> None:
        """Give the connection up: the announced length can no longer be kept."""
        _LOGGER.warning("%s: %s; closed", self._transport.get_extra_info("peername"), why)
        self.close()
        self._transport.abort()
