"""Remains of an append that never ended, distinguished from damaged whole batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_broker.log import unfinished_append
from highwater_broker.log.unfinished_append import is_unfinished_append
from highwater_core.ids import LeaderEpoch
from highwater_wire.kafka.record_batch import build_batch

LENGTH_AT = range(8, 12)


def batch(offset: int, *values: bytes) -> bytes:
    return build_batch([(None, value, 1_000) for value in values], offset, LeaderEpoch(3))


ONE = batch(40, b"a" * 30, b"b")


@pytest.mark.parametrize("size_bytes", range(1, len(ONE)))
def test_any_part_of_one_batch_is_an_append_that_never_ended(size_bytes: int) -> None:
    assert is_unfinished_append(ONE[:size_bytes], 40)


def with_longer_length(data: bytes, bit: int) -> bytes:
    """Return the bytes with a bit set in the first batch's length, which no CRC covers."""
    flipped = int.from_bytes(data[8:12]) ^ 1 << bit
    return data[:8] + flipped.to_bytes(4) + data[12:]


@pytest.mark.parametrize("bit", [10, 16, 30])
@pytest.mark.parametrize("rest_bytes", [0, 1, 7, 8, 9, 30, 60, 61, 70, 400])
def test_a_whole_batch_whose_length_went_bad_is_none(bit: int, rest_bytes: int) -> None:
    rest = b"".join(batch(42 + number, b"later") for number in range(9))
    assert not is_unfinished_append(with_longer_length(ONE, bit) + rest[:rest_bytes], 40)


@given(st.data())
def test_whole_batches_behind_a_bad_one_are_found(data: st.DataObject) -> None:
    """However the first one is damaged, as long as one behind it is whole."""
    bad = bytearray(with_longer_length(ONE, 20))
    for _ in range(data.draw(st.integers(0, 4))):
        bad[data.draw(st.integers(12, len(bad) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    gone_bytes = data.draw(st.integers(0, 40))
    tail = bytes(bad)[: len(bad) - gone_bytes] + batch(42, b"whole")
    assert not is_unfinished_append(tail, 40)


@pytest.mark.parametrize("next_offset", [41, 39, 40 + (1 << 32)])
def test_a_batch_that_does_not_continue_the_log_is_no_unfinished_append(next_offset: int) -> None:
    assert not is_unfinished_append(ONE[:-1], next_offset)
    assert not is_unfinished_append(ONE[:8], next_offset)


def test_a_batch_of_another_magic_is_no_unfinished_append() -> None:
    assert not is_unfinished_append(ONE[:16] + b"\0" + ONE[17:30], 40)


@pytest.mark.parametrize("offset", [(1 << 32) - 3, (1 << 63) - 5])
def test_offsets_at_the_edges_of_their_halves_are_found(offset: int) -> None:
    whole = batch(offset, b"a", b"b") + batch(offset + 2, b"c")
    assert not is_unfinished_append(with_longer_length(whole, 25), offset)
    assert is_unfinished_append(batch(offset, b"a", b"b")[:-1], offset)


def test_records_that_look_like_batches_cost_no_more_than_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values full of headers that claim the rest of the batch: each would cost a CRC of it."""
    monkeypatch.setattr(unfinished_append, "_CHECKED_BYTES_MAX", 2_000)
    false_batch = bytearray(batch(41, b"x" * 700))
    false_batch[80] ^= 1
    torn = batch(40, bytes(false_batch) * 9)[:-1]
    assert not is_unfinished_append(torn, 40)
    monkeypatch.setattr(unfinished_append, "_CHECKED_BYTES_MAX", 20_000)
    assert is_unfinished_append(torn, 40)


def test_a_batch_longer_than_any_append_is_no_unfinished_append(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unfinished_append, "LONGEST_BYTES", len(ONE) - 2)
    assert not is_unfinished_append(ONE[:-1], 40)
    assert is_unfinished_append(ONE[:-2], 40)
