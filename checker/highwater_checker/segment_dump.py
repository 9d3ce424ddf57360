"""A log's batches and records with all their fields, for people: up to the first damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from highwater_checker.kafka_python import DefaultRecordBatch
from highwater_checker.run_folder.files import files_in, read_whole, text_of
from highwater_checker.segments import (
    Batch,
    DamagedLog,
    placed_batches,
)

_CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """One record. headers: keys and values in their order. timestamp_ms: since 1970."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    """One record batch as a segment has it.

    Units: offsets in [base_offset, last_offset]; timestamps since 1970.
    segment: the file's name.
    position_bytes: where the batch begins in its segment.
    records: the number that its header gives; a compacted log has fewer than offsets.
    codec: none, gzip, snappy, lz4, zstd, or the number of an unknown one.
    producer_id, producer_epoch, base_sequence: -1 without an idempotent producer.
    """

    segment: str
    position_bytes: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    records: int
    codec: str
    first_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool


@dataclass(frozen=True, slots=True)
class Dumped:
    """A log's batches, in the order of its segments. damage: the first one, "" of a sound log."""

    batches: tuple[tuple[DumpedBatch, Batch], ...]
    damage: str = ""


def dump(path: Path) -> Dumped:
    """Return the batches of a segment's file, or of all segments of a partition's folder.

    A segment that was compacted into the one before it, and whose file a stop left, is left out.

    Raises:
        OSError: it cannot be read.
    """
    segments = files_in(path, ".log") if path.is_dir() else [path]
    contents = ((text_of(segment.name), read_whole(segment)) for segment in segments)
    found: list[tuple[DumpedBatch, Batch]] = []
    try:
        for each in placed_batches(contents):
            found.append((_facts_of(each.segment, each.position_bytes, each.batch), each.batch))
    except DamagedLog as damage:
        return Dumped(tuple(found), str(damage))
    return Dumped(tuple(found))


def records_of(batch: Batch) -> Iterator[DumpedRecord]:
    """Yield the batch's records, ascending by offset.

    Raises:
        UnreadableRecords: see Batch.whole_records.
    """
    for record in batch.whole_records():
        yield DumpedRecord(
            offset=record.offset,
            timestamp_ms=record.timestamp,
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
        )


def _facts_of(segment: str, position_bytes: int, batch: Batch) -> DumpedBatch:
    header = DefaultRecordBatch(batch.data)
    return DumpedBatch(
        segment=segment,
        position_bytes=position_bytes,
        size_bytes=len(batch.data),
        base_offset=batch.base_offset,
        last_offset=batch.next_offset - 1,
        leader_epoch=batch.leader_epoch,
        records=header.records_count,
        codec=_CODECS.get(header.compression_type, str(header.compression_type)),
        first_timestamp_ms=header.first_timestamp,
        max_timestamp_ms=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control_batch,
    )
