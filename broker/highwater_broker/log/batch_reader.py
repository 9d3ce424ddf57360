"""Reads the headers of the batches in a segment's file, one after another, and checks them."""

from __future__ import annotations

from collections.abc import Iterator

from crc32c import crc32c

from highwater_broker.log.record_batch import LogRefused, TornBatch, check_framing
from highwater_core.errors import ErrorCode
from highwater_core.ports import File
from highwater_wire.kafka.record_batch import CRC_START, HEADER_BYTES, BatchHeader, parse_header

HOP_CHUNK_BYTES = 4096
SCAN_CHUNK_BYTES = 4 << 20


def read_batches(
    file: File,
    position: int,
    end: int,
    *,
    check_crc: bool,
    chunk_bytes: int = HOP_CHUNK_BYTES,
    next_offset: int | None = None,
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch in [position, end).

    next_offset: of the first batch; each other must begin at the end of the one before.

    Raises:
        LogRefused: CORRUPT_MESSAGE or UNSUPPORTED_FOR_MESSAGE_FORMAT at the first bad batch.
    """
    chunk, chunk_start = memoryview(b""), position
    while position < end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_start = memoryview(file.pread(position, chunk_bytes)), position
            at = 0
            if len(chunk) < HEADER_BYTES:
                raise TornBatch(ErrorCode.CORRUPT_MESSAGE, f"header cut short at {position}")
        header = parse_header(chunk, at)
        check_framing(header)
        size_bytes = header.size_bytes
        if position + size_bytes > end:
            raise TornBatch(ErrorCode.CORRUPT_MESSAGE, f"batch cut short at {position}")
        if check_crc:
            if at + size_bytes > len(chunk):
                length = max(chunk_bytes, size_bytes)
                chunk, chunk_start = memoryview(file.pread(position, length)), position
                at = 0
            if crc32c(chunk[at + CRC_START : at + size_bytes]) != header.crc:
                raise LogRefused(ErrorCode.CORRUPT_MESSAGE, f"CRC-32C does not match at {position}")
        if next_offset is not None:
            if header.base_offset != next_offset:
                what = f"offset {header.base_offset} where {next_offset} belongs, at {position}"
                raise LogRefused(ErrorCode.CORRUPT_MESSAGE, what)
            next_offset = header.last_offset + 1
        yield position, header
        position += size_bytes
