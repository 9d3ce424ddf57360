"""Steps that tamper with the logs of a sound run's folder."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from crc32c import crc32c

from highwater_checker.looks import Look
from highwater_checker.run_folder.documents import (
    EXCUSED,
    Excused,
)
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, Offset, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_wire.kafka.compacted_batch import empty_batch
from highwater_wire.kafka.record_batch import CRC_START, build_batch
from tests.pipeline.tampering import BROKERS, also_traced, look_with, looked, of_broker_2
from tests.support.batches import CRC_POSITION, RECORDS_START, changed, without_records
from tests.support.run_on_disk import (
    BATCH,
    SEGMENT,
    segment,
    write,
)

LAST_DELTA_AT = 23
"""Where a batch has its last record's offset, less the first one's."""


def losing(start_offset: int | None) -> Callable[[Path], None]:
    """Replicas have another record at its offset; disks lost records from start_offset on."""

    def tamper(folder: Path) -> None:
        for node in BROKERS:
            segment(folder, node).write_bytes(build_batch([(None, b"other", 1_000)], 0, 0))
        if start_offset is not None:
            loss = (Excused("t", 0, start_offset),)
            write(folder / EXCUSED.name, EXCUSED.encode(loss))

    return tamper


def undecodable(folder: Path) -> None:
    """The follower's batch has a right CRC, and no records."""
    batch = build_batch([(None, b"v0", 1_000)], 0, 0)
    segment(folder, 1).write_bytes(without_records(batch))


def beginning_at(base_offset: int, record_delta: int = 0) -> Callable[[Path], None]:
    """Both logs' only batch begins at the offset, its record so much later."""
    batch = bytearray(BATCH)
    struct.pack_into(">q", batch, 0, base_offset)
    batch[RECORDS_START + 3] = 2 * record_delta  # a zigzag varint
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(bytes(batch[CRC_START:])))

    def tamper(folder: Path) -> None:
        for node in BROKERS:
            segment(folder, node).write_bytes(batch)

    return tamper


TWO_AT_ONE_OFFSET = changed(
    build_batch([(None, b"xx", 1_000), (None, b"v0", 1_000)], 0, 0), LAST_DELTA_AT, ">i", 0
)
"""Two records in the offsets of one; brokers do not decode them."""


MORE_OFFSETS = changed(build_batch([(None, b"v0", 1_000)], 0, 0), LAST_DELTA_AT, ">i", 2**31 - 1)
"""One record in 2^31 offsets."""


def holding(batch: bytes) -> Callable[[Path], None]:
    """Both replicas hold the batch."""

    def tamper(folder: Path) -> None:
        for node in BROKERS:
            segment(folder, node).write_bytes(batch)

    return tamper


def left_over(assigned: tuple[int, ...], isr: tuple[int, ...]) -> Callable[[Path], None]:
    """Broker 1's log is empty, as it says; both know of these assigned replicas and this ISR."""
    brokers = {"assigned_replicas": tuple(map(NodeId, assigned)), "isr": tuple(map(NodeId, isr))}
    empty = {"high_watermark": Offset(0), "log_end_offset": Offset(0)}

    def tamper(folder: Path) -> None:
        led, left = look_with(**brokers).nodes[0], look_with(**brokers, **empty).nodes[1]
        looked(folder, Look(99, {0: led, 1: left}))
        segment(folder, 1).write_bytes(b"")

    return tamper


def with_a_segment_within(folder: Path) -> None:
    """Both logs end with a segment that lies within the one before it, as compaction leaves it."""
    for node in BROKERS:
        name = segment(folder, node).with_name("00000000000000000001.log")
        for path in (segment(folder, node), name):
            path.write_bytes(build_batch([(None, b"v0", 1_000), (None, b"v1", 1_000)], 0, 0))
        name.with_name("00000000000000000002.log").write_bytes(b"")


def named(number: int, topic: str = "t") -> Callable[[Path], None]:
    """Both logs' only segment is named by that offset."""

    def tamper(folder: Path) -> None:
        for node in BROKERS:
            path = segment(folder, node).parent.with_name(f"{topic}-0") / SEGMENT
            path.rename(path.with_name(f"{number:020d}.log"))

    return tamper


def with_an_empty_segment(number: int) -> Callable[[Path], None]:
    """Both logs have a second, empty segment, which is named by that offset."""

    def tamper(folder: Path) -> None:
        for node in BROKERS:
            segment(folder, node).with_name(f"{number:020d}.log").write_bytes(b"")

    return tamper


def holding_offsets(*logs: bytes) -> Callable[[Path], None]:
    """Brokers 0 and 1 host a partition of committed offsets, which no plan promises, so."""

    def tamper(folder: Path) -> None:
        looked(folder, look_with_offsets())
        for node, content in enumerate(logs):
            name = f"segments/broker-{node}/{OFFSETS_TOPIC}-0/00000000000000000000.log"
            write(folder / name, content)

    return tamper


def look_with_offsets() -> Look:
    """Return a look at both brokers, which also have two committed records of offsets."""
    at = TopicPartition(OFFSETS_TOPIC, 0)
    two = {"topic_partition": at, "high_watermark": Offset(2), "log_end_offset": Offset(2)}
    nodes = {
        node: replace(each, replicas=(*each.replicas, replace(each.replicas[0], **two)))
        for node, each in BROKERS.items()
    }
    return Look(99, nodes)


def commit_of(offset: int, value: bytes | None) -> bytes:
    return build_batch([(b"g\x80", value, 1_000)], offset, 0)


THIRD = commit_of(2, b"\xc9")


GONE_0, GONE_1 = empty_batch(0, 0, 0), empty_batch(1, 1, 0)
"""The empty batches that compaction leaves at these offsets."""


FIRST, SECOND, OTHER_SECOND, FORGOTTEN = (
    commit_of(0, b"\xc8"), commit_of(1, b"\xc9"), commit_of(1, b"\xca"), commit_of(1, None),
)  # fmt: skip
"""Records of one key, whose bytes are no UTF-8."""


def started_high(excused_from: int) -> Callable[[Path], None]:
    """The follower lacks the only record; disks lost records from that offset on."""

    def tamper(folder: Path) -> None:
        loss = (Excused("t", 0, excused_from),)
        write(folder / EXCUSED.name, EXCUSED.encode(loss))
        segment(folder, 1).write_bytes(b"")
        high = replace(BROKERS[1].replicas[0], log_start_offset=Offset(1))
        looked(folder, Look(99, {0: BROKERS[0], 1: replace(BROKERS[1], replicas=(high,))}))

    return tamper


def moved_as_its_leader_did(folder: Path) -> None:
    """The follower lacks the only record; the leader, from whom it has its log start, has it."""
    moved = of_broker_2(EventKind.LOG_START_MOVED, Offset(1), reason="as the leader's")
    also_traced("broker-2-1", moved)(folder)
    segment(folder, 1).write_bytes(b"")
    high = replace(BROKERS[1].replicas[0], log_start_offset=Offset(1))
    looked(folder, Look(99, {0: BROKERS[0], 1: replace(BROKERS[1], replicas=(high,))}))


def started_above(folder: Path) -> None:
    """Retention let go of the only record, said a broker, whose replicas had not committed it."""
    also_traced("broker-2-1", of_broker_2(EventKind.LOG_START_MOVED, Offset(1)))(folder)
    looked(folder, look_with(log_start_offset=Offset(1), high_watermark=Offset(0)))
