"""The cost of reading one request, and answers that exceed the limits."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from highwater_core.admin_messages import OngoingReassignment, PartitionResult, TopicResult
from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, NodeId, Offset, TopicPartition
from highwater_wire.kafka import codec
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsResponse,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from highwater_wire.kafka.bounds import (
    MAX_FETCH_STRUCTURES,
    MAX_REQUEST_BYTES,
    MAX_STRUCTURES,
    MalformedRequest,
)
from highwater_wire.kafka.codec import (
    REPLICATION_PROFILE,
    VERSION_PROFILE,
    UnencodableResponse,
)
from highwater_wire.kafka.config_messages import (
    AlterConfigsResponse,
    AlteredConfigResult,
    ConfigEntry,
    DescribeConfigsResponse,
    DescribedConfig,
    IncrementalAlterConfigsResponse,
)
from highwater_wire.kafka.messages import (
    CONSUMER,
    ApiKey,
    CreatedTopic,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    FindCoordinatorResponse,
    FoundCoordinator,
    ListOffsetsResponse,
    ListOffsetsResult,
    MetadataBroker,
    MetadataResponse,
    MetadataTopic,
    OffsetForLeaderEpochResponse,
    ProducePartitionResult,
    ProduceResponse,
)
from highwater_wire.kafka.text import MAX_STRING_BYTES

NONE = ErrorCode.NONE
ZERO = bytes(4)


def head(api_key: int, api_version: int) -> bytes:
    return struct.pack(">hhih", api_key, api_version, 9, -1)


def array(count: int, element: bytes) -> bytes:
    return struct.pack(">i", count) + element * count


def decode(frame: bytes) -> Any:
    return codec.decode_request(frame, profile=VERSION_PROFILE).request


def joined(pieces: Any) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def metadata(count: int) -> bytes:
    return head(ApiKey.METADATA, 8) + array(count, b"\x00\x01t") + bytes(3)


def create_topics(partition_count: int, replicas: int) -> bytes:
    assignment = ZERO + array(replicas, ZERO)
    topic = b"\x00\x01t" + bytes(6) + array(partition_count, assignment) + ZERO
    return head(ApiKey.CREATE_TOPICS, 4) + array(1, topic) + bytes(5)


def fetch(version: int, count: int) -> bytes:
    rows = tuple(FetchPartition("t", n, Offset(0), 1) for n in range(count))
    sent = codec.encode_request(FetchRequest(CONSUMER, 0, 0, 0, rows), version, 1, None)
    return joined(sent)[4:]


# ---------------------------------------------------------------- requests


def test_a_request_names_a_bounded_number_of_entries() -> None:
    assert len(decode(metadata(MAX_STRUCTURES)).topics) == MAX_STRUCTURES
    with pytest.raises(MalformedRequest, match="costs more to read"):
        decode(metadata(MAX_STRUCTURES + 1))


def test_one_that_was_refused_leaves_the_next_its_whole_budget() -> None:
    with pytest.raises(MalformedRequest):
        decode(metadata(MAX_STRUCTURES + 1))
    assert decode(metadata(1)).topics == ("t",)


def test_the_whole_request_counts_not_each_of_its_arrays() -> None:
    assert decode(create_topics(10_000, 3)).topics[0].assignments
    with pytest.raises(MalformedRequest, match="costs more to read"):
        decode(create_topics(10_000, 5))


@pytest.mark.parametrize(
    "frame",
    [
        head(ApiKey.DELETE_TOPICS, 3) + array(MAX_STRUCTURES + 1, b"\x00\x00") + ZERO,
        head(ApiKey.PRODUCE, 8)
        + struct.pack(">hhi", -1, 1, 1)
        + array(1, b"\x00\x01t" + array(MAX_STRUCTURES, bytes(8))),
    ],
    ids=["names", "a produce's partitions"],
)
def test_short_texts_and_empty_records_count_too(frame: bytes) -> None:
    with pytest.raises(MalformedRequest, match="costs more to read"):
        decode(frame)


@pytest.mark.parametrize(
    ("request_type", "arguments"),
    [(ElectLeadersRequest, (0,)), (ListPartitionReassignmentsRequest, ())],
)
def test_numbers_of_partitions_count_as_much_as_partitions(
    request_type: Any, arguments: tuple[int, ...]
) -> None:
    def seen(count: int) -> Any:
        named = tuple(TopicPartition("t", number) for number in range(count))
        request = request_type(*arguments, named, 1_000)
        version = max(VERSION_PROFILE.served_versions(codec.api_key_of(request)))
        return decode(joined(codec.encode_request(request, version, 1, None))[4:])

    assert len(seen(MAX_STRUCTURES - 1).partitions) == MAX_STRUCTURES - 1
    with pytest.raises(MalformedRequest, match="costs more to read"):
        seen(MAX_STRUCTURES)


@pytest.mark.parametrize("version", [10, 11])
def test_a_clients_fetch_is_bounded_like_all_else_in_every_version(version: int) -> None:
    """Found: to read and answer one of 30,000 partitions held the event loop for 160 ms."""
    row = struct.pack(">iiqqi", 0, -1, 0, -1, 1)
    body = bytes(21) + ZERO + array(1, b"\x00\x01t" + array(MAX_STRUCTURES, row)) + ZERO + bytes(2)
    with pytest.raises(MalformedRequest, match="costs more to read"):
        decode(head(ApiKey.FETCH, version) + body[: -2 if version == 10 else None])


def test_a_follower_may_ask_for_more_partitions_than_others_name() -> None:
    frame = fetch(11, 25_000)
    asked = codec.decode_request(frame, profile=REPLICATION_PROFILE).request
    assert isinstance(asked, FetchRequest)
    assert len(asked.partitions) == 25_000
    with pytest.raises(MalformedRequest, match="costs more to read"):
        decode(frame)


@pytest.mark.parametrize("version", [12, 15])
def test_a_follower_may_ask_for_as_many_in_the_versions_with_its_epoch(version: int) -> None:
    def seen(count: int) -> Any:
        rows = tuple(FetchPartition("t", n, Offset(0), 1) for n in range(count))
        request = FetchRequest(NodeId(1), 0, 0, 0, rows, BrokerEpoch(7))
        sent = joined(codec.encode_request(request, version, 1, None))[4:]
        return codec.decode_request(sent, profile=REPLICATION_PROFILE).request

    assert len(seen(25_000).partitions) == 25_000
    with pytest.raises(MalformedRequest, match="costs more to read"):
        seen(MAX_FETCH_STRUCTURES + 1)


@pytest.mark.parametrize("api_key", [key for key in ApiKey if key is not ApiKey.PRODUCE])
def test_only_a_produce_may_be_large(api_key: ApiKey) -> None:
    version = max(VERSION_PROFILE.served_versions(api_key))
    frame = head(api_key, version).ljust(MAX_REQUEST_BYTES + 1, b"\x00")
    with pytest.raises(MalformedRequest, match="at most 4194304"):
        decode(frame)


@pytest.mark.parametrize("tags", [b"\xff\xff\xff\xff\x07", b"\x65" + b"\x00\x00" * 101])
def test_a_headers_tagged_fields_are_few(tags: bytes) -> None:
    with pytest.raises(MalformedRequest):
        codec.decode_request(head(ApiKey.FETCH, 15) + tags, profile=REPLICATION_PROFILE)


# ---------------------------------------------------------------- answers

LONG = "é" * MAX_STRING_BYTES
LONGEST = "x" * MAX_STRING_BYTES
LONG_RESULT = PartitionResult(TopicPartition(LONG, 0), NONE, LONG)
ANSWERS: list[Any] = [
    MetadataResponse(
        (MetadataBroker(NodeId(0), LONG, 1),), LONG, NodeId(0), (MetadataTopic(NONE, LONG),)
    ),
    DescribeConfigsResponse((DescribedConfig(NONE, LONG, 2, LONG, (ConfigEntry(LONG, LONG, 5),)),)),
    AlterConfigsResponse((AlteredConfigResult(NONE, LONG, 2, LONG),)),
    IncrementalAlterConfigsResponse((AlteredConfigResult(NONE, LONG, 2, LONG),)),
    CreateTopicsResponse((CreatedTopic(LONG, NONE, LONG),)),
    DeleteTopicsResponse((DeletedTopic(LONG, NONE),)),
    CreatePartitionsResponse((TopicResult(LONG, NONE, LONG),)),
    ElectLeadersResponse(NONE, (LONG_RESULT,)),
    AlterPartitionReassignmentsResponse(NONE, LONG, (LONG_RESULT,)),
    ListPartitionReassignmentsResponse(
        NONE, LONG, (OngoingReassignment(LONG_RESULT.topic_partition, (), (), ()),)
    ),
    FindCoordinatorResponse((FoundCoordinator("g", NONE, LONG, NodeId(0), LONG, 1),)),
    ListOffsetsResponse((ListOffsetsResult(LONG, 0, NONE),)),
    OffsetForLeaderEpochResponse((EpochEndOffset(LONG, 0, NONE),)),
    ProduceResponse((ProducePartitionResult(LONG, 0, NONE),)),
    FetchResponse((FetchPartitionResult(LONG, 0, NONE),)),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_a_text_that_no_answer_can_carry_is_cut(answer: Any) -> None:
    key = codec.RESPONSE_KEYS[type(answer)]
    for version in VERSION_PROFILE.served_versions(key):
        sent = joined(codec.encode_response(answer, version, 1))
        assert LONG[: MAX_STRING_BYTES // 2].encode() in sent


def test_a_lone_surrogate_does_not_keep_an_answer_from_being_sent() -> None:
    answer = CreateTopicsResponse((CreatedTopic("t\ud800", NONE, "\udfff"),))
    assert b"\x00\x02t?" in joined(codec.encode_response(answer, 4, 1))


@pytest.mark.parametrize(
    "answer",
    [
        DeleteTopicsResponse((DeletedTopic("t", 70_000),)),  # type: ignore[arg-type]
        FindCoordinatorResponse((FoundCoordinator("g", NONE, "", NodeId(2**31), "", 0),)),
        FetchResponse((FetchPartitionResult("t", 2**31, NONE),)),
        ListOffsetsResponse((ListOffsetsResult("t", 0, NONE, timestamp=2**63),)),
        ListPartitionReassignmentsResponse(
            NONE, None, (OngoingReassignment(TopicPartition("t", 2**31), (), (), ()),)
        ),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_a_number_that_does_not_fit_makes_the_answer_unencodable(answer: Any) -> None:
    key = codec.RESPONSE_KEYS[type(answer)]
    for version in VERSION_PROFILE.served_versions(key):
        with pytest.raises(UnencodableResponse):
            codec.encode_response(answer, version, 1)


def test_an_answer_of_over_200_mebibytes_is_not_sent() -> None:
    class Records:
        def __len__(self) -> int:
            return 200 * 1024 * 1024

        def read(self) -> bytes:
            raise AssertionError("nothing reads them")

        def file_range(self) -> None:
            return None

    answer = FetchResponse((FetchPartitionResult("t", 0, NONE, records=Records()),))
    with pytest.raises(UnencodableResponse, match="FetchResponse of 209715"):
        codec.encode_response(answer, 11, 1)
