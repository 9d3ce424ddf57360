"""Cuts a TCP stream of Kafka's frames (a size of 4 bytes, then as many bytes) without copying.

One buffer per connection is received into and used again. Frames are views of it, valid until
`space` is called the next time. A large frame is received to its end and not further, so that no
part of the next one has to be moved.
"""

from __future__ import annotations

import struct

MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's socket.request.max.bytes."""

_SIZE = struct.Struct(">i")
_FIRST_CAPACITY = 64 * 1024
_KEPT_CAPACITY = 2 * 1024 * 1024 + _FIRST_CAPACITY
"""Enough for a follower's fetch of 2 MiB. A larger buffer is given back once it is empty."""
_TRUSTED_CAPACITY = 4 * 1024 * 1024
"""Up to here a frame's space is made when its size is known; a larger one has to arrive first."""


class BadFrame(Exception):
    """The peer announced a frame of a size that cannot be; nothing after it can be read."""


class FrameBuffer:
    """The bytes that were received and not yet taken: [_start, _end) of the buffer."""

    __slots__ = ("_buffer", "_end", "_max_frame_bytes", "_start", "_view")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._start = 0
        self._end = 0
        self._use(bytearray(_FIRST_CAPACITY))

    @property
    def is_empty(self) -> bool:
        return self._start == self._end

    def space(self) -> memoryview:
        """Return where to receive next: room for at least one more byte."""
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._buffer) > _KEPT_CAPACITY:
                self._use(bytearray(_FIRST_CAPACITY))
            return self._view[:_FIRST_CAPACITY]
        frame_bytes = self._frame_bytes()
        wanted = min(frame_bytes, _TRUSTED_CAPACITY)
        if self._end == len(self._buffer):
            wanted = min(frame_bytes, max(wanted, 2 * (self._end - self._start)))
            self._move_to_front(wanted)
        elif self._start + wanted > len(self._buffer):
            self._move_to_front(wanted)
        frame_end = self._start + frame_bytes
        if frame_bytes > _FIRST_CAPACITY and frame_end > self._end:
            return self._view[self._end : frame_end]
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size, or None before it has arrived.

        Raises:
            BadFrame: the announced size is negative or above the limit.
        """
        frame_bytes = self._frame_bytes()
        stop = self._start + frame_bytes
        if stop > self._end:
            return None
        frame = self._view[self._start + _SIZE.size : stop]
        self._start = stop
        return frame

    def _frame_bytes(self) -> int:
        """Return the length of the first frame with its size, as far as it is known."""
        if self._end - self._start < _SIZE.size:
            return _SIZE.size
        size: int = _SIZE.unpack_from(self._buffer, self._start)[0]
        if not 0 <= size <= self._max_frame_bytes:
            raise BadFrame(f"a frame of {size} bytes (at most {self._max_frame_bytes})")
        return _SIZE.size + size

    def _move_to_front(self, capacity: int) -> None:
        """Move what was received to the front, of a larger buffer where this one is too small."""
        received = self._view[self._start : self._end]
        if capacity > len(self._buffer):
            self._use(bytearray(capacity))
        self._view[: len(received)] = received
        self._start, self._end = 0, len(received)

    def _use(self, buffer: bytearray) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)
