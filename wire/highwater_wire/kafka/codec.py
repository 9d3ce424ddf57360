"""Kafka's wire protocol: frames to the values of messages.py and back, for servers and clients.

The public module of this package, which alone imports kio. Frames to decode come without their
size; encoded ones start with it. Bad frames raise MalformedRequest and no other error. No I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from highwater_core.check import check
from highwater_core.errors import ErrorCode
from highwater_wire.kafka import codec_admin as admin
from highwater_wire.kafka import codec_committed as committed
from highwater_wire.kafka import codec_configs as configs
from highwater_wire.kafka import codec_groups as groups
from highwater_wire.kafka import codec_log_dirs as log_dirs
from highwater_wire.kafka import codec_offsets as offsets
from highwater_wire.kafka import codec_producers as producers
from highwater_wire.kafka import codec_records as records
from highwater_wire.kafka import codec_topics as topics
from highwater_wire.kafka import fast_records as fast
from highwater_wire.kafka import greeting
from highwater_wire.kafka.bounds import MAX_REQUEST_BYTES, MalformedRequest, skip_tags
from highwater_wire.kafka.entities import (
    NOT_ENCODABLE,
    Piece,
    PieceSink,
    Schema,
    UnencodableResponse,
    frame_size,
    read_entity,
    request_schema,
    response_schema,
)
from highwater_wire.kafka.fast_answers import write_answer
from highwater_wire.kafka.group_messages import JoinGroupRequest
from highwater_wire.kafka.messages import (
    ApiKey,
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    KafkaRequest,
    KafkaResponse,
    ProduceRequest,
    ProduceResponse,
    UnsupportedRequest,
)
from highwater_wire.kafka.text import shortened
from highwater_wire.kafka.versions import (
    REPLICATION_PROFILE,
    REQUEST_KEYS,
    RESPONSE_KEYS,
    VERSION_PROFILE,
    VersionProfile,
    api_key_of,
    replication_version,
)

__all__ = [
    "MAX_RESPONSE_BYTES",
    "REPLICATION_PROFILE",
    "REQUEST_KEYS",
    "RESPONSE_KEYS",
    "VERSION_PROFILE",
    "MalformedRequest",
    "Piece",
    "RequestFrame",
    "UnencodableResponse",
    "VersionProfile",
    "api_key_of",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "encode_unsupported",
    "frame_size",
    "replication_version",
]


@dataclass(frozen=True, slots=True)
class RequestFrame:
    """A request with its header."""

    correlation_id: int
    api_key: int
    api_version: int
    client_id: str | None
    request: KafkaRequest


@dataclass(frozen=True, slots=True)
class _Converters:
    """The four ways between one API's values and its entities."""

    read_request: Callable[[Any, int], Any]
    write_request: Callable[[Any, Any], Any]
    read_response: Callable[[Any, Any], Any]
    write_response: Callable[[Any, Any], Any]


_CONVERTERS: dict[ApiKey, _Converters] = {
    ApiKey.PRODUCE: _Converters(
        records.read_produce_request,
        records.write_produce_request,
        records.read_produce_response,
        records.write_produce_response,
    ),
    ApiKey.FETCH: _Converters(
        records.read_fetch_request,
        records.write_fetch_request,
        records.read_fetch_response,
        records.write_fetch_response,
    ),
    ApiKey.LIST_OFFSETS: _Converters(
        offsets.read_list_offsets_request,
        offsets.write_list_offsets_request,
        offsets.read_list_offsets_response,
        offsets.write_list_offsets_response,
    ),
    ApiKey.METADATA: _Converters(
        topics.read_metadata_request,
        topics.write_metadata_request,
        topics.read_metadata_response,
        topics.write_metadata_response,
    ),
    ApiKey.FIND_COORDINATOR: _Converters(
        topics.read_find_coordinator_request,
        topics.write_find_coordinator_request,
        topics.read_find_coordinator_response,
        topics.write_find_coordinator_response,
    ),
    ApiKey.API_VERSIONS: _Converters(
        topics.read_api_versions_request,
        topics.write_api_versions_request,
        topics.read_api_versions_response,
        topics.write_api_versions_response,
    ),
    ApiKey.CREATE_TOPICS: _Converters(
        topics.read_create_topics_request,
        topics.write_create_topics_request,
        topics.read_create_topics_response,
        topics.write_create_topics_response,
    ),
    ApiKey.DELETE_TOPICS: _Converters(
        topics.read_delete_topics_request,
        topics.write_delete_topics_request,
        topics.read_delete_topics_response,
        topics.write_delete_topics_response,
    ),
    ApiKey.INIT_PRODUCER_ID: _Converters(
        producers.read_init_producer_id_request,
        producers.write_init_producer_id_request,
        producers.read_init_producer_id_response,
        producers.write_init_producer_id_response,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _Converters(
        offsets.read_epoch_request,
        offsets.write_epoch_request,
        offsets.read_epoch_response,
        offsets.write_epoch_response,
    ),
    ApiKey.DESCRIBE_CONFIGS: _Converters(
        configs.read_describe_configs_request,
        configs.write_describe_configs_request,
        configs.read_describe_configs_response,
        configs.write_describe_configs_response,
    ),
    ApiKey.ALTER_CONFIGS: _Converters(
        configs.read_alter_configs_request,
        configs.write_alter_configs_request,
        configs.read_alter_configs_response,
        configs.write_alter_configs_response,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _Converters(
        configs.read_incremental_request,
        configs.write_incremental_request,
        configs.read_incremental_response,
        configs.write_incremental_response,
    ),
    ApiKey.CREATE_PARTITIONS: _Converters(
        admin.read_create_partitions_request,
        admin.write_create_partitions_request,
        admin.read_create_partitions_response,
        admin.write_create_partitions_response,
    ),
    ApiKey.ELECT_LEADERS: _Converters(
        admin.read_elect_leaders_request,
        admin.write_elect_leaders_request,
        admin.read_elect_leaders_response,
        admin.write_elect_leaders_response,
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _Converters(
        admin.read_alter_reassignments_request,
        admin.write_alter_reassignments_request,
        admin.read_alter_reassignments_response,
        admin.write_alter_reassignments_response,
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _Converters(
        admin.read_list_reassignments_request,
        admin.write_list_reassignments_request,
        admin.read_list_reassignments_response,
        admin.write_list_reassignments_response,
    ),
    ApiKey.DESCRIBE_LOG_DIRS: _Converters(
        log_dirs.read_request,
        log_dirs.write_request,
        log_dirs.read_response,
        log_dirs.write_response,
    ),
    ApiKey.JOIN_GROUP: _Converters(
        groups.read_join_request,
        groups.write_join_request,
        groups.read_join_response,
        groups.write_join_response,
    ),
    ApiKey.SYNC_GROUP: _Converters(
        groups.read_sync_request,
        groups.write_sync_request,
        groups.read_sync_response,
        groups.write_sync_response,
    ),
    ApiKey.HEARTBEAT: _Converters(
        groups.read_heartbeat_request,
        groups.write_heartbeat_request,
        groups.read_heartbeat_response,
        groups.write_heartbeat_response,
    ),
    ApiKey.LEAVE_GROUP: _Converters(
        groups.read_leave_request,
        groups.write_leave_request,
        groups.read_leave_response,
        groups.write_leave_response,
    ),
    ApiKey.OFFSET_COMMIT: _Converters(
        committed.read_commit_request,
        committed.write_commit_request,
        committed.read_commit_response,
        committed.write_commit_response,
    ),
    ApiKey.OFFSET_FETCH: _Converters(
        committed.read_offset_fetch_request,
        committed.write_offset_fetch_request,
        committed.read_offset_fetch_response,
        committed.write_offset_fetch_response,
    ),
    ApiKey.OFFSET_DELETE: _Converters(
        committed.read_offset_delete_request,
        committed.write_offset_delete_request,
        committed.read_offset_delete_response,
        committed.write_offset_delete_response,
    ),
    ApiKey.DESCRIBE_GROUPS: _Converters(
        groups.read_describe_groups_request,
        groups.write_describe_groups_request,
        groups.read_describe_groups_response,
        groups.write_describe_groups_response,
    ),
    ApiKey.LIST_GROUPS: _Converters(
        groups.read_list_groups_request,
        groups.write_list_groups_request,
        groups.read_list_groups_response,
        groups.write_list_groups_response,
    ),
    ApiKey.DELETE_GROUPS: _Converters(
        groups.read_delete_groups_request,
        groups.write_delete_groups_request,
        groups.read_delete_groups_response,
        groups.write_delete_groups_response,
    ),
}

_API_KEYS = {int(key): key for key in ApiKey}
MAX_RESPONSE_BYTES = 200 * 1024 * 1024
"""Above any response that the brokers' own bounds allow, as with the largest batch."""
_REQUEST_HEAD = struct.Struct(">hhih")  # API key, version, correlation id, client id's length
_CORRELATION_ID = struct.Struct(">i")
_NO_TAGS = b"\x00"
_RELEASED = memoryview(b"")
_RELEASED.release()


# ---------------------------------------------------------------- the server's side


def decode_request(
    frame: bytes | bytearray | memoryview, *, profile: VersionProfile
) -> RequestFrame:
    """Return the request; its value is UnsupportedRequest if the profile does not serve it.

    A produce's records may be views of the frame: before its buffer is used again, call
    release_records.

    Raises:
        MalformedRequest: the frame is torn, or does not match its header. Close the connection.
    """
    data = memoryview(frame).toreadonly()
    if len(data) < _REQUEST_HEAD.size:
        raise MalformedRequest(f"a request of {len(data)} bytes")
    api_key, api_version, correlation_id, length = _REQUEST_HEAD.unpack_from(data)
    if (api_key, api_version) not in profile.served:
        unsupported = UnsupportedRequest(api_key, api_version)
        return RequestFrame(correlation_id, api_key, api_version, None, unsupported)
    key = _API_KEYS[api_key]
    if len(data) > MAX_REQUEST_BYTES and key is not ApiKey.PRODUCE:
        raise MalformedRequest(f"a {key.name} of {len(data)} bytes (at most {MAX_REQUEST_BYTES})")
    client_id, position = _read_client_id(data, length)
    schema = request_schema(key, api_version)
    if schema.flexible:
        position = skip_tags(data, position)
    request: KafkaRequest | None = None
    if key is ApiKey.PRODUCE:
        request = fast.read_produce_request(data, position)
    elif key is ApiKey.FETCH:
        most = profile.max_fetch_structures
        request = fast.read_fetch_request(data, position, api_version, most)
    elif key is ApiKey.API_VERSIONS and api_version >= greeting.FIRST_VERSION:
        request = greeting.read_greeting(data, position)
    if request is None:
        entity = read_entity(schema, data, position)
        request = _CONVERTERS[key].read_request(entity, api_version)
    if isinstance(request, JoinGroupRequest):
        request = replace(request, client_id=client_id or "")
    return RequestFrame(correlation_id, api_key, api_version, client_id, request)


def release_records(request: KafkaRequest) -> None:
    """End the request's views of its frame, and free records that were copied out of it.

    Reading its records from now on raises an error.
    """
    if isinstance(request, ProduceRequest):
        for item in request.partitions:
            if isinstance(item.records, memoryview):
                item.records.release()
            else:
                object.__setattr__(item, "records", _RELEASED)


def encode_response(response: KafkaResponse, api_version: int, correlation_id: int) -> list[Piece]:
    """Return the whole response as pieces, starting with its size (4 bytes).

    A fetch's records are pieces of their own and not copied; a RecordsView may go by sendfile.
    A produce with acks 0 has no response: the caller must not call this.

    Raises:
        UnencodableResponse: a value does not fit the protocol's field for it, or the whole is too
            large. That connection cannot go on; nothing else is wrong.
    """
    try:
        pieces = _encode_response(response, api_version, correlation_id)
    except NOT_ENCODABLE as error:
        what = f"{type(response).__name__} version {api_version}: {error}"
        raise UnencodableResponse(shortened(what)) from error
    size_bytes = frame_size(pieces)
    if size_bytes > MAX_RESPONSE_BYTES:
        raise UnencodableResponse(f"{type(response).__name__} of {size_bytes} bytes")
    return pieces


def _encode_response(response: KafkaResponse, api_version: int, correlation_id: int) -> list[Piece]:
    key = RESPONSE_KEYS[type(response)]
    schema = response_schema(key, api_version)
    head = _CORRELATION_ID.pack(correlation_id)
    sink = PieceSink(head + _NO_TAGS if _has_header_tags(key, schema) else head)
    if isinstance(response, ProduceResponse):
        fast.write_produce_response(response, api_version, sink)
    elif isinstance(response, FetchResponse) and api_version in fast.FETCH_RESPONSES:
        fast.write_fetch_response(response, api_version, sink)
    elif not write_answer(response, api_version, sink):
        schema.write(sink, _CONVERTERS[key].write_response(response, schema))
    return sink.frame()


def encode_unsupported(frame: RequestFrame, profile: VersionProfile) -> list[Piece] | None:
    """Return the answer to an UnsupportedRequest, or None: then close the connection.

    Only ApiVersions can be answered in any version (KIP-511): as version 0, with
    UNSUPPORTED_VERSION and the offered versions, of which the client takes one.
    """
    check(isinstance(frame.request, UnsupportedRequest), "the request is supported")
    if frame.api_key != ApiKey.API_VERSIONS:
        return None
    response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, profile.api_version_ranges())
    return encode_response(response, 0, frame.correlation_id)


# ---------------------------------------------------------------- the client's side


def encode_request(
    request: KafkaRequest, api_version: int, correlation_id: int, client_id: str | None
) -> list[Piece]:
    """Return the whole request as pieces, starting with its size (4 bytes)."""
    key = api_key_of(request)
    schema = request_schema(key, api_version)
    name = b"" if client_id is None else client_id.encode()
    head = _REQUEST_HEAD.pack(
        key, api_version, correlation_id, -1 if client_id is None else len(name)
    )
    sink = PieceSink(head + name + _NO_TAGS if schema.flexible else head + name)
    if isinstance(request, FetchRequest) and api_version in fast.FETCH_REQUESTS:
        fast.write_fetch_request(request, api_version, sink)
    else:
        schema.write(sink, _CONVERTERS[key].write_request(request, schema))
    return sink.frame()


def decode_response(
    frame: bytes | bytearray | memoryview, request: KafkaRequest, api_version: int
) -> tuple[int, KafkaResponse]:
    """Return (correlation id, response) of the answer to a request that went as api_version.

    Raises:
        MalformedRequest: the frame is torn, or is no response of that API and version.
    """
    key = api_key_of(request)
    data = memoryview(frame).toreadonly()
    if len(data) < _CORRELATION_ID.size:
        raise MalformedRequest(f"a response of {len(data)} bytes")
    (correlation_id,) = _CORRELATION_ID.unpack_from(data)
    position = _CORRELATION_ID.size
    schema = response_schema(key, api_version)
    if _has_header_tags(key, schema):
        position = skip_tags(data, position)
    if isinstance(request, FetchRequest):
        response = fast.read_fetch_response(data, position, api_version, request)
        if response is not None:
            return correlation_id, response
    entity = read_entity(schema, data, position)
    return correlation_id, _CONVERTERS[key].read_response(entity, request)


def _has_header_tags(key: ApiKey, schema: Schema) -> bool:
    """Return whether a response's header has tagged fields: never that of ApiVersions (KIP-511).

    A client that used too high a version must be able to read it.
    """
    return schema.flexible and key is not ApiKey.API_VERSIONS


def _read_client_id(data: memoryview, length: int) -> tuple[str | None, int]:
    position = _REQUEST_HEAD.size
    if length == -1:
        return None, position
    if length < 0 or position + length > len(data):
        raise MalformedRequest(f"a client id of {length} bytes")
    try:
        return str(data[position : position + length], "utf-8"), position + length
    except UnicodeDecodeError as error:
        raise MalformedRequest("the client id is not UTF-8") from error
