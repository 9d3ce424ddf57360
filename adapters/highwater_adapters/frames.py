"""Cuts a TCP stream of Kafka's frames (a size of 4 bytes, then as many bytes) without copying.

Bytes are received into a scratch that several connections may share: a connection between two
frames keeps no memory. The bytes of a partial frame are parked. A large frame gets a buffer of its
own, which doubles as it fills up, regardless of the announced size, and is kept for the next one.
Frames are views, valid until `settle` or `space` is called the next time. A large frame is received
to its end and not further, so that no part of the next one has to be moved.
"""

from __future__ import annotations

import mmap
import struct

from highwater_core.check import check

MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's socket.request.max.bytes."""

_SIZE = struct.Struct(">i")
SCRATCH_BYTES = 64 * 1024
_PARKED_BYTES = 16 * 1024
"""Bytes of a large frame that are parked before it gets a buffer of its own."""
_KEPT_CAPACITY = 2 * 1024 * 1024 + SCRATCH_BYTES
"""Enough for a follower's fetch of 2 MiB. A larger buffer is given back once it is empty."""
_NOTHING = memoryview(b"")


class BadFrame(Exception):
    """The peer announced a frame of an impossible size; the rest of the stream cannot be read."""


class Scratch:
    """The shared memory into which connections receive, one at a time."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view = memoryview(bytearray(SCRATCH_BYTES))


class FrameBuffer:
    """The bytes that were received and not yet taken.

    They are [_start, _end) of _view, which is the scratch or this connection's own buffer; while
    other connections may use the scratch, they are _parked.
    """

    __slots__ = (
        "_end",
        "_max_frame_bytes",
        "_own",
        "_parked",
        "_scratch",
        "_start",
        "_view",
        "_whole_bytes",
    )

    def __init__(
        self, max_frame_bytes: int = MAX_FRAME_BYTES, scratch: Scratch | None = None
    ) -> None:
        """scratch: shared with other connections that settle; without it this one has its own."""
        self._max_frame_bytes = max_frame_bytes
        self._scratch = scratch
        self._own: memoryview | None = None
        self._view = _NOTHING
        self._start = 0
        self._end = 0
        self._parked: bytes | None = b""
        self._whole_bytes = 0  # of the first frame, with its size, once it is known

    @property
    def is_empty(self) -> bool:
        return not self._parked if self._parked is not None else self._start == self._end

    @property
    def held_bytes(self) -> int:
        """The memory that is this connection's alone."""
        return len(self._parked or b"") + (len(self._own) if self._own is not None else 0)

    @property
    def is_kept(self) -> bool:
        """Whether this connection holds any memory of its own."""
        return self._own is not None or self._parked != b""

    # ------------------------------------------------------------ receiving

    def space(self) -> memoryview:
        """Return the memory to receive into next: room for at least one more byte.

        No whole frame may wait to be taken.
        """
        if self._scratch is not None and self._parked == b"":  # between two frames
            self._view, self._start, self._end = self._scratch.view, 0, 0
            return self._view
        self._drop_if_too_large()
        growth = self.growth()
        if growth:
            self.grow(growth)
        self._load()
        if self._start == self._end:
            self._start = self._end = 0
            return self._view[:SCRATCH_BYTES]
        frame_bytes = self._frame_bytes()
        if self._start and self._start + frame_bytes > len(self._view):
            self._move_to_front()
        frame_end = self._start + frame_bytes
        check(self._end < frame_end, "a whole frame waits to be taken")
        if frame_bytes > SCRATCH_BYTES:
            return self._view[self._end : frame_end]
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._parked = None
        self._end += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size, or None before it has arrived.

        Raises:
            BadFrame: the announced size is negative or above the limit.
        """
        return self.take_frame() if self.has_frame() else None

    def has_frame(self) -> bool:
        """Return whether a whole frame waits to be taken.

        Raises:
            BadFrame: the announced size is negative or above the limit.
        """
        received = len(self._parked) if self._parked is not None else self._end - self._start
        if received < _SIZE.size:
            return False
        self._whole_bytes = self._frame_bytes()
        return received >= self._whole_bytes

    @property
    def frame_bytes(self) -> int:
        """The length of the frame that has_frame found last, with its size; 0: none."""
        return self._whole_bytes

    def take_frame(self) -> memoryview:
        """Return the frame that has_frame has just found, without its size."""
        if self._parked is not None:
            self._load()
            self._parked = None
        stop = self._start + self._whole_bytes
        frame = self._view[self._start + _SIZE.size : stop]
        self._start = stop
        return frame

    # ------------------------------------------------------------ memory

    def settle(self) -> None:
        """Leave the scratch to other connections; returned frames are no longer valid."""
        if self._parked is not None:
            return
        if self._own is not None:
            self._drop_if_too_large()
            return
        if self._start == self._end:
            self._parked = b""
        else:
            self._parked = bytes(self._view[self._start : self._end])
            self._start = self._end = 0
        self._view = _NOTHING

    def growth(self) -> int:
        """Return the bytes by which this connection must grow to receive more; 0: it has room."""
        received = len(self._parked) if self._parked is not None else self._end - self._start
        if received < _PARKED_BYTES:
            return 0
        frame_bytes = self._frame_bytes()
        if frame_bytes <= SCRATCH_BYTES:
            return 0
        capacity = len(self._own) if self._own is not None else 0
        if received < capacity:
            return 0
        return min(frame_bytes, max(2 * received, 2 * SCRATCH_BYTES)) - capacity

    def grow(self, growth: int) -> None:
        """Enlarge the connection's own buffer; received bytes move into it.

        Raises:
            OSError: there is no memory.
        """
        self._load()
        capacity = growth + (len(self._own) if self._own is not None else 0)
        # Not from the heap: freed memory goes back to the machine at once.
        fresh = mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        own = memoryview(fresh)
        received = self._end - self._start
        own[:received] = self._view[self._start : self._end]
        self._own = self._view = own
        self._start, self._end = 0, received
        self._parked = None

    def give_back(self) -> None:
        """Drop the connection's own buffer if it is empty."""
        if self._own is not None and self._start == self._end:
            self._own = None
            self._view, self._start, self._end = _NOTHING, 0, 0
            self._parked = b""

    # ------------------------------------------------------------ helpers

    def _drop_if_too_large(self) -> None:
        if self._own is not None and len(self._own) > _KEPT_CAPACITY:
            self.give_back()

    def _frame_bytes(self) -> int:
        """Return the length of the first frame with its size, as far as it is known."""
        if self._parked is None:
            data: bytes | memoryview = self._view
            start, received = self._start, self._end - self._start
        else:
            data, start, received = self._parked, 0, len(self._parked)
        if received < _SIZE.size:
            return _SIZE.size
        size: int = _SIZE.unpack_from(data, start)[0]
        if not 0 <= size <= self._max_frame_bytes:
            raise BadFrame(f"a frame of {size} bytes (at most {self._max_frame_bytes})")
        return _SIZE.size + size

    def _load(self) -> None:
        """Copy the parked bytes back; they stay parked until the next receive or take."""
        if self._parked is None:
            return
        if self._scratch is None:
            self._scratch = Scratch()
        self._view = self._scratch.view
        self._start, self._end = 0, len(self._parked)
        if self._parked:
            self._view[: self._end] = self._parked

    def _move_to_front(self) -> None:
        received = self._end - self._start
        self._view[:received] = self._view[self._start : self._end]
        self._start, self._end = 0, received
