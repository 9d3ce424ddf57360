"""Records that clients compressed are read like others, with bounded memory."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest
from crc32c import crc32c

from highwater_checker import compression
from highwater_checker.judging import judge_run
from highwater_checker.segments import UnreadableRecords, read_batches
from highwater_checker.verdict import Outcome
from highwater_wire.kafka.record_batch import build_batch
from tests.support.run_on_disk import SEGMENT, segment, write_run

VALUES = [b"v0", b"v1" * 500, b""]
HEADER_BYTES = 61


def xerial(data: bytes) -> bytes:
    """Compress as snappy-java does: a header, and blocks with their lengths."""
    blocks = [data[at : at + 400] for at in range(0, len(data), 400)]
    packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in packed)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed


CODECS: dict[str, tuple[int, Callable[[bytes], object]]] = {
    "gzip": (1, cramjam.gzip.compress),
    "snappy of Java": (2, xerial),
    "snappy of librdkafka": (2, cramjam.snappy.compress_raw),
    "lz4": (3, cramjam.lz4.compress),
    "zstd": (4, cramjam.zstd.compress),
}


def batch_of(codec: int, records: bytes) -> bytes:
    """Return a batch of VALUES whose records are these bytes; its CRC is right."""
    batch = bytearray(build_batch([(None, value, 1) for value in VALUES], 0, 0)[:HEADER_BYTES])
    batch += records
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def plain_records() -> bytes:
    return bytes(build_batch([(None, value, 1) for value in VALUES], 0, 0)[HEADER_BYTES:])


def read(folder: Path, batch: bytes) -> list[bytes | None]:
    (folder / SEGMENT).write_bytes(batch)
    (found,) = read_batches(folder)
    return [value for _, _, value in found.records()]


@pytest.mark.parametrize("name", CODECS)
def test_batches_that_clients_compress_are_read(tmp_path: Path, name: str) -> None:
    codec, compress = CODECS[name]
    packed = bytes(compress(plain_records()))  # type: ignore[call-overload]
    assert read(tmp_path, batch_of(codec, packed)) == VALUES


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("damage", ["cut", "nothing", "garbage"])
def test_a_batch_that_cannot_be_unpacked_is_reported(
    tmp_path: Path, name: str, damage: str
) -> None:
    codec, compress = CODECS[name]
    packed = bytes(compress(plain_records()))  # type: ignore[call-overload]
    left = {"cut": packed[:-7], "nothing": b"", "garbage": b"\xfe" * 40}[damage]
    with pytest.raises(UnreadableRecords, match="batch at 0: "):
        read(tmp_path, batch_of(codec, left))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_reported(tmp_path: Path, codec: int) -> None:
    with pytest.raises(UnreadableRecords, match=f"no codec has the number {codec}"):
        read(tmp_path, batch_of(codec, plain_records()))


@pytest.mark.parametrize("name", CODECS)
def test_a_batch_that_unpacks_to_more_than_the_bound_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(compression, "UNPACKED_MAX_BYTES", 1_000_000)
    codec, compress = CODECS[name]
    bomb = bytes(compress(bytes(3_000_000)))  # type: ignore[call-overload]
    with pytest.raises(UnreadableRecords, match="bytes unpacked"):
        read(tmp_path, batch_of(codec, bomb))


def test_a_run_with_a_bomb_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "UNPACKED_MAX_BYTES", 1_000_000)
    run = write_run(tmp_path / "run")
    segment(run, 1).write_bytes(batch_of(4, bytes(cramjam.zstd.compress(bytes(3_000_000)))))
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "larger than 1000000 bytes unpacked" in "\n".join(verdict.reasons)
