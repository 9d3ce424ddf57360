"""Packs and unpacks the records of a batch, each within a bound of memory.

A batch of a few bytes may unpack to gigabytes: what is larger than UNPACKED_MAX_BYTES is not read.
Source: Kafka protocol guide, "Record Batch", attributes bits 0 to 2. Snappy's blocks come framed as
snappy-java frames them (xerial), or as one block without a frame; both are read, the first is
written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import cramjam

from highwater_core.errors import ErrorCode
from highwater_wire.kafka.record_batch import COMPRESSION_MASK, BadBatch

UNPACKED_MAX_BYTES = 32 * 1024 * 1024
"""Of one batch's records."""

_SNAPPY = 2
_FRAMED = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL + struct.pack(">ii", 1, 1)
_BLOCK_LENGTH = struct.Struct(">i")
_SNAPPY_BLOCK_BYTES = 32 * 1024
_LEAST_ROOM_BYTES = 64 * 1024
_TOO_SMALL = "failed to write whole buffer"


def unpacked(attributes: int, data: bytes) -> bytes:
    """Return the records as they were before their producer compressed them.

    Raises:
        BadBatch: CORRUPT_MESSAGE, or UNSUPPORTED_COMPRESSION_TYPE.
    """
    codec = attributes & COMPRESSION_MASK
    if not codec:
        return data
    try:
        if codec == _SNAPPY:
            return _unsnapped(data)
        if codec in _FRAMED:
            return _unframed(_FRAMED[codec], data)
    except cramjam.DecompressionError as error:
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"records do not unpack: {error}") from error
    raise BadBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no codec has the number {codec}")


def packed(attributes: int, data: bytes) -> bytes:
    """Return the records compressed as the batch's attributes say; the codec is one of Kafka's."""
    codec = attributes & COMPRESSION_MASK
    if not codec:
        return data
    if codec == _SNAPPY:
        return _snapped(data)
    return bytes(_FRAMED[codec].compress(data))


def _unframed(library: Any, data: bytes) -> bytes:
    """Unpack into as much room as it needs: how much that is, not every frame says."""
    room_bytes = max(_LEAST_ROOM_BYTES, 8 * len(data))
    while True:
        room = bytearray(min(room_bytes, UNPACKED_MAX_BYTES))
        try:
            size_bytes = library.decompress_into(data, room)
        except cramjam.DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise
        else:
            return bytes(memoryview(room)[:size_bytes])
        if room_bytes >= UNPACKED_MAX_BYTES:
            raise _too_large()
        room_bytes *= 16


def _too_large() -> BadBatch:
    what = f"records are larger than {UNPACKED_MAX_BYTES} bytes unpacked"
    return BadBatch(ErrorCode.CORRUPT_MESSAGE, what)


def _unsnapped(data: bytes) -> bytes:
    blocks = list(_xerial_blocks(data)) if data.startswith(_XERIAL) else [data]
    if sum(map(cramjam.snappy.decompress_raw_len, blocks)) > UNPACKED_MAX_BYTES:
        raise _too_large()
    return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    at = len(_XERIAL_HEADER)
    while at < len(data):
        begin = at + _BLOCK_LENGTH.size
        length = _BLOCK_LENGTH.unpack_from(data, at)[0] if begin <= len(data) else 0
        if not 0 < length <= len(data) - begin:
            raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"a snappy block of {length} bytes at {at}")
        yield data[begin : begin + length]
        at = begin + length


def _snapped(data: bytes) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _SNAPPY_BLOCK_BYTES]))
        out += _BLOCK_LENGTH.pack(len(block)) + block
    return bytes(out)
