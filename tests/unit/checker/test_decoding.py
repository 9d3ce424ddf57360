"""A run's batches are decoded once, and what is kept of them changes no result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import cramjam
import pytest

from highwater_checker import segments
from highwater_checker.decoding import Decoding, kept_bytes
from highwater_checker.history import Acknowledged
from highwater_checker.invariants.acknowledged_records import check_acknowledged_records
from highwater_checker.segments import Batch, ReplicaLog, UnreadableRecords
from tests.pipeline.record_histories import batch
from tests.unit.checker.test_compression import batch_of, plain_records

T = TypeVar("T")
FIRST, SECOND, OTHER = batch(0, "a", "b"), batch(2, "c"), batch(2, "d")
RECORDS = [(0, None, b"a"), (1, None, b"b"), (2, None, b"c")]
GZIP = 1


def copy_of(of: Batch) -> Batch:
    """Return the batch as another replica's file has it."""
    return Batch(of.base_offset, of.next_offset, of.leader_epoch, bytes(bytearray(of.data)))


def records_of(batches: Sequence[Batch]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [record for each in batches for record in each.records()]


@pytest.fixture(name="unpackings")
def _unpackings(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the list to which each batch's bytes are added when it is decoded."""
    done: list[bytes] = []
    unpack = segments.unpacked

    def count(data: bytes) -> bytes:
        done.append(data)
        return unpack(data)

    monkeypatch.setattr(segments, "unpacked", count)
    return done


def test_equal_batches_of_replicas_are_one_and_decoded_once(unpackings: list[bytes]) -> None:
    decoding = Decoding()
    mine = decoding.decoded([FIRST, SECOND], is_compacted=False)
    theirs = decoding.decoded([copy_of(FIRST), OTHER], is_compacted=False)
    assert mine[0] is theirs[0]
    for _ in range(3):  # as several checks do
        assert records_of(mine) == RECORDS
        assert records_of(theirs) == [*RECORDS[:2], (2, None, b"d")]
    assert unpackings == [FIRST.data, SECOND.data, OTHER.data]


def test_batches_are_equal_with_and_without_their_records() -> None:
    (decoded,) = Decoding().decoded([FIRST], is_compacted=False)
    assert decoded.decoded is not None
    assert decoded == FIRST


@pytest.mark.parametrize("room", [0, kept_bytes(RECORDS[0]), 2 * kept_bytes(RECORDS[0]) + 1])
def test_records_beyond_the_room_are_decoded_each_time(room: int, unpackings: list[bytes]) -> None:
    mine = Decoding(room).decoded([FIRST, SECOND], is_compacted=False)
    assert [each.decoded is not None for each in mine] == [room > kept_bytes(RECORDS[0]), False]
    assert records_of(mine) == RECORDS
    assert unpackings[:2] == [FIRST.data, SECOND.data]
    assert len(unpackings) == 2 + sum(each.decoded is None for each in mine)


def test_another_partitions_batches_are_forgotten() -> None:
    decoding = Decoding()
    (mine,) = decoding.decoded([FIRST], is_compacted=False)
    decoding.begin_partition()
    (other,) = decoding.decoded([FIRST], is_compacted=False)
    assert other is not mine


def test_a_damaged_batch_is_found_behind_ones_that_are_known() -> None:
    torn = batch_of(0, plain_records()[:-2])
    damaged = Batch(0, 3, 0, torn)
    decoding = Decoding()
    for _ in range(2):  # it is not kept
        with pytest.raises(UnreadableRecords):
            decoding.decoded([damaged], is_compacted=False)


def test_each_log_may_unpack_its_own_records_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = Batch(0, 3, 0, batch_of(GZIP, bytes(cramjam.gzip.compress(plain_records()))))
    most = sum(100 + len(value or b"") for _, _, value in packed.records())
    monkeypatch.setattr(segments, "UNPACKED_OF_A_LOG_MAX_BYTES", most)
    decoding = Decoding()
    for _ in range(3):
        assert decoding.decoded([packed], is_compacted=False) == (packed,)
    with pytest.raises(UnreadableRecords, match=f"take over {most} bytes"):
        decoding.decoded([packed, packed], is_compacted=False)


class Counted(Sequence[T]):
    """Counts how often somebody goes through it."""

    def __init__(self, values: Sequence[T]) -> None:
        self._values, self.passes = values, 0

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._values[index]

    def __iter__(self) -> Iterator[T]:
        self.passes += 1
        return iter(self._values)


def test_acknowledgements_are_gone_through_once_for_any_number_of_replicas() -> None:
    logs = [ReplicaLog(broker, "t", at, (FIRST,), 2) for at in range(20) for broker in range(3)]
    acknowledged = Counted([Acknowledged("t", at, 1, "b", 0, 1) for at in range(20)])
    result = check_acknowledged_records(acknowledged, logs)
    assert (result.examined, result.findings) == (60, ())
    assert acknowledged.passes == 1
