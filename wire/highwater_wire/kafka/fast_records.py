"""Produce and Fetch by struct, for the shapes that brokers handle thousands of times a second.

Each function does the work of kio and codec_records, several times faster; tests compare bytes and
values. A reader returns None for any other shape and for any suspected fault: kio then reads the
frame and finds the fault.
"""

from __future__ import annotations

import struct

from highwater_core.check import check
from highwater_core.ids import LeaderEpoch, NodeId, Offset
from highwater_wire.kafka import fast_fetch as flexible
from highwater_wire.kafka.bounds import MalformedRequest
from highwater_wire.kafka.entities import PieceSink, by_topic, known_error
from highwater_wire.kafka.fast_fetch import check_count
from highwater_wire.kafka.messages import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from highwater_wire.kafka.text import fitting

BY_NAME = 11
FETCH_REQUESTS = (BY_NAME, *flexible.VERSIONS)
"""Fetch requests that are written here: the versions that followers use."""
FETCH_RESPONSES = (*range(4, BY_NAME + 1), *flexible.VERSIONS)
"""Fetch responses that are written here."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def _name(text: str) -> bytes:
    data = fitting(text).encode()
    return _INT16.pack(len(data)) + data


# ---------------------------------------------------------------- Produce

# Null transactional id, acks, timeout in ms, one topic, the length of its name.
_PRODUCE_HEAD = struct.Struct(">hhiih")
# One partition, its number, the length of its records.
_PRODUCE_PARTITION = struct.Struct(">iii")
# Partition, error, base offset, log append time, from 5 on log start, from 8 on two empty fields.
_PRODUCE_RESULT_V3 = struct.Struct(">ihqq")
_PRODUCE_RESULT_V5 = struct.Struct(">ihqqq")
_PRODUCE_RESULT_V8 = struct.Struct(">ihqqqih")


def read_produce_request(data: memoryview, position: int) -> ProduceRequest | None:
    """Return a request of versions 3 to 8 with one partition and no transaction, else None.

    Its records are a view of data, not a copy.
    """
    try:
        null_id, acks, timeout_ms, topics, length = _PRODUCE_HEAD.unpack_from(data, position)
        name_start = position + _PRODUCE_HEAD.size
        name_end = name_start + length
        if null_id != -1 or topics != 1 or length < 0:
            return None
        partitions, partition, size = _PRODUCE_PARTITION.unpack_from(data, name_end)
        start = name_end + _PRODUCE_PARTITION.size
        if partitions != 1 or size < 0 or start + size != len(data):
            return None
        topic = str(data[name_start:name_end], "utf-8")
    except (struct.error, UnicodeDecodeError):
        return None
    return ProduceRequest(acks, timeout_ms, (ProducePartition(topic, partition, data[start:]),))


def write_produce_response(value: ProduceResponse, version: int, sink: PieceSink) -> None:
    """Write a response of versions 3 to 8."""
    groups = by_topic(value.partitions, lambda item: item.topic)
    out = [_INT32.pack(len(groups))]
    for topic, items in groups.items():
        out.append(_name(topic))
        out.append(_INT32.pack(len(items)))
        for item in items:
            if version >= 8:
                row = _PRODUCE_RESULT_V8.pack(
                    item.partition,
                    item.error,
                    item.base_offset,
                    -1,
                    item.log_start_offset,
                    0,
                    -1,
                )
            elif version >= 5:
                row = _PRODUCE_RESULT_V5.pack(
                    item.partition, item.error, item.base_offset, -1, item.log_start_offset
                )
            else:
                row = _PRODUCE_RESULT_V3.pack(item.partition, item.error, item.base_offset, -1)
            out.append(row)
    out.append(_INT32.pack(0))
    sink.write(b"".join(out))


# ---------------------------------------------------------------- Fetch requests

# Replica, max wait in ms, min and max bytes, isolation level, session, its epoch, topics.
_FETCH_HEAD_BY_NAME = struct.Struct(">iiiibiii")
# Partition, current leader epoch, fetch offset, log start offset, max bytes.
_FETCH_PARTITION_BY_NAME = struct.Struct(">iiqqi")
# No forgotten topics, an empty rack.
_FETCH_TAIL_BY_NAME = bytes(6)


def write_fetch_request(value: FetchRequest, version: int, sink: PieceSink) -> None:
    """Write a request of version 11, 12 or 15."""
    if version == BY_NAME:
        _write_fetch_request_by_name(value, sink)
    else:
        flexible.write_request(value, version, sink)


def _write_fetch_request_by_name(value: FetchRequest, sink: PieceSink) -> None:
    groups = by_topic(value.partitions, lambda item: item.topic)
    out = [
        _FETCH_HEAD_BY_NAME.pack(
            value.replica_id,
            value.max_wait_ms,
            value.min_bytes,
            value.max_bytes,
            0,
            0,
            -1,
            len(groups),
        )
    ]
    for topic, items in groups.items():
        out.append(_name(topic))
        out.append(_INT32.pack(len(items)))
        out.extend(
            _FETCH_PARTITION_BY_NAME.pack(
                item.partition,
                item.current_leader_epoch,
                item.fetch_offset,
                item.log_start_offset,
                item.max_bytes,
            )
            for item in items
        )
    out.append(_FETCH_TAIL_BY_NAME)
    sink.write(b"".join(out))


def read_fetch_request(
    data: memoryview, position: int, version: int, most: int
) -> FetchRequest | None:
    """Return a request of version 11, 12 or 15 without session, rack or unknown tags, else None.

    most: topics and partitions.
    """
    try:
        if version == BY_NAME:
            return _read_fetch_request_by_name(data, position, most)
        if version in flexible.VERSIONS:
            return flexible.read_request(data, position, version, most)
    except (struct.error, IndexError, UnicodeDecodeError, MalformedRequest):
        return None
    return None


def _read_fetch_request_by_name(data: memoryview, position: int, most: int) -> FetchRequest | None:
    replica_id, max_wait_ms, min_bytes, max_bytes, _, _, _, topics = (
        _FETCH_HEAD_BY_NAME.unpack_from(data, position)
    )
    position += _FETCH_HEAD_BY_NAME.size
    partitions: list[FetchPartition] = []
    for _ in range(topics):
        topic, count, position = _read_topic(data, position)
        check_count(topics + len(partitions) + count, most)
        for _ in range(count):
            partition, epoch, offset, log_start, limit = _FETCH_PARTITION_BY_NAME.unpack_from(
                data, position
            )
            position += _FETCH_PARTITION_BY_NAME.size
            partitions.append(
                FetchPartition(
                    topic, partition, Offset(offset), limit, LeaderEpoch(epoch), Offset(log_start)
                )
            )
    if topics < 0 or data[position:] != _FETCH_TAIL_BY_NAME:
        return None
    return FetchRequest(NodeId(replica_id), max_wait_ms, min_bytes, max_bytes, tuple(partitions))


def _read_topic(data: memoryview, position: int) -> tuple[str, int, int]:
    """Return a topic's name, the number of its partitions and the first one's position."""
    (length,) = _INT16.unpack_from(data, position)
    end = position + 2 + length
    (count,) = _INT32.unpack_from(data, end)
    if length < 0 or count < 0:
        raise MalformedRequest("a negative length")
    return str(data[position + 2 : end], "utf-8"), count, end + 4


# ---------------------------------------------------------------- Fetch responses

# Throttle time; from 7 on error and session; the number of topics.
_FETCHED_HEAD_V4 = struct.Struct(">ii")
_FETCHED_HEAD_V7 = struct.Struct(">ihii")
# Partition, error, high watermark, last stable offset, from 5 on log start, no aborted
# transactions, from 11 on no preferred replica, the length of the records.
_FETCHED_V4 = struct.Struct(">ihqqii")
_FETCHED_V5 = struct.Struct(">ihqqqii")
_FETCHED_V11 = struct.Struct(">ihqqqiii")


def write_fetch_response(value: FetchResponse, version: int, sink: PieceSink) -> None:
    """Write a response of versions 4 to 12 or of version 15; records are not copied."""
    if version in flexible.VERSIONS:
        flexible.write_response(value, version, sink)
        return
    check(version <= BY_NAME, f"Fetch version {version}")
    groups = by_topic(value.partitions, lambda item: item.topic)
    if version >= 7:
        sink.write(_FETCHED_HEAD_V7.pack(0, value.error, 0, len(groups)))
    else:
        sink.write(_FETCHED_HEAD_V4.pack(0, len(groups)))
    for topic, items in groups.items():
        sink.write(_name(topic) + _INT32.pack(len(items)))
        for item in items:
            sink.write(_fetched_row(item, version))
            sink.write(item.records)


def _fetched_row(item: FetchPartitionResult, version: int) -> bytes:
    watermark = item.high_watermark
    size = len(item.records)
    if version >= 11:
        return _FETCHED_V11.pack(
            item.partition, item.error, watermark, watermark, item.log_start_offset, -1, -1, size
        )
    if version >= 5:
        return _FETCHED_V5.pack(
            item.partition, item.error, watermark, watermark, item.log_start_offset, -1, size
        )
    return _FETCHED_V4.pack(item.partition, item.error, watermark, watermark, -1, size)


def read_fetch_response(
    data: memoryview, position: int, version: int, request: FetchRequest
) -> FetchResponse | None:
    """Return a response of version 11, 12 or 15 without transactions or tags, else None."""
    try:
        if version == BY_NAME:
            return _read_fetch_response_by_name(data, position)
        if version in flexible.VERSIONS:
            return flexible.read_response(data, position, version, request)
    except (struct.error, IndexError, UnicodeDecodeError, MalformedRequest):
        return None
    return None


def _read_fetch_response_by_name(data: memoryview, position: int) -> FetchResponse | None:
    _, error, _, topics = _FETCHED_HEAD_V7.unpack_from(data, position)
    position += _FETCHED_HEAD_V7.size
    results: list[FetchPartitionResult] = []
    for _ in range(topics):
        topic, count, position = _read_topic(data, position)
        for _ in range(count):
            partition, code, watermark, _, log_start, aborted, _, size = _FETCHED_V11.unpack_from(
                data, position
            )
            start = position + _FETCHED_V11.size
            position = start + size
            if aborted not in (-1, 0) or size < 0 or position > len(data):
                return None
            results.append(
                FetchPartitionResult(
                    topic,
                    partition,
                    known_error(code),
                    Offset(watermark),
                    Offset(log_start),
                    bytes(data[start:position]),
                )
            )
    if topics < 0 or position != len(data):
        return None
    return FetchResponse(tuple(results), known_error(error))
