"""Cutting a stream into frames, however its bytes arrive."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_adapters import frames as frames_module
from highwater_adapters.frames import BadFrame, FrameBuffer


def feed(buffer: FrameBuffer, stream: bytes, chunk_bytes: int) -> list[bytes]:
    taken = []
    while stream:
        space = buffer.space()
        count = min(len(space), chunk_bytes, len(stream))
        assert count > 0
        space[:count] = stream[:count]
        stream = stream[count:]
        buffer.received(count)
        while (frame := buffer.next_frame()) is not None:
            taken.append(bytes(frame))
    return taken


@given(
    st.lists(st.binary(max_size=60), max_size=20),
    st.integers(1, 50),
    st.integers(5, 40),
    st.integers(8, 30),
)
def test_frames_come_out_whole_and_in_order(
    frames: list[bytes], chunk_bytes: int, first_capacity: int, trusted_capacity: int
) -> None:
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames_module, "_FIRST_CAPACITY", first_capacity)
        patch.setattr(frames_module, "_KEPT_CAPACITY", 2 * first_capacity)
        patch.setattr(frames_module, "_TRUSTED_CAPACITY", trusted_capacity)
        buffer = FrameBuffer(max_frame_bytes=60)
        assert feed(buffer, stream, chunk_bytes) == frames
        assert buffer.is_empty


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_an_impossible_size_is_refused_before_its_bytes_arrive(size: int) -> None:
    with pytest.raises(BadFrame, match=str(size)):
        feed(FrameBuffer(max_frame_bytes=100), struct.pack(">i", size), 4)


def test_a_torn_frame_stays_in_the_buffer() -> None:
    buffer = FrameBuffer()
    assert feed(buffer, struct.pack(">i", 10) + b"half", 100) == []
    assert not buffer.is_empty


def test_a_size_alone_does_not_make_the_buffer_grow_beyond_what_is_trusted() -> None:
    buffer = FrameBuffer()
    feed(buffer, struct.pack(">i", 90 * 1024 * 1024) + bytes(70_000), 70_000)
    assert len(buffer.space()) <= frames_module._TRUSTED_CAPACITY


def test_a_large_frame_is_received_to_its_end_and_not_into_the_next_one() -> None:
    buffer = FrameBuffer()
    frame_bytes = 200_000
    feed(buffer, struct.pack(">i", frame_bytes) + bytes(1_000), 2_000)
    assert len(buffer.space()) == frame_bytes - 1_000
