"""Every API in every served version: what is encoded decodes to the same value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicId
from highwater_wire.kafka import codec, messages
from highwater_wire.kafka.codec import REPLICATION_PROFILE, VERSION_PROFILE
from highwater_wire.kafka.entities import PieceSink, response_schema
from highwater_wire.kafka.messages import ApiKey

FEW = settings(max_examples=10, deadline=None, derandomize=True, database=None)

int8s = st.integers(-(2**7), 2**7 - 1)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
durations_ms = st.integers(-1, 2**31 - 1)
texts = st.text(max_size=8)
optional_texts = st.none() | texts
errors = st.sampled_from(ErrorCode)
node_lists = st.lists(int32s, max_size=3).map(tuple)
topic_names = st.sampled_from(["a", "b", "ü-topic", "x" * 249])
record_bytes = st.binary(max_size=300) | st.just(b"r" * 20_000)


def tuples_of(items: st.SearchStrategy[Any], max_size: int = 4) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=max_size).map(tuple)


def grouped(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Items in the order of the wire: by topic."""
    return st.lists(items, max_size=5).map(
        lambda rows: tuple(sorted(rows, key=lambda row: row.topic))
    )


def since(version: int, first: int, values: st.SearchStrategy[Any], default: Any) -> Any:
    """The values from a field's first version on, its default before."""
    return values if version >= first else st.just(default)


def topic_id_of(topic: str) -> TopicId:
    return TopicId(topic.encode().hex()[:32].rjust(32, "1"))


def requests(key: ApiKey, version: int) -> st.SearchStrategy[Any]:
    return REQUESTS[key](version)


def responses(key: ApiKey, version: int) -> st.SearchStrategy[Any]:
    return RESPONSES[key](version)


# ---------------------------------------------------------------- strategies by API


def produce_requests(_version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(messages.ProducePartition, topic_names, int32s, st.none() | record_bytes)
    return st.builds(
        messages.ProduceRequest,
        acks=int16s,
        timeout_ms=durations_ms,
        partitions=grouped(partition),
        transactional_id=optional_texts,
    )


def produce_responses(version: int) -> st.SearchStrategy[Any]:
    result = st.builds(
        messages.ProducePartitionResult,
        topic=topic_names,
        partition=int32s,
        error=errors,
        base_offset=int64s,
        log_start_offset=since(version, 5, int64s, -1),
    )
    return st.builds(messages.ProduceResponse, grouped(result))


def _with_topic_id(row: Any, version: int) -> Any:
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}
    values["topic_id"] = topic_id_of(row.topic) if version >= 13 else ""
    return type(row)(**values)


def fetch_requests(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(
        messages.FetchPartition,
        topic=topic_names,
        partition=int32s,
        fetch_offset=int64s,
        max_bytes=int32s,
        current_leader_epoch=since(version, 9, int32s, -1),
        log_start_offset=since(version, 5, int64s, -1),
    ).map(lambda row: _with_topic_id(row, version))
    return st.builds(
        messages.FetchRequest,
        replica_id=int32s,
        max_wait_ms=durations_ms,
        min_bytes=int32s,
        max_bytes=int32s,
        partitions=grouped(partition),
        replica_epoch=int64s if version == 12 else since(version, 15, int64s, -1),
    )


def fetch_responses(version: int) -> st.SearchStrategy[Any]:
    result = st.builds(
        messages.FetchPartitionResult,
        topic=topic_names,
        partition=int32s,
        error=errors,
        high_watermark=int64s,
        log_start_offset=since(version, 5, int64s, -1),
        records=record_bytes,
    ).map(lambda row: _with_topic_id(row, version))
    return st.builds(
        messages.FetchResponse,
        grouped(result),
        since(version, 7, errors, ErrorCode.NONE),
    )


def list_offsets_requests(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(
        messages.ListOffsetsPartition,
        topic=topic_names,
        partition=int32s,
        timestamp=int64s,
        current_leader_epoch=since(version, 4, int32s, -1),
    )
    return st.builds(
        messages.ListOffsetsRequest, int32s, grouped(partition), request_version=st.just(version)
    )


def list_offsets_responses(version: int) -> st.SearchStrategy[Any]:
    result = st.builds(
        messages.ListOffsetsResult,
        topic=topic_names,
        partition=int32s,
        error=errors,
        timestamp=int64s,
        offset=int64s,
        leader_epoch=since(version, 4, int32s, -1),
    )
    return st.builds(messages.ListOffsetsResponse, grouped(result))


def metadata_requests(version: int) -> st.SearchStrategy[Any]:
    names = tuples_of(topic_names).filter(lambda topics: version > 0 or topics)
    return st.builds(
        messages.MetadataRequest,
        st.none() | names,
        since(version, 4, st.booleans(), True),
    )


def metadata_responses(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(
        messages.MetadataPartition,
        error=errors,
        partition=int32s,
        leader=int32s,
        leader_epoch=since(version, 7, int32s, -1),
        replicas=node_lists,
        isr=node_lists,
        offline_replicas=since(version, 5, node_lists, ()),
    )
    topic = st.builds(
        messages.MetadataTopic,
        error=errors,
        name=topic_names,
        partitions=tuples_of(partition),
        is_internal=since(version, 1, st.booleans(), False),
    )
    return st.builds(
        messages.MetadataResponse,
        brokers=tuples_of(st.builds(messages.MetadataBroker, int32s, texts, int32s)),
        cluster_id=since(version, 2, optional_texts, None),
        controller_id=since(version, 1, int32s, -1),
        topics=tuples_of(topic),
    )


def find_coordinator_requests(version: int) -> st.SearchStrategy[Any]:
    return st.builds(messages.FindCoordinatorRequest, texts, since(version, 1, int8s, 0))


def find_coordinator_responses(version: int) -> st.SearchStrategy[Any]:
    return st.builds(
        messages.FindCoordinatorResponse,
        error=errors,
        message=since(version, 1, optional_texts, None),
        node_id=int32s,
        host=texts,
        port=int32s,
    )


def api_versions_requests(version: int) -> st.SearchStrategy[Any]:
    name = since(version, 3, texts, None)
    return st.builds(messages.ApiVersionsRequest, name, name)


def api_versions_responses(_version: int) -> st.SearchStrategy[Any]:
    api = st.builds(messages.ApiVersionRange, int16s, int16s, int16s)
    return st.builds(messages.ApiVersionsResponse, errors, tuples_of(api))


def create_topics_requests(_version: int) -> st.SearchStrategy[Any]:
    topic = st.builds(
        messages.TopicToCreate,
        name=topic_names,
        partition_count=int32s,
        replication_factor=int16s,
        assignments=tuples_of(st.tuples(int32s, node_lists)),
        configs=tuples_of(st.tuples(texts, optional_texts)),
    )
    return st.builds(messages.CreateTopicsRequest, tuples_of(topic), durations_ms, st.booleans())


def create_topics_responses(_version: int) -> st.SearchStrategy[Any]:
    topic = st.builds(messages.CreatedTopic, topic_names, errors, optional_texts)
    return st.builds(messages.CreateTopicsResponse, tuples_of(topic))


def delete_topics_requests(_version: int) -> st.SearchStrategy[Any]:
    return st.builds(messages.DeleteTopicsRequest, tuples_of(topic_names), durations_ms)


def delete_topics_responses(_version: int) -> st.SearchStrategy[Any]:
    topic = st.builds(messages.DeletedTopic, topic_names, errors)
    return st.builds(messages.DeleteTopicsResponse, tuples_of(topic))


def epoch_requests(version: int) -> st.SearchStrategy[Any]:
    partition = st.builds(messages.EpochPartition, topic_names, int32s, int32s, int32s)
    return st.builds(
        messages.OffsetForLeaderEpochRequest,
        since(version, 3, int32s, messages.CONSUMER),
        grouped(partition),
    )


def epoch_responses(_version: int) -> st.SearchStrategy[Any]:
    result = st.builds(messages.EpochEndOffset, topic_names, int32s, errors, int32s, int64s)
    return st.builds(messages.OffsetForLeaderEpochResponse, grouped(result))


def describe_configs_requests(_version: int) -> st.SearchStrategy[Any]:
    resource = st.builds(messages.ConfigResource, int8s, texts, st.none() | tuples_of(texts))
    return st.builds(messages.DescribeConfigsRequest, tuples_of(resource))


def describe_configs_responses(_version: int) -> st.SearchStrategy[Any]:
    entry = st.builds(messages.ConfigEntry, texts, optional_texts, st.booleans(), st.booleans())
    resource = st.builds(
        messages.DescribedConfig, errors, optional_texts, int8s, texts, tuples_of(entry)
    )
    return st.builds(messages.DescribeConfigsResponse, tuples_of(resource))


Strategies = dict[ApiKey, Callable[[int], st.SearchStrategy[Any]]]

REQUESTS: Strategies = {
    ApiKey.PRODUCE: produce_requests,
    ApiKey.FETCH: fetch_requests,
    ApiKey.LIST_OFFSETS: list_offsets_requests,
    ApiKey.METADATA: metadata_requests,
    ApiKey.FIND_COORDINATOR: find_coordinator_requests,
    ApiKey.API_VERSIONS: api_versions_requests,
    ApiKey.CREATE_TOPICS: create_topics_requests,
    ApiKey.DELETE_TOPICS: delete_topics_requests,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: epoch_requests,
    ApiKey.DESCRIBE_CONFIGS: describe_configs_requests,
}
RESPONSES: Strategies = {
    ApiKey.PRODUCE: produce_responses,
    ApiKey.FETCH: fetch_responses,
    ApiKey.LIST_OFFSETS: list_offsets_responses,
    ApiKey.METADATA: metadata_responses,
    ApiKey.FIND_COORDINATOR: find_coordinator_responses,
    ApiKey.API_VERSIONS: api_versions_responses,
    ApiKey.CREATE_TOPICS: create_topics_responses,
    ApiKey.DELETE_TOPICS: delete_topics_responses,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: epoch_responses,
    ApiKey.DESCRIBE_CONFIGS: describe_configs_responses,
}
SERVED = [
    pytest.param(key, version, id=f"{key.name.lower()}-v{version}")
    for key in ApiKey
    for version in REPLICATION_PROFILE.served_versions(key)
]


def joined(pieces: Iterable[Any]) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def without_topic_names(request: Any, version: int) -> Any:
    """What a server reads from version 13 on: topic ids only."""
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
    @given(requests(key, version), int32s, optional_texts)
    def check_one(request: Any, correlation_id: int, client_id: str | None) -> None:
        sent = joined(codec.encode_request(request, version, correlation_id, client_id))
        assert int.from_bytes(sent[:4], "big") == len(sent) - 4
        frame = codec.decode_request(memoryview(sent)[4:], profile=REPLICATION_PROFILE)
        assert frame.request == without_topic_names(request, version)
        assert (frame.api_key, frame.api_version) == (key, version)
        assert (frame.correlation_id, frame.client_id) == (correlation_id, client_id)

    check_one()


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_response_survives_the_wire(key: ApiKey, version: int) -> None:
    @FEW
    @given(responses(key, version), int32s)
    def check_one(response: Any, correlation_id: int) -> None:
        sent = joined(codec.encode_response(response, version, correlation_id))
        assert int.from_bytes(sent[:4], "big") == len(sent) - 4
        request = asker(response, key, version)
        assert codec.decode_response(sent[4:], request, version) == (correlation_id, response)

    check_one()


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_torn_or_lengthened_request_is_malformed(key: ApiKey, version: int) -> None:
    @settings(FEW, max_examples=3)
    @given(requests(key, version))
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
    @given(responses(key, version))
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
    @given(requests(key, version), patches)
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
    @given(responses(key, version), patches)
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
    )
    for version in VERSION_PROFILE.served_versions(key)
]


@pytest.mark.parametrize(("key", "version"), WRITTEN_BY_STRUCT)
def test_an_answer_by_struct_has_the_bytes_of_kios(key: ApiKey, version: int) -> None:
    @FEW
    @given(RESPONSES[key](version))
    def check_one(response: Any) -> None:
        schema = response_schema(key, version)
        sink = PieceSink((5).to_bytes(4, "big"))
        schema.write(sink, codec._CONVERTERS[key].write_response(response, schema))
        assert joined(codec.encode_response(response, version, 5)) == joined(sink.frame())

    check_one()
