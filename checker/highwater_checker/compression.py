"""Decompresses batches, within a bound of memory.

A batch of a few bytes may unpack to gigabytes: one above UNPACKED_MAX_BYTES is not read.
Source: Kafka's record batch, "Record Batch", attributes bits 0 to 2; snappy's blocks as snappy-java
frames them (xerial), or as one block (librdkafka).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import cramjam

UNPACKED_MAX_BYTES = 256 * 1024 * 1024
"""Most bytes of one batch's unpacked records."""

_HEADER_BYTES = 61
_LENGTH_AT = 8
_FROM_LENGTH = 12
"""The batch's length counts from here."""
_ATTRIBUTES_AT = 21
_CODEC = 0b111
_SNAPPY = 2
_FRAMED = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_TOO_SMALL = "failed to write whole buffer"


class CannotUnpack(ValueError):
    """The codec is unknown, or the records are damaged or too large unpacked."""


def codec_of(batch: bytes) -> int:
    """Return the number of the codec of the batch's records; 0: they are not compressed."""
    return _attributes_of(batch) & _CODEC


def _attributes_of(batch: bytes) -> int:
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES_AT)
    return int(attributes)


def unpacked(batch: bytes) -> bytes:
    """Return the batch with its records uncompressed; its CRC is that of the compressed one.

    Raises:
        CannotUnpack: see there.
    """
    attributes = _attributes_of(batch)
    codec = attributes & _CODEC
    if not codec:
        return batch
    records = _unpack(codec, batch[_HEADER_BYTES:])
    header = bytearray(batch[:_HEADER_BYTES])
    struct.pack_into(">h", header, _ATTRIBUTES_AT, attributes & ~_CODEC)
    struct.pack_into(">i", header, _LENGTH_AT, _HEADER_BYTES - _FROM_LENGTH + len(records))
    return bytes(header) + records


def _unpack(codec: int, data: bytes) -> bytes:
    try:
        if codec == _SNAPPY:
            return _unsnap(data)
        if codec in _FRAMED:
            return _unframe(_FRAMED[codec], data)
    except cramjam.DecompressionError as error:
        raise CannotUnpack(f"records cannot be unpacked: {error}") from error
    raise CannotUnpack(f"no codec has the number {codec}")


def _unframe(library: Any, data: bytes) -> bytes:
    """Unpack into a growing buffer: not every frame has its unpacked size."""
    room_bytes = max(64 * 1024, 8 * len(data))
    while True:
        room = bytearray(min(room_bytes, UNPACKED_MAX_BYTES))
        try:
            return bytes(room[: library.decompress_into(data, room)])
        except cramjam.DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise
        if room_bytes >= UNPACKED_MAX_BYTES:
            raise CannotUnpack(f"records are larger than {UNPACKED_MAX_BYTES} bytes unpacked")
        room_bytes *= 4


def _unsnap(data: bytes) -> bytes:
    blocks = list(_xerial_blocks(data)) if data.startswith(_XERIAL) else [data]
    size_bytes = sum(cramjam.snappy.decompress_raw_len(block) for block in blocks)
    if size_bytes > UNPACKED_MAX_BYTES:
        raise CannotUnpack(f"records are {size_bytes} bytes unpacked")
    return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        if at + 4 > len(data):
            raise CannotUnpack("a snappy block's length is cut off")
        (length,) = struct.unpack_from(">i", data, at)
        if not 0 < length <= len(data) - at - 4:
            raise CannotUnpack(f"a snappy block of {length} bytes, of which not all are there")
        yield data[at + 4 : at + 4 + length]
        at += 4 + length
