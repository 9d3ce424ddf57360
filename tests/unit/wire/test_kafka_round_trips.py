"""Every API in every served version: an encoded value decodes to itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater_wire.kafka import codec, messages
from highwater_wire.kafka.codec import REPLICATION_PROFILE, VERSION_PROFILE
from highwater_wire.kafka.committed_messages import GroupToFetch, OffsetFetchRequest
from highwater_wire.kafka.entities import PieceSink, response_schema
from highwater_wire.kafka.group_messages import JoinGroupRequest
from highwater_wire.kafka.messages import ApiKey
from tests.support.kafka_strategies import int32s, optional_texts
from tests.support.kafka_values import REQUESTS, RESPONSES

FEW = settings(max_examples=10, deadline=None, derandomize=True, database=None)

SERVED = [
    pytest.param(key, version, id=f"{key.name.lower()}-v{version}")
    for key in ApiKey
    for version in REPLICATION_PROFILE.served_versions(key)
]


def joined(pieces: Iterable[Any]) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def as_received(request: Any, version: int, client_id: str | None) -> Any:
    """Return the request as a server decodes it: client_id from the header, topics by id alone."""
    if isinstance(request, JoinGroupRequest):
        return replace(request, client_id=client_id or "")
    if not isinstance(request, messages.FetchRequest) or version < 13:
        return request
    rows = tuple(
        messages.FetchPartition(
            topic="",
            partition=row.partition,
            fetch_offset=row.fetch_offset,
            max_bytes=row.max_bytes,
            current_leader_epoch=row.current_leader_epoch,
            log_start_offset=row.log_start_offset,
            topic_id=row.topic_id,
        )
        for row in request.partitions
    )
    return messages.FetchRequest(
        replica_id=request.replica_id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        partitions=rows,
        replica_epoch=request.replica_epoch,
    )


def asker(response: Any, key: ApiKey, version: int) -> Any:
    """A request that the response could answer; a fetch's names the topics by id."""
    if key is ApiKey.FIND_COORDINATOR:
        return messages.FindCoordinatorRequest(tuple(each.key for each in response.coordinators))
    if key is ApiKey.OFFSET_FETCH:
        return OffsetFetchRequest((GroupToFetch("", None),))
    if key is not ApiKey.FETCH:
        (request_type,) = (kind for kind, api in codec.REQUEST_KEYS.items() if api is key)
        return object.__new__(request_type)
    rows = tuple(
        messages.FetchPartition(row.topic, row.partition, 0, 0, topic_id=row.topic_id)
        for row in response.partitions
    )
    return messages.FetchRequest(messages.CONSUMER, 0, 0, 0, rows)


# ---------------------------------------------------------------- the tests


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_request_survives_the_wire(key: ApiKey, version: int) -> None:
    @FEW
    @given(REQUESTS[key](version), int32s, optional_texts)
    def check_one(request: Any, correlation_id: int, client_id: str | None) -> None:
        sent = joined(codec.encode_request(request, version, correlation_id, client_id))
        assert int.from_bytes(sent[:4], "big") == len(sent) - 4
        frame = codec.decode_request(memoryview(sent)[4:], profile=REPLICATION_PROFILE)
        assert frame.request == as_received(request, version, client_id)
        assert (frame.api_key, frame.api_version) == (key, version)
        assert (frame.correlation_id, frame.client_id) == (correlation_id, client_id)

    check_one()


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_response_survives_the_wire(key: ApiKey, version: int) -> None:
    @FEW
    @given(RESPONSES[key](version), int32s)
    def check_one(response: Any, correlation_id: int) -> None:
        sent = joined(codec.encode_response(response, version, correlation_id))
        assert int.from_bytes(sent[:4], "big") == len(sent) - 4
        request = asker(response, key, version)
        assert codec.decode_response(sent[4:], request, version) == (correlation_id, response)

    check_one()


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_torn_or_lengthened_request_is_malformed(key: ApiKey, version: int) -> None:
    @settings(FEW, max_examples=3)
    @given(REQUESTS[key](version))
    def check_one(request: Any) -> None:
        frame = joined(codec.encode_request(request, version, 1, "client"))[4:]
        cuts = {*range(min(len(frame), 200)), *range(max(0, len(frame) - 50), len(frame))}
        for end in sorted(cuts):
            with pytest.raises(codec.MalformedRequest):
                codec.decode_request(frame[:end], profile=REPLICATION_PROFILE)
        with pytest.raises(codec.MalformedRequest):
            codec.decode_request(frame + b"\x00", profile=REPLICATION_PROFILE)

    check_one()


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_torn_or_lengthened_response_is_malformed(key: ApiKey, version: int) -> None:
    @settings(FEW, max_examples=3)
    @given(RESPONSES[key](version))
    def check_one(response: Any) -> None:
        frame = joined(codec.encode_response(response, version, 1))[4:]
        request = asker(response, key, version)
        cuts = {*range(min(len(frame), 200)), *range(max(0, len(frame) - 50), len(frame))}
        for end in sorted(cuts):
            with pytest.raises(codec.MalformedRequest):
                codec.decode_response(frame[:end], request, version)
        with pytest.raises(codec.MalformedRequest):
            codec.decode_response(frame + b"\x00", request, version)

    check_one()


patches = st.lists(
    st.tuples(st.integers(0, 300), st.sampled_from([b"\x00", b"\xff", b"\x7f", b"\x80", b"\x02"])),
    min_size=1,
    max_size=6,
)


def patched(frame: bytes, changes: list[tuple[int, bytes]], start: int) -> bytes:
    data = bytearray(frame)
    for position, byte in changes:
        if start + position < len(data):
            data[start + position : start + position + 1] = byte
    return bytes(data)


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_damaged_request_is_malformed_or_another_request(key: ApiKey, version: int) -> None:
    @settings(FEW, max_examples=15)
    @given(REQUESTS[key](version), patches)
    def check_one(request: Any, changes: list[tuple[int, bytes]]) -> None:
        frame = joined(codec.encode_request(request, version, 1, "client"))[4:]
        try:
            result = codec.decode_request(patched(frame, changes, 4), profile=REPLICATION_PROFILE)
        except codec.MalformedRequest:
            return
        assert type(result.request) is type(request)

    check_one()


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_damaged_response_is_malformed_or_another_response(key: ApiKey, version: int) -> None:
    @settings(FEW, max_examples=15)
    @given(RESPONSES[key](version), patches)
    def check_one(response: Any, changes: list[tuple[int, bytes]]) -> None:
        frame = joined(codec.encode_response(response, version, 1))[4:]
        request = asker(response, key, version)
        try:
            _, result = codec.decode_response(patched(frame, changes, 4), request, version)
        except codec.MalformedRequest:
            return
        assert type(result) is type(response)

    check_one()


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_random_bytes_give_malformed_or_a_value(key: ApiKey, version: int) -> None:
    @settings(FEW, max_examples=20)
    @given(st.binary(max_size=80))
    def check_one(body: bytes) -> None:
        head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\x00\x00\x00\x01\xff\xff"
        try:
            result = codec.decode_request(head + body, profile=REPLICATION_PROFILE)
        except codec.MalformedRequest:
            return
        assert result.api_key == key

    check_one()


@FEW
@given(st.binary(max_size=60))
def test_any_frame_gives_a_request_frame_or_malformed(frame: bytes) -> None:
    try:
        result = codec.decode_request(frame, profile=VERSION_PROFILE)
    except codec.MalformedRequest:
        return
    assert result.correlation_id == int.from_bytes(frame[4:8], "big", signed=True)


WRITTEN_BY_STRUCT = [
    pytest.param(key, version, id=f"{key.name.lower()}-v{version}")
    for key in (
        ApiKey.METADATA,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    )
    for version in VERSION_PROFILE.served_versions(key)
]


@pytest.mark.parametrize(("key", "version"), WRITTEN_BY_STRUCT)
def test_an_answer_by_struct_has_the_bytes_of_kios(key: ApiKey, version: int) -> None:
    @FEW
    @given(RESPONSES[key](version))
    def check_one(response: Any) -> None:
        schema = response_schema(key, version)
        sink = PieceSink((5).to_bytes(4, "big") + (b"\x00" if schema.flexible else b""))
        schema.write(sink, codec._CONVERTERS[key].write_response(response, schema))
        assert joined(codec.encode_response(response, version, 5)) == joined(sink.frame())

    check_one()
