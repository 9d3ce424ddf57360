"""Random draws with a taste for edges: numbers, names, record batches, damaged bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import TypeVar

from crc32c import crc32c

from highwater_wire.kafka.record_batch import (
    CRC_START,
    HEADER_BYTES,
    _encode_record,
    build_batch,
)

T = TypeVar("T")

INT16_EDGES = (-(2**15), -2, -1, 0, 1, 2, 3, 2**15 - 1)
INT32_EDGES = (-(2**31), -2, -1, 0, 1, 2, 3, 1_000, 2**31 - 2, 2**31 - 1)
INT64_EDGES = (-(2**63), -(2**62), -3, -2, -1, 0, 1, 5, 10, 2**31, 2**62, 2**63 - 1)
NAMES = (
    "orders",
    "nope",
    "",
    ".",
    "..",
    "../evil",
    "a/b",
    "a b",
    "orders\n",
    "%s{}",
    "é",
    "n" * 200,
    "n" * 244,
    "n" * 249,
    "n" * 250,
    "x" * 32_767,
    "\x01" * 9_000,
    "é" * 16_000,
)
"""The last three are the longest that some encodings carry."""

_BATCH_FIELDS = ((0, "q"), (8, "i"), (12, "i"), (16, "b"), (21, "h"), (23, "i"), (27, "q"),
                 (35, "q"), (43, "q"), (51, "h"), (53, "i"), (57, "i"))  # fmt: skip
"""Position and format of each field of a batch's header but its CRC."""
_EDGES = {"b": (-128, -1, 0, 1, 2, 3, 127), "h": INT16_EDGES, "i": INT32_EDGES, "q": INT64_EDGES}


class Draws:
    """Draws that follow from one seed."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)  # noqa: S311 (no secret: the same in every run)

    def below(self, stop: int) -> int:
        return self.random.randrange(stop)

    def between(self, first: int, last: int) -> int:
        return self.random.randint(first, last)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.random.randrange(len(choices))]

    def count(self, usual: int, many: int = 0, percent: int = 2) -> int:
        """Return up to `usual`, now and then up to `many`."""
        if many and self.chance(percent):
            return self.between(usual, many)
        return self.between(0, usual)

    def int16(self) -> int:
        return self.one_of(INT16_EDGES)

    def int32(self) -> int:
        return self.one_of(INT32_EDGES) if self.chance(80) else self.between(0, 2**31 - 1)

    def int64(self) -> int:
        return self.one_of(INT64_EDGES) if self.chance(80) else self.between(0, 2**63 - 1)

    def mostly(self, usual: T, edge: T, percent: int = 75) -> T:
        return usual if self.chance(percent) else edge

    def name(self, usual_percent: int = 60) -> str:
        """Return a topic's name: mostly of one that there is."""
        if self.chance(usual_percent):
            return "orders"
        # Half of the hostile ones are short: long ones make everything slow.
        return self.one_of(NAMES if self.chance(50) else NAMES[:12])

    # ------------------------------------------------------------ record batches

    def batch(self) -> bytes:
        """Return a record batch with a right CRC, mostly with forged fields or garbage inside."""
        value = b"v" * self.one_of((0, 1, 20, 200, 5_000) if self.chance(20) else (0, 1, 20))
        stamps = [self.one_of((-1, 0, 1_000, 1_001, 2**40)) for _ in range(self.between(1, 4))]
        batch = bytearray(build_batch([(None, value, timestamp) for timestamp in stamps]))
        kind = self.below(11)
        if kind < 4:
            self.forge(batch)
        elif kind == 4:
            self.claim_many_records(batch)
        elif kind == 5:
            batch[HEADER_BYTES:] = self.random.randbytes(self.between(0, 200))
            struct.pack_into(">i", batch, 8, len(batch) - 12)
        elif kind in (6, 7):
            self.spread_timestamps(batch)
        return with_right_crc(batch)

    def forge(self, batch: bytearray) -> None:
        """Put edge numbers into some fields of the header."""
        for _ in range(self.between(1, 3)):
            position, form = self.one_of(_BATCH_FIELDS)
            struct.pack_into(f">{form}", batch, position, self.one_of(_EDGES[form]))

    def spread_timestamps(self, batch: bytearray) -> None:
        """Give it records whose timestamps lie far from a base at the end of all numbers."""
        (count,) = struct.unpack_from(">i", batch, 57)
        batch[HEADER_BYTES:] = b"".join(
            _encode_record(at, self.one_of((-1_000, 0, 1_000, 2**40, -(2**63))), None, b"v")
            for at in range(count)
        )
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        base = self.one_of((-(2**63), 2**63 - 1, self.int64()))
        struct.pack_into(">qq", batch, 27, base, self.one_of((2**62, 2**63 - 1, self.int64())))

    def claim_many_records(self, batch: bytearray) -> None:
        """Make it a batch of any number of records that says it is compressed, with junk in it."""
        count = self.one_of((1, 2, 1_000, 2**30, 2**31 - 2, 2**31 - 1))
        batch[HEADER_BYTES:] = b"z" * self.one_of((10, 500))
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">h", batch, 21, self.between(1, 4))
        struct.pack_into(">i", batch, 23, count - 1)
        if self.chance(50):
            struct.pack_into(">qq", batch, 27, self.int64(), self.int64())
        struct.pack_into(">i", batch, 57, count)

    def records(self) -> bytes:
        """Return what a Produce has for one partition."""
        kind = self.below(20)
        if kind == 0:
            return b""
        if kind == 1:
            return self.random.randbytes(self.between(1, 120))
        if kind == 2:
            return self.damaged(self.batch())
        return b"".join(self.batch() for _ in range(self.one_of((1, 1, 1, 1, 2, 3))))

    # ------------------------------------------------------------ damage

    def damaged(self, data: bytes) -> bytes:
        """Return the bytes with a flipped bit, a cut, a doubled or moved range, or edge numbers."""
        if not data:
            return self.random.randbytes(self.between(1, 9))
        content = bytearray(data)
        at = self.below(len(content))
        end = min(len(content), at + self.between(1, 64))
        kind = self.below(7)
        if kind == 0:
            content[at] ^= 1 << self.below(8)
        elif kind == 1:
            del content[at:]
        elif kind == 2:
            del content[at:end]
        elif kind == 3:
            content[at:at] = content[at:end]
        elif kind == 4:
            other = self.below(len(content))
            content[at:end], content[other:other] = b"", content[at:end]
        elif kind == 5:
            form = self.one_of("hiq")
            number = struct.pack(f">{form}", self.one_of(_EDGES[form]))
            content[at : at + len(number)] = number
        else:
            content[at:end] = self.random.randbytes(end - at)
        return bytes(content)


def with_right_crc(batch: bytearray) -> bytes:
    """Return the batch with its CRC made anew."""
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(bytes(batch[CRC_START:])))
    return bytes(batch)
