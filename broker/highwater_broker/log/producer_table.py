"""The remembered batches of a log's idempotent producers, in memory and as a snapshot's bytes.

A producer's batches are kept as the rows of Kafka's snapshot file: 46 bytes each, and a snapshot
is their concatenation.
Source: Kafka's ProducerStateManager and ProducerSnapshot.json. Deviation: Kafka writes a producer's
newest batch alone. Here all remembered ones are written, the newest last, so that a restarted
broker recognises a repeat of each. Kafka's own reader takes the last row of a producer.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from highwater_broker.logic.producer_sequences import (
    REMEMBERED_BATCHES,
    Remembered,
    SequencedBatch,
    remember,
    sequence_after,
)
from highwater_wire.kafka.record_batch import BatchHeader

MAX_RECENT = 100_000
"""The least number of remembered producers of one partition; beyond twice as many the idlest are
forgotten. Each takes up to 400 bytes. Kafka has no such bound."""

_HEAD = struct.Struct(">hI")
"""Version and CRC-32C of all that follows."""
_COUNT = struct.Struct(">i")
_ROW = struct.Struct(">qhiqiqiq")
"""Producer id and epoch, last sequence and offset, offset delta, timestamp; of transactions the
coordinator's epoch and the first offset."""
_VERSION = 1
_NO_TRANSACTION = (-1, -1)


class CorruptSnapshot(Exception):
    """The bytes are no whole snapshot."""


class ProducerTable:
    """The newest batches of each producer.

    Producers are in two generations. A producer that appends moves into the recent one. Once the
    recent ones are old, or many, they become the idle ones, and the former idle ones are forgotten.
    """

    def __init__(self) -> None:
        self._recent: dict[int, bytes] = {}
        self._idle: dict[int, bytes] = {}
        self._turned_ms: int | None = None
        """When the recent generation was last empty."""

    def __len__(self) -> int:
        return len(self._recent) + len(self._idle)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._recent or producer_id in self._idle

    def known(self, producer_id: int) -> Remembered:
        """Return a producer's remembered batches, the oldest first."""
        rows = self._recent.get(producer_id) or self._idle.get(producer_id, b"")
        return tuple(map(_batch_of, _ROW.iter_unpack(rows)))

    def note(self, header: BatchHeader) -> None:
        """Note a batch in the log as its producer's newest."""
        producer_id = header.producer_id
        batch = SequencedBatch(
            header.producer_epoch,
            header.base_sequence,
            sequence_after(header.base_sequence, header.last_offset_delta),
            header.last_offset,
            header.newest_timestamp,
        )
        rows = [_row_of(producer_id, each) for each in remember(self.known(producer_id), batch)]
        self._idle.pop(producer_id, None)
        self._recent[producer_id] = b"".join(rows)
        if len(self._recent) >= MAX_RECENT:
            self._turn()

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have not appended for so long, at the latest after twice as long.

        now_ms is wall clock time, not a record's timestamp, which may be any time.
        """
        turned_ms = self._turned_ms
        if turned_ms is None or now_ms < turned_ms:
            self._turned_ms = now_ms
        elif now_ms - turned_ms >= expiration_ms:
            self._turn()
            self._turned_ms = now_ms

    def _turn(self) -> None:
        self._idle, self._recent = self._recent, {}

    def encode(self) -> bytes:
        """Return the snapshot file's content."""
        rows = b"".join((*self._idle.values(), *self._recent.values()))
        entries = _COUNT.pack(len(rows) // _ROW.size) + rows
        return _HEAD.pack(_VERSION, crc32c(entries)) + entries

    @classmethod
    def decode(cls, data: bytes) -> ProducerTable:
        """Return a snapshot's table; all producers in it count as recent.

        Raises:
            CorruptSnapshot: the bytes are no whole snapshot.
        """
        start = _HEAD.size + _COUNT.size
        if len(data) < start:
            raise CorruptSnapshot(f"{len(data)} bytes")
        layout, crc = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
        if layout != _VERSION:
            raise CorruptSnapshot(f"version {layout}, not {_VERSION}")
        if len(data) - start != count * _ROW.size:
            raise CorruptSnapshot(f"{len(data) - start} bytes of {count} producers' batches")
        if crc32c(data[_HEAD.size :]) != crc:
            raise CorruptSnapshot("the CRC-32C does not match")
        table = cls()
        recent = table._recent
        for position in range(start, len(data), _ROW.size):
            row = data[position : position + _ROW.size]
            producer_id = int.from_bytes(row[:8], signed=True)
            earlier = recent.get(producer_id, b"")
            recent[producer_id] = earlier[-(REMEMBERED_BATCHES - 1) * _ROW.size :] + row
        return table


def _row_of(producer_id: int, batch: SequencedBatch) -> bytes:
    return _ROW.pack(
        producer_id,
        batch.producer_epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.last_offset - batch.first_offset,
        batch.timestamp,
        *_NO_TRANSACTION,
    )


def _batch_of(row: tuple[int, ...]) -> SequencedBatch:
    _, producer_epoch, last_sequence, last_offset, offset_delta, timestamp, _, _ = row
    first_sequence = sequence_after(last_sequence, -offset_delta)
    return SequencedBatch(producer_epoch, first_sequence, last_sequence, last_offset, timestamp)
