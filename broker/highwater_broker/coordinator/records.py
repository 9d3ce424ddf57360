"""The format of records in `__consumer_offsets`: Kafka's own, byte for byte.

A key begins with a version that tells the kind of record: 0 and 1 an offset, 2 a group. A value
begins with a version of its own. A record without a value is a tombstone.
Source: Kafka's OffsetCommitKey and -Value, GroupMetadataKey and -Value, versions 0 to 3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from highwater_broker.coordinator.stored import (
    GroupForgotten,
    GroupRecord,
    GroupStored,
    MemberStored,
    OffsetCommitted,
    OffsetForgotten,
)
from highwater_core.ids import NO_EPOCH, LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import build_batch

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
LAST_VALUE_VERSION = 3
EXPIRING_OFFSET_VERSION = 1
"""The only version with an expiry of its own; it has no leader epoch."""
NO_EXPIRY = -1
"""In that version: the broker's retention decides (KAFKA-8069: it is no time that has passed)."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_HEAD = struct.Struct(">hq")
_NO_TEXT = _INT16.pack(-1)
MAX_TEXT_BYTES = 2**15 - 1


class BadGroupRecord(Exception):
    """Bytes that do not decode as a group's record, or a value too large for the format."""


def encode_batch(records: Sequence[GroupRecord], now_ms: int) -> bytes:
    """Return one batch of the records, at least one; now_ms is wall clock time.

    Raises:
        BadGroupRecord: a text is too long for the format.
    """
    return build_batch([(*encode(record), now_ms) for record in records])


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and value; a tombstone has no value.

    Raises:
        BadGroupRecord: a text is too long, or a number too large, for the format.
    """
    try:
        match record:
            case OffsetCommitted():
                return _offset_key(record), _offset_value(record)
            case OffsetForgotten():
                return _offset_key(record), None
            case GroupStored():
                return _group_key(record), _group_value(record)
            case GroupForgotten():
                return _group_key(record), None
    except (struct.error, UnicodeEncodeError) as error:
        raise BadGroupRecord(f"{type(record).__name__} does not fit: {error}") from error


def decode(key: bytes | None, value: bytes | None) -> GroupRecord:
    """Return the decoded record.

    Raises:
        BadGroupRecord: the bytes are incomplete, or their version is unknown.
    """
    if key is None:
        raise BadGroupRecord("a record without a key")
    try:
        return _decode(key, value)
    except (struct.error, UnicodeDecodeError) as error:
        raise BadGroupRecord(f"a torn record: {error}") from error


def _decode(key: bytes, value: bytes | None) -> GroupRecord:
    (version,) = _INT16.unpack_from(key)
    if version in OFFSET_KEY_VERSIONS:
        return _read_offset(key, value)
    if version == GROUP_KEY_VERSION:
        group_id, position = _text_at(key, _INT16.size)
        _check_end(key, position)
        return GroupForgotten(group_id) if value is None else _read_group(group_id, _Reader(value))
    raise BadGroupRecord(f"a key of version {version}")


# ---------------------------------------------------------------- offsets


def _offset_key(record: OffsetCommitted | OffsetForgotten) -> bytes:
    return b"".join(
        (
            _INT16.pack(OFFSET_KEY_VERSIONS[-1]),
            _text(record.group_id),
            _text(record.topic),
            _INT32.pack(record.partition),
        )
    )


def _offset_value(record: OffsetCommitted) -> bytes:
    expires = record.expire_timestamp_ms
    version = LAST_VALUE_VERSION if expires is None else EXPIRING_OFFSET_VERSION
    parts = [_INT16.pack(version), _INT64.pack(record.offset)]
    if expires is None:
        parts.append(_INT32.pack(record.leader_epoch))
    parts += [_text(record.metadata), _INT64.pack(record.commit_timestamp_ms)]
    if expires is not None:
        parts.append(_INT64.pack(expires))
    return b"".join(parts)


def _read_offset(key: bytes, value: bytes | None) -> OffsetCommitted | OffsetForgotten:
    """Return the decoded offset. This is written for speed: a load decodes very many."""
    group_id, position = _text_at(key, _INT16.size)
    topic, position = _text_at(key, position)
    (partition,) = _INT32.unpack_from(key, position)
    _check_end(key, position + _INT32.size)
    if value is None:
        return OffsetForgotten(group_id, topic, partition)
    version, offset = _OFFSET_HEAD.unpack_from(value)
    _check_value_version(version)
    position, leader_epoch, expires = _OFFSET_HEAD.size, int(NO_EPOCH), NO_EXPIRY
    if version == LAST_VALUE_VERSION:
        (leader_epoch,) = _INT32.unpack_from(value, position)
        position += _INT32.size
    metadata, position = _text_at(value, position)
    (committed_ms,) = _INT64.unpack_from(value, position)
    position += _INT64.size
    if version == EXPIRING_OFFSET_VERSION:
        (expires,) = _INT64.unpack_from(value, position)
        position += _INT64.size
    _check_end(value, position)
    return OffsetCommitted(
        group_id,
        topic,
        partition,
        Offset(offset),
        LeaderEpoch(leader_epoch),
        metadata,
        committed_ms,
        None if expires == NO_EXPIRY else expires,
    )


# ---------------------------------------------------------------- groups


def _group_key(record: GroupStored | GroupForgotten) -> bytes:
    return _INT16.pack(GROUP_KEY_VERSION) + _text(record.group_id)


def _group_value(record: GroupStored) -> bytes:
    parts = [
        _INT16.pack(LAST_VALUE_VERSION),
        _text(record.protocol_type),
        _INT32.pack(record.generation),
        _nullable_text(record.protocol),
        _nullable_text(record.leader),
        _INT64.pack(record.current_state_timestamp_ms),
        _INT32.pack(len(record.members)),
    ]
    for member in record.members:
        parts += [
            _text(member.member_id),
            _nullable_text(member.group_instance_id),
            _text(member.client_id),
            _text(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        ]
    return b"".join(parts)


def _read_group(group_id: str, value: _Reader) -> GroupStored:
    version = value.int16()
    _check_value_version(version)
    protocol_type, generation = value.text(), value.int32()
    protocol, leader = value.nullable_text(), value.nullable_text()
    since_ms = value.int64() if version >= 2 else -1
    # One by one: a false count ends at the end of the bytes, and allocates nothing.
    members = tuple(_read_member(value, version) for _ in range(value.int32()))
    value.end()
    if len({each.member_id for each in members}) < len(members):
        raise BadGroupRecord("two members of one id")
    return GroupStored(group_id, protocol_type, generation, protocol, leader, members, since_ms)


def _read_member(value: _Reader, version: int) -> MemberStored:
    member_id = value.text()
    instance_id = value.nullable_text() if version >= 3 else None
    client_id, client_host = value.text(), value.text()
    rebalance_timeout_ms = value.int32() if version >= 1 else None
    session_timeout_ms = value.int32()
    return MemberStored(
        member_id,
        instance_id,
        client_id,
        client_host,
        # Version 0 has one field for both timeouts.
        session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms,
        value.bytes(),
        value.bytes(),
    )


# ---------------------------------------------------------------- primitives


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) > MAX_TEXT_BYTES:
        raise BadGroupRecord(f"a text of {len(data)} bytes (at most {MAX_TEXT_BYTES})")
    return _INT16.pack(len(data)) + data


def _nullable_text(text: str | None) -> bytes:
    return _NO_TEXT if text is None else _text(text)


def _bytes(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _text_at(data: bytes, position: int) -> tuple[str, int]:
    """Return the text at the position, and the position after it."""
    (length,) = _INT16.unpack_from(data, position)
    start = position + _INT16.size
    end = start + length
    if length < 0 or end > len(data):
        raise BadGroupRecord(f"a text of {length} bytes in {len(data)}")
    return data[start:end].decode(), end


def _check_value_version(version: int) -> None:
    if not 0 <= version <= LAST_VALUE_VERSION:
        raise BadGroupRecord(f"a value of version {version}")


def _check_end(data: bytes, position: int) -> None:
    if position != len(data):
        raise BadGroupRecord(f"{len(data) - position} bytes too many")


class _Reader:
    """Reads a group's value from its start."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def _number(self, form: struct.Struct) -> int:
        (number,) = form.unpack_from(self._data, self._position)
        self._position += form.size
        return int(number)

    def text(self) -> str:
        text, self._position = _text_at(self._data, self._position)
        return text

    def nullable_text(self) -> str | None:
        if self._data[self._position : self._position + _INT16.size] == _NO_TEXT:
            self._position += _INT16.size
            return None
        return self.text()

    def bytes(self) -> bytes:
        length = self.int32()
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise BadGroupRecord(f"{length} bytes in {len(self._data)}")
        data, self._position = self._data[self._position : end], end
        return data

    def end(self) -> None:
        _check_end(self._data, self._position)
