"""Chains of record batches: two logs' prefixes can be compared in one step.

Each batch's chain value sums up the batch and all before it, so that two logs with one chain
value at an offset hold the same batches below it. Reads batch headers itself, not by node code.
Source: the v2 record batch layout (KIP-98).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import NamedTuple

from crc32c import crc32c

_HEADER = struct.Struct(">qiibIhi")
"""base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
_LENGTH_STARTS = 12
_MAGIC_AT, _MAGIC = 16, 2
_CRC_COVERS_FROM = 21
HEADER_BYTES = 61

EMPTY = 0
"""The chain value without a batch."""


class Batch(NamedTuple):
    """A batch's header; offsets in [base_offset, next_offset), bytes [position, position+size)."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    position: int
    size_bytes: int


def parse_batches(data: bytes | bytearray | memoryview, position: int) -> list[Batch]:
    """Return the whole batches from position on; bytes after the last one are torn."""
    batches: list[Batch] = []
    end = len(data)
    while position + HEADER_BYTES <= end:
        base, length, epoch, _, crc, _, last_delta = _HEADER.unpack_from(data, position)
        size_bytes = _LENGTH_STARTS + length
        if size_bytes < HEADER_BYTES or position + size_bytes > end:
            break
        batches.append(Batch(base, base + last_delta + 1, epoch, crc, position, size_bytes))
        position += size_bytes
    return batches


def is_sound(data: bytes | bytearray | memoryview, batch: Batch) -> bool:
    """Return whether the batch has magic 2, which its CRC does not cover, and the right CRC-32C."""
    end = batch.position + batch.size_bytes
    return (
        data[batch.position + _MAGIC_AT] == _MAGIC
        and crc32c(bytes(data[batch.position + _CRC_COVERS_FROM : end])) == batch.crc
    )


class Chain:
    """Batches in the order of their offsets, each with the chain value up to and with it."""

    __slots__ = ("_bases", "batches", "chains", "seed", "start_offset")

    def __init__(self, start_offset: int = 0, seed: int = EMPTY) -> None:
        self.start_offset = start_offset
        self.seed = seed
        """The chain value of the batches below start_offset."""
        self.batches: list[Batch] = []
        self.chains: list[int] = []
        self._bases: list[int] = []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset

    def append(self, batch: Batch) -> int:
        """Add a batch at the end and return the chain value with it."""
        last = self.chains[-1] if self.chains else self.seed
        chain = hash((last, batch.base_offset, batch.next_offset, batch.leader_epoch, batch.crc))
        self.batches.append(batch)
        self.chains.append(chain)
        self._bases.append(batch.base_offset)
        return chain

    def index_below(self, offset: int) -> int:
        """Return the index of the last batch that begins below offset, -1 when none does."""
        if self._bases and self._bases[-1] < offset:
            return len(self._bases) - 1
        return bisect_left(self._bases, offset) - 1

    def chain_below(self, offset: int) -> int:
        """Return the chain value of all batches that begin below offset."""
        index = self.index_below(offset)
        return self.chains[index] if index >= 0 else self.seed

    def at(self, offset: int) -> Batch | None:
        """Return the batch that holds the offset."""
        index = self.index_below(offset + 1)
        if index < 0 or self.batches[index].next_offset <= offset:
            return None
        return self.batches[index]

    def keep(self, count: int) -> None:
        """Drop all but the first `count` batches."""
        del self.batches[count:], self.chains[count:], self._bases[count:]

    def first_difference(self, other: Chain, end_offset: int) -> int:
        """Return the first offset below end_offset at which the two chains differ."""
        low, high = max(self.start_offset, other.start_offset), end_offset
        while low < high:
            middle = (low + high + 1) // 2
            agrees = (
                self.chain_below(middle) == other.chain_below(middle)
                and min(self.end_offset, other.end_offset) >= middle
            )
            if agrees:
                low = middle
            else:
                high = middle - 1
        return low
