"""Distinguishes the rest of an interrupted append from whole batches that went bad; pure.

A process that dies leaves at most a part of one batch at its log's end. A batch's length is not
covered by its CRC: one flipped bit in it makes a whole batch, and all after it, look like such a
part. So the bytes are searched for whole batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from crc32c import crc32c

from highwater_broker.log.record_batch import LogRefused, check_framing
from highwater_wire.kafka.record_batch import (
    CRC_START,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    parse_header,
)

LONGEST_BYTES = 64 << 20
"""Longer bytes are no part of one batch."""

_OFFSET_BYTES = 8
_MAGIC_AT = 16
_CHECKED_BYTES_MAX = 16 * LONGEST_BYTES
"""Most bytes that are searched for following batches; beyond, such batches are assumed."""


def is_unfinished_append(tail: bytes, next_offset: int) -> bool:
    """Return whether the bytes after the last good batch are only a part of one batch.

    Records that contain batches may look like following batches: the answer is then False, the safe
    one.
    """
    if len(tail) > LONGEST_BYTES:
        return False
    if tail[:_OFFSET_BYTES] != _encoded(next_offset)[: len(tail)]:
        return False
    if len(tail) > _MAGIC_AT and tail[_MAGIC_AT] != MAGIC:
        return False
    if len(tail) < HEADER_BYTES:
        return True
    return not _begins_with_whole_batch(tail) and not _whole_batch_follows(tail, next_offset)


def _begins_with_whole_batch(tail: bytes) -> bool:
    """Return whether the first batch's CRC holds for the bytes up to the next one or to the end."""
    header = parse_header(tail)
    view = memoryview(tail)
    crc, checked = 0, CRC_START
    for end in _possible_ends(tail, header.last_offset + 1):
        crc = crc32c(view[checked:end], crc)
        checked = end
        if crc == header.crc:
            return True
    return False


def _possible_ends(tail: bytes, following_offset: int) -> Iterator[int]:
    """Yield, ascending, positions of the following batch's offset, then the last few positions."""
    following = _encoded(following_offset)
    last_few = max(HEADER_BYTES, len(tail) - _OFFSET_BYTES + 1)
    end = tail.find(following, HEADER_BYTES)
    while 0 <= end < last_few:
        yield end
        end = tail.find(following, end + 1)
    yield from range(last_few, len(tail) + 1)


def _whole_batch_follows(tail: bytes, next_offset: int) -> bool:
    """Return whether the bytes contain a later batch, whole and with the right CRC."""
    upper = next_offset >> 32
    first_halves = b"|".join(re.escape(_encoded(each << 32)[:4]) for each in (upper, upper + 1))
    pattern = rb"(?=(?:%b).{4}[\x00-\x7f].{3}.{4}\x02)" % first_halves
    view = memoryview(tail)
    checked_bytes = 0
    for match in re.compile(pattern, re.DOTALL).finditer(tail, 1):
        start = match.start()
        if start + HEADER_BYTES > len(tail):
            break
        header = parse_header(view, start)
        end = start + header.size_bytes
        if end > len(tail) or header.base_offset <= next_offset or not _is_framed(header):
            continue
        if crc32c(view[start + CRC_START : end]) == header.crc:
            return True
        checked_bytes += header.size_bytes
        if checked_bytes > _CHECKED_BYTES_MAX:
            return True
    return False


def _is_framed(header: BatchHeader) -> bool:
    try:
        check_framing(header)
    except LogRefused:
        return False
    return True


def _encoded(offset: int) -> bytes:
    return (offset & (1 << 64) - 1).to_bytes(_OFFSET_BYTES)
