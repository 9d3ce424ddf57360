"""Cutting a stream into frames, whichever way its bytes arrive, and the memory that it costs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_adapters import frames as frames_module
from highwater_adapters.frames import SCRATCH_BYTES, BadFrame, FrameBuffer, Scratch

MEBIBYTE = 1024 * 1024


def give(buffer: FrameBuffer, stream: bytes, chunk_bytes: int) -> bytes:
    """Have the buffer receive some of the stream; return the rest of it."""
    space = buffer.space()
    count = min(len(space), chunk_bytes, len(stream))
    assert count > 0
    space[:count] = stream[:count]
    buffer.received(count)
    return stream[count:]


def feed(buffer: FrameBuffer, stream: bytes, chunk_bytes: int) -> list[bytes]:
    taken = []
    while stream:
        stream = give(buffer, stream, chunk_bytes)
        while (frame := buffer.next_frame()) is not None:
            taken.append(bytes(frame))
    return taken


def frames_of(*contents: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(content)) + content for content in contents)


def small_sizes(patch: pytest.MonkeyPatch, scratch_bytes: int) -> None:
    patch.setattr(frames_module, "SCRATCH_BYTES", scratch_bytes)
    patch.setattr(frames_module, "_PARKED_BYTES", scratch_bytes // 2)
    patch.setattr(frames_module, "_KEPT_CAPACITY", 3 * scratch_bytes)


@given(
    st.lists(st.binary(max_size=120), max_size=20),
    st.integers(1, 80),
    st.integers(8, 40),
)
def test_frames_come_out_whole_and_in_order(
    frames: list[bytes], chunk_bytes: int, scratch_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        small_sizes(patch, scratch_bytes)
        buffer = FrameBuffer(max_frame_bytes=120)
        assert feed(buffer, frames_of(*frames), chunk_bytes) == frames
        assert buffer.is_empty


@given(
    st.lists(st.lists(st.binary(max_size=120), max_size=8), min_size=2, max_size=4),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 80), st.integers(0, 9), st.booleans()),
        max_size=60,
    ),
    st.integers(8, 40),
)
def test_connections_that_share_a_scratch_do_not_disturb_each_other(
    contents: list[list[bytes]],
    steps: list[tuple[int, int, int, bool]],
    scratch_bytes: int,
) -> None:
    """Each receives a little, takes some of its frames and leaves the scratch, in any turns."""
    with pytest.MonkeyPatch.context() as patch:
        small_sizes(patch, scratch_bytes)
        scratch = Scratch()
        buffers = [FrameBuffer(120, scratch) for _ in contents]
        rest = [frames_of(*frames) for frames in contents]
        taken: list[list[bytes]] = [[] for _ in contents]
        is_behind = [False] * len(contents)

        def step(who: int, chunk_bytes: int, takes: int, tries_in_vain: bool) -> None:
            buffer = buffers[who]
            if rest[who] and not is_behind[who]:
                if tries_in_vain:
                    buffer.space()  # and nothing came
                else:
                    rest[who] = give(buffer, rest[who], chunk_bytes)
            is_behind[who] = True
            for _ in range(takes):
                frame = buffer.next_frame()
                if frame is None:
                    is_behind[who] = False
                    break
                taken[who].append(bytes(frame))
            buffer.settle()
            if tries_in_vain:
                buffer.give_back()

        for who, chunk_bytes, takes, tries_in_vain in steps:
            step(who % len(contents), chunk_bytes, takes, tries_in_vain)
        for who in range(len(contents)):
            while rest[who] or is_behind[who]:
                step(who, 50, 200, tries_in_vain=False)
        assert taken == contents
        assert all(buffer.is_empty for buffer in buffers)


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_an_impossible_size_is_refused_before_its_bytes_arrive(size: int) -> None:
    with pytest.raises(BadFrame, match=str(size)):
        feed(FrameBuffer(max_frame_bytes=100), struct.pack(">i", size), 4)


def test_a_torn_frame_stays_in_the_buffer() -> None:
    buffer = FrameBuffer()
    assert feed(buffer, struct.pack(">i", 10) + b"half", 100) == []
    assert not buffer.is_empty


# ---------------------------------------------------------------- memory


def test_a_connection_between_two_frames_holds_nothing() -> None:
    buffer = FrameBuffer(scratch=Scratch())
    feed(buffer, frames_of(b"one", bytes(SCRATCH_BYTES - 100)), SCRATCH_BYTES)
    buffer.settle()
    assert buffer.held_bytes == 0


def test_half_a_frame_costs_as_many_bytes_as_arrived() -> None:
    buffer = FrameBuffer(scratch=Scratch())
    for _ in range(3):
        give(buffer, frames_of(bytes(10_000))[:500], 500)
        buffer.settle()
    assert buffer.held_bytes == 1_500


@pytest.mark.parametrize("arrived", [1, 4, 5, 10_000, 70_000, 500_000, 3 * MEBIBYTE])
def test_a_large_frame_costs_at_most_twice_the_bytes_that_arrived(
    arrived: int,
) -> None:
    buffer = FrameBuffer(scratch=Scratch())
    rest = (struct.pack(">i", 90 * MEBIBYTE) + bytes(arrived))[:arrived]
    while rest:
        rest = give(buffer, rest, 1_000_000)
        assert buffer.next_frame() is None
        buffer.settle()
    assert buffer.held_bytes <= max(2 * arrived, 2 * SCRATCH_BYTES)
    assert arrived > 16 * 1024 or buffer.held_bytes == arrived


def test_the_buffer_of_a_large_frame_is_kept_for_the_next_one_until_it_is_given_back() -> None:
    buffer = FrameBuffer(scratch=Scratch())
    feed(buffer, frames_of(bytes(MEBIBYTE)), 100_000)
    buffer.settle()
    assert buffer.held_bytes == MEBIBYTE + 4
    buffer.give_back()
    assert buffer.held_bytes == 0
    assert feed(buffer, frames_of(b"more"), 10) == [b"more"]


def test_half_a_frame_is_not_given_back() -> None:
    buffer = FrameBuffer(scratch=Scratch())
    frame = frames_of(bytes(range(200)) * 1_000)
    assert feed(buffer, frame[:150_000], 50_000) == []
    buffer.settle()
    buffer.give_back()
    assert feed(buffer, frame[150_000:], 50_000) == [frame[4:]]


def test_a_very_large_buffer_is_given_back_at_once() -> None:
    buffer = FrameBuffer(scratch=Scratch())
    feed(buffer, frames_of(bytes(5 * MEBIBYTE)), MEBIBYTE)
    buffer.settle()
    assert buffer.held_bytes == 0


def test_a_large_frame_is_received_to_its_end_and_not_into_the_next_one() -> None:
    buffer = FrameBuffer()
    frame_bytes = 200_000
    stream = struct.pack(">i", frame_bytes) + bytes(frame_bytes) + b"next"
    while len(stream) > 4:
        stream = give(buffer, stream, MEBIBYTE)
    assert len(stream) == 4
    assert len(buffer.next_frame() or b"") == frame_bytes


def test_the_growth_of_a_connection_is_reported_before_it_grows() -> None:
    buffer = FrameBuffer(scratch=Scratch())
    stream = struct.pack(">i", 10 * MEBIBYTE) + bytes(10 * MEBIBYTE)
    stream = give(buffer, stream, MEBIBYTE)
    buffer.settle()
    assert buffer.growth() == 2 * SCRATCH_BYTES
    assert buffer.held_bytes == SCRATCH_BYTES
    buffer.grow(buffer.growth())
    assert buffer.growth() == 0
    assert len(buffer.space()) == SCRATCH_BYTES
