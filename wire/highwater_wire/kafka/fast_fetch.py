"""Fetch by struct, in the versions with the follower's registration.

By topic id it is version 15, with Kafka's own field for it (KIP-903). Topics without ids go by name
as version 12, the last that has names, with the same number in a tagged field of Highwater's own.

A reader returns None for unknown shapes, as in fast_records: kio then reads the frame, and refuses
tagged fields that are not Kafka's. So no replica epoch is ever ignored.
"""

from __future__ import annotations

import struct

from highwater_core.check import check
from highwater_core.ids import (
    NO_BROKER_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicId,
)
from highwater_wire.kafka.bounds import MalformedRequest, read_varint
from highwater_wire.kafka.entities import PieceSink, by_topic, known_error
from highwater_wire.kafka.messages import (
    CONSUMER,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)
from highwater_wire.kafka.versions import (
    FETCH_BY_NAME_WITH_REPLICA_EPOCH_VERSION as BY_NAME,
)
from highwater_wire.kafka.versions import FETCH_WITH_REPLICA_EPOCH_VERSION as BY_ID

VERSIONS = (BY_NAME, BY_ID)

_NO_ID = bytes(16)


def check_count(structures: int, most: int) -> None:
    """Leave requests with too many partitions to the walk before kio, which refuses them."""
    if structures > most:
        raise MalformedRequest("too many partitions")


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _id_bytes(topic_id: TopicId) -> bytes:
    data = bytes.fromhex(topic_id) if topic_id else _NO_ID
    check(len(data) == 16, "a topic id has 32 hex digits")
    return data


def _topic_bytes(topic: str, version: int) -> bytes:
    """Return a topic's id, or in a version with names its name."""
    if version == BY_ID:
        return _id_bytes(TopicId(topic))
    data = topic.encode()
    return _varint(len(data) + 1) + data


def _read_topic(data: memoryview, position: int, version: int) -> tuple[str, TopicId, int]:
    """Return a topic's name and id, of which a version has one, and its end."""
    if version == BY_ID:
        end = position + len(_NO_ID)
        raw = bytes(data[position:end])
        return "", NO_TOPIC_ID if raw == _NO_ID else TopicId(raw.hex()), end
    length, start = read_varint(data, position)
    end = start + length - 1
    if length == 0 or end > len(data):
        raise MalformedRequest("no topic name")
    return str(data[start:end], "utf-8"), NO_TOPIC_ID, end


# ---------------------------------------------------------------- requests

# Max wait in ms, min and max bytes, isolation level, session, its epoch. By name the replica first.
_HEAD = struct.Struct(">iiibii")
_REPLICA = struct.Struct(">i")
# Partition, current leader epoch, fetch offset, last fetched epoch, log start, max bytes, tags.
_PARTITION = struct.Struct(">iiqiqiB")
# No forgotten topics, an empty rack.
_TAIL = b"\x01\x01"
_NO_TAGS = b"\x00"
# Number of tagged fields, tag, length. Then by id the replica's id, epoch and no tags.
_REPLICA_STATE_HEAD = b"\x01\x01\x0d"
_REPLICA_STATE = struct.Struct(">iqB")
REPLICA_EPOCH_TAG = 0x4857
"""The tag of the field in version 12: "HW", far from Kafka's tags, which count from 0."""
_REPLICA_EPOCH_HEAD = b"\x01" + _varint(REPLICA_EPOCH_TAG) + b"\x08"
_REPLICA_EPOCH = struct.Struct(">q")


def write_request(value: FetchRequest, version: int, sink: PieceSink) -> None:
    """Write a request of version 12 or 15."""
    check(version in VERSIONS, f"Fetch version {version}")
    by_id = version == BY_ID
    groups = by_topic(value.partitions, lambda item: item.topic_id if by_id else item.topic)
    out = [
        b"" if by_id else _REPLICA.pack(value.replica_id),
        _HEAD.pack(value.max_wait_ms, value.min_bytes, value.max_bytes, 0, 0, -1),
        _varint(len(groups) + 1),
    ]
    for topic, items in groups.items():
        out.append(_topic_bytes(topic, version))
        out.append(_varint(len(items) + 1))
        out.extend(
            _PARTITION.pack(
                item.partition,
                item.current_leader_epoch,
                item.fetch_offset,
                -1,
                item.log_start_offset,
                item.max_bytes,
                0,
            )
            for item in items
        )
        out.append(_NO_TAGS)
    out.append(_TAIL)
    out.append(_tagged_fields(value, by_id=by_id))
    sink.write(b"".join(out))


def _tagged_fields(value: FetchRequest, *, by_id: bool) -> bytes:
    has_epoch = value.replica_epoch != NO_BROKER_EPOCH
    if by_id and (has_epoch or value.replica_id != CONSUMER):
        return _REPLICA_STATE_HEAD + _REPLICA_STATE.pack(value.replica_id, value.replica_epoch, 0)
    if has_epoch:
        return _REPLICA_EPOCH_HEAD + _REPLICA_EPOCH.pack(value.replica_epoch)
    return _NO_TAGS


def read_request(data: memoryview, position: int, version: int, most: int) -> FetchRequest | None:
    """Return a request of version 12 or 15 without session, rack or unknown tags, else None.

    most: topics and partitions.

    Raises:
        struct.error, IndexError, UnicodeDecodeError, MalformedRequest: kio must read it.
    """
    replica_id = int(CONSUMER)
    if version == BY_NAME:
        (replica_id,) = _REPLICA.unpack_from(data, position)
        position += _REPLICA.size
    max_wait_ms, min_bytes, max_bytes, _, _, _ = _HEAD.unpack_from(data, position)
    topics, position = read_varint(data, position + _HEAD.size)
    partitions: list[FetchPartition] = []
    for _ in range(topics - 1):
        name, topic_id, position = _read_topic(data, position, version)
        count, position = read_varint(data, position)
        check_count(topics + len(partitions) + count, most)
        for _ in range(count - 1):
            partition, epoch, offset, _, log_start, limit, tags = _PARTITION.unpack_from(
                data, position
            )
            position += _PARTITION.size
            if tags:
                return None
            partitions.append(
                FetchPartition(
                    name,
                    partition,
                    Offset(offset),
                    limit,
                    LeaderEpoch(epoch),
                    Offset(log_start),
                    topic_id,
                )
            )
        if count == 0 or data[position]:
            return None
        position += 1
    tail = position + len(_TAIL)
    if topics == 0 or data[position:tail] != _TAIL:
        return None
    replica = _read_replica(data[tail:], version, replica_id)
    if replica is None:
        return None
    return FetchRequest(
        NodeId(replica[0]),
        max_wait_ms,
        min_bytes,
        max_bytes,
        tuple(partitions),
        BrokerEpoch(replica[1]),
    )


def _read_replica(tags: memoryview, version: int, replica_id: int) -> tuple[int, int] | None:
    """Return the replica's id and epoch from a request's tagged fields; None with any others."""
    if version == BY_NAME and tags == _NO_TAGS:
        return replica_id, NO_BROKER_EPOCH
    head, body = (
        (_REPLICA_STATE_HEAD, _REPLICA_STATE)
        if version == BY_ID
        else (_REPLICA_EPOCH_HEAD, _REPLICA_EPOCH)
    )
    if tags[: len(head)] != head or len(tags) != len(head) + body.size:
        return None
    values = body.unpack_from(tags, len(head))
    if version == BY_NAME:
        return replica_id, values[0]
    return None if values[2] else (values[0], values[1])


# ---------------------------------------------------------------- responses

# Throttle time, error, session.
_FETCHED_HEAD = struct.Struct(">ihi")
# Partition, error, high watermark, last stable offset, log start, no aborted transactions, no
# preferred replica.
_FETCHED = struct.Struct(">ihqqqBi")


def write_response(value: FetchResponse, version: int, sink: PieceSink) -> None:
    """Write a response of version 12 or 15; records are not copied."""
    by_id = version == BY_ID
    groups = by_topic(value.partitions, lambda item: item.topic_id if by_id else item.topic)
    sink.write(_FETCHED_HEAD.pack(0, value.error, 0) + _varint(len(groups) + 1))
    for topic, items in groups.items():
        sink.write(_topic_bytes(topic, version) + _varint(len(items) + 1))
        for item in items:
            row = _FETCHED.pack(
                item.partition,
                item.error,
                item.high_watermark,
                item.high_watermark,
                item.log_start_offset,
                0,
                -1,
            )
            sink.write(row + _varint(len(item.records) + 1))
            sink.write(item.records)
            sink.write(_NO_TAGS)
        sink.write(_NO_TAGS)
    sink.write(_NO_TAGS)


def read_response(
    data: memoryview, position: int, version: int, request: FetchRequest
) -> FetchResponse | None:
    """Return a response of version 12 or 15 without transactions or tags, else None.

    Raises:
        struct.error, IndexError, UnicodeDecodeError, MalformedRequest: kio must read it.
    """
    names = {item.topic_id: item.topic for item in request.partitions}
    _, error, _ = _FETCHED_HEAD.unpack_from(data, position)
    topics, position = read_varint(data, position + _FETCHED_HEAD.size)
    results: list[FetchPartitionResult] = []
    for _ in range(topics - 1):
        topic, topic_id, position = _read_topic(data, position, version)
        if topic_id:
            topic = names.get(topic_id, "")
        count, position = read_varint(data, position)
        for _ in range(count - 1):
            partition, code, watermark, _, log_start, aborted, _ = _FETCHED.unpack_from(
                data, position
            )
            size, start = read_varint(data, position + _FETCHED.size)
            position = start + size - 1
            if aborted > 1 or size == 0 or data[position]:
                return None
            results.append(
                FetchPartitionResult(
                    topic,
                    partition,
                    known_error(code),
                    Offset(watermark),
                    Offset(log_start),
                    bytes(data[start:position]),
                    topic_id,
                )
            )
            position += 1
        if count == 0 or data[position]:
            return None
        position += 1
    if topics == 0 or len(data) != position + 1 or data[position]:
        return None
    return FetchResponse(tuple(results), known_error(error))
