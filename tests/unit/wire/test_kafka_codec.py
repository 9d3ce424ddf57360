"""Frames beyond round trips: profiles, refusals, zero copy, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_core.check import BugFound
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_TOPIC_ID, BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicId
from highwater_wire.kafka import codec
from highwater_wire.kafka.codec import (
    REPLICATION_PROFILE,
    VERSION_PROFILE,
    MalformedRequest,
    UnencodableResponse,
)
from highwater_wire.kafka.messages import (
    CONSUMER,
    ApiKey,
    ApiVersionsRequest,
    ApiVersionsResponse,
    EpochPartition,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    KafkaResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
    UnsupportedRequest,
)

TOPIC_ID = TopicId("5e" * 16)


class SegmentSlice:
    """A RecordsView whose bytes must not be read while a response is encoded."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def read(self) -> bytes:
        raise AssertionError("encoding read the records")

    def file_range(self) -> tuple[int, int, int] | None:
        return (3, 0, self._length)

    def borrow(self, take_back: Callable[[], None]) -> None:
        raise AssertionError("encoding sends nothing")

    def give_back(self, take_back: Callable[[], None]) -> None:
        raise AssertionError("encoding borrows nothing")


def head(api_key: int, api_version: int) -> bytes:
    fields = ((api_key, 2), (api_version, 2), (9, 4), (-1, 2))
    return b"".join(value.to_bytes(size, "big", signed=True) for value, size in fields)


def joined(pieces: Any) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


# ---------------------------------------------------------------- profiles


def test_clients_are_offered_tagged_fields_only_where_they_are_of_use() -> None:
    offered = {
        r.api_key: (r.min_version, r.max_version) for r in VERSION_PROFILE.api_version_ranges()
    }
    assert offered == {
        0: (0, 8),
        1: (4, 11),
        2: (1, 5),
        3: (0, 8),
        8: (2, 9),
        9: (1, 8),
        10: (0, 6),
        11: (0, 9),
        12: (0, 4),
        13: (0, 5),
        14: (0, 5),
        15: (0, 5),
        16: (0, 5),
        18: (0, 3),
        19: (2, 4),
        20: (1, 3),
        22: (0, 5),
        23: (2, 3),
        32: (1, 3),
        33: (0, 1),
        35: (1, 4),
        37: (0, 1),
        42: (0, 2),
        43: (0, 1),
        44: (0, 0),
        45: (0, 0),
        46: (0, 0),
        47: (0, 0),
    }


def test_produce_is_offered_from_zero_but_served_from_three() -> None:
    assert (0, 2) not in VERSION_PROFILE.served
    assert (0, 3) in VERSION_PROFILE.served
    assert VERSION_PROFILE.served_versions(ApiKey.PRODUCE) == range(3, 9)


def test_only_followers_are_served_fetch_beyond_eleven() -> None:
    frame = head(ApiKey.FETCH, 15)
    refused = codec.decode_request(frame, profile=VERSION_PROFILE)
    assert refused.request == UnsupportedRequest(ApiKey.FETCH, 15)
    with pytest.raises(MalformedRequest):  # served, and therefore read
        codec.decode_request(frame, profile=REPLICATION_PROFILE)


def fetch(topic_id: TopicId, epoch: int = 8) -> FetchRequest:
    row = FetchPartition("t", 0, Offset(0), 1, topic_id=topic_id)
    return FetchRequest(NodeId(1), 0, 0, 0, (row,), BrokerEpoch(epoch))


@pytest.mark.parametrize(
    ("request_value", "version"),
    [
        (fetch(TOPIC_ID), 15),
        (fetch(NO_TOPIC_ID), 12),
        (fetch(NO_TOPIC_ID, epoch=-1), 11),
        (FetchRequest(NodeId(1), 0, 0, 0, ()), 11),
        (OffsetForLeaderEpochRequest(NodeId(1), ()), 3),
        (ListOffsetsRequest(NodeId(1), ()), 5),
    ],
)
def test_followers_fetch_by_topic_id_exactly_when_they_know_it(
    request_value: Any, version: int
) -> None:
    assert codec.replication_version(request_value) == version


def test_fetch_by_id_carries_the_replica_epoch_and_the_answer_regains_topic_names() -> None:
    request = fetch(TOPIC_ID)
    sent = joined(codec.encode_request(request, 15, 1, None))[4:]
    seen = codec.decode_request(sent, profile=REPLICATION_PROFILE).request
    assert isinstance(seen, FetchRequest)
    assert seen.replica_epoch == 8
    assert [(row.topic, row.topic_id) for row in seen.partitions] == [("", TOPIC_ID)]

    result = FetchPartitionResult("t", 0, ErrorCode.NONE, topic_id=TOPIC_ID)
    answer = joined(codec.encode_response(FetchResponse((result,)), 15, 1))[4:]
    assert codec.decode_response(answer, request, 15) == (1, FetchResponse((result,)))


@pytest.mark.parametrize("topic_id", [TOPIC_ID, NO_TOPIC_ID])
def test_no_followers_fetch_goes_without_its_replica_epoch(topic_id: TopicId) -> None:
    request = fetch(topic_id, epoch=2**33)
    version = codec.replication_version(request)
    sent = joined(codec.encode_request(request, version, 1, "broker-1"))[4:]
    seen = codec.decode_request(sent, profile=REPLICATION_PROFILE).request
    assert isinstance(seen, FetchRequest)
    assert seen.replica_epoch == 2**33


def test_a_fetch_by_name_has_its_replica_epoch_in_a_tagged_field_that_others_may_skip() -> None:
    with_epoch, without = (
        joined(codec.encode_request(fetch(NO_TOPIC_ID, epoch), 12, 1, None))[4:]
        for epoch in (8, -1)
    )
    assert without[-1:] == b"\x00"  # as Kafka would write it
    tag, length = b"\xd7\x90\x01", b"\x08"
    assert with_epoch == without[:-1] + b"\x01" + tag + length + (8).to_bytes(8, "big")


@pytest.mark.parametrize(
    "tags",
    [
        b"\x01\xd7\x90\x01\x04" + bytes(4),
        b"\x01\xd8\x90\x01\x08" + bytes(8),
        b"\x02\xd7\x90\x01\x08" + bytes(8) + b"\xd7\x90\x01\x08" + bytes(8),
        b"\x01\xd7\x90\x01\x08" + bytes(9),
    ],
    ids=["short", "another tag", "twice", "more after it"],
)
def test_a_replica_epoch_that_cannot_be_read_is_malformed_and_not_left_out(tags: bytes) -> None:
    sent = joined(codec.encode_request(fetch(NO_TOPIC_ID, -1), 12, 1, None))[4:]
    with pytest.raises(MalformedRequest):
        codec.decode_request(sent[:-1] + tags, profile=REPLICATION_PROFILE)


# ---------------------------------------------------------------- requests not served


@pytest.mark.parametrize("version", [4, 5, 99])
def test_newer_api_versions_is_answered_as_version_zero_with_error_35(version: int) -> None:
    # The body is of a version that this codec cannot read; it must not matter.
    frame = codec.decode_request(head(18, version) + b"\x00\x07unknown", profile=VERSION_PROFILE)
    assert frame.request == UnsupportedRequest(18, version)
    pieces = codec.encode_unsupported(frame, VERSION_PROFILE)
    assert pieces is not None
    asked = ApiVersionsRequest()
    correlation_id, response = codec.decode_response(joined(pieces)[4:], asked, 0)
    assert correlation_id == 9
    assert response == ApiVersionsResponse(
        ErrorCode.UNSUPPORTED_VERSION, VERSION_PROFILE.api_version_ranges()
    )


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 9), (1, 3), (24, 0), (-1, 0), (999, 0)])
def test_other_unserved_requests_have_no_answer(key: int, version: int) -> None:
    frame = codec.decode_request(head(key, version), profile=VERSION_PROFILE)
    assert frame.request == UnsupportedRequest(key, version)
    assert codec.encode_unsupported(frame, VERSION_PROFILE) is None


def test_serving_a_supported_request_as_unsupported_is_a_bug() -> None:
    frame = codec.decode_request(head(18, 0), profile=VERSION_PROFILE)
    with pytest.raises(BugFound):
        codec.encode_unsupported(frame, VERSION_PROFILE)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x10\x00\x00"])
@pytest.mark.parametrize(
    ("key", "version", "before"),
    [
        (ApiKey.METADATA, 8, b""),
        (ApiKey.DELETE_TOPICS, 1, b""),
        (ApiKey.CREATE_TOPICS, 4, b""),
        (ApiKey.DESCRIBE_CONFIGS, 1, b""),
        (ApiKey.LIST_OFFSETS, 1, bytes(4)),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, bytes(4)),
        (ApiKey.PRODUCE, 8, b"\xff\xff" + bytes(6)),
        (ApiKey.FETCH, 4, bytes(17)),
        (ApiKey.FETCH, 11, bytes(25)),
    ],
)
def test_array_that_claims_more_than_the_frame_holds_is_malformed(
    key: ApiKey, version: int, before: bytes, count: bytes
) -> None:
    with pytest.raises(MalformedRequest, match="elements"):
        codec.decode_request(head(key, version) + before + count, profile=VERSION_PROFILE)


def test_null_where_an_array_belongs_is_malformed() -> None:
    frame = head(ApiKey.DELETE_TOPICS, 1) + b"\xff\xff\xff\xff" + bytes(4)
    with pytest.raises(MalformedRequest, match="null"):
        codec.decode_request(frame, profile=VERSION_PROFILE)


@pytest.mark.parametrize("length", [b"\xff\xfe", b"\x7f\xff"])
def test_client_id_of_an_impossible_length_is_malformed(length: bytes) -> None:
    with pytest.raises(MalformedRequest, match="client id"):
        codec.decode_request(head(18, 0)[:-2] + length, profile=VERSION_PROFILE)


def test_client_id_that_is_not_text_is_malformed() -> None:
    frame = head(18, 0)[:-2] + b"\x00\x02\xff\xff"
    with pytest.raises(MalformedRequest, match="UTF-8"):
        codec.decode_request(frame, profile=VERSION_PROFILE)


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    sent = joined(codec.encode_request(fetch(TOPIC_ID), 15, 1, None))[4:]
    tagged = sent[:10] + b"\x01\x09\x02xx" + sent[11:]
    plain = codec.decode_request(sent, profile=REPLICATION_PROFILE)
    assert codec.decode_request(tagged, profile=REPLICATION_PROFILE) == plain


def test_error_code_beyond_the_registry_becomes_unknown_server_error() -> None:
    request = ProduceRequest(1, 0, ())
    result = ProducePartitionResult("t", 0, ErrorCode.NONE, Offset(1), Offset(0))
    sent = bytearray(joined(codec.encode_response(ProduceResponse((result,)), 7, 1))[4:])
    sent[19:21] = (55).to_bytes(2, "big")  # OPERATION_NOT_ATTEMPTED
    _, response = codec.decode_response(sent, request, 7)
    assert isinstance(response, ProduceResponse)
    assert response.partitions[0].error is ErrorCode.UNKNOWN_SERVER_ERROR


# ---------------------------------------------------------------- records


def test_produced_records_are_read_from_the_frame_until_they_are_released() -> None:
    request = ProduceRequest(1, 0, (ProducePartition("t", 0, b"records"),))
    buffer = bytearray(joined(codec.encode_request(request, 7, 1, "c"))[4:])
    decoded = codec.decode_request(buffer, profile=VERSION_PROFILE).request
    assert decoded == request
    codec.release_records(decoded)
    buffer.clear()  # nothing refers to it any more
    assert isinstance(decoded, ProduceRequest)
    with pytest.raises(ValueError, match="released"):
        bytes(decoded.partitions[0].records or b"")


def test_records_of_several_partitions_are_copied_out_of_the_frame() -> None:
    partitions = (ProducePartition("t", 0, b"records"), ProducePartition("t", 1, b"more"))
    request = ProduceRequest(1, 0, partitions)
    buffer = bytearray(joined(codec.encode_request(request, 7, 1, "c"))[4:])
    decoded = codec.decode_request(buffer, profile=VERSION_PROFILE).request
    buffer[:] = bytes(len(buffer))
    assert decoded == request
    codec.release_records(decoded)
    assert isinstance(decoded, ProduceRequest)
    with pytest.raises(ValueError, match="released"):
        bytes(decoded.partitions[1].records)


@pytest.mark.parametrize("version", [4, 11, 12, 13, 15])
def test_fetched_records_are_pieces_of_their_own_and_never_read(version: int) -> None:
    views = (SegmentSlice(10), SegmentSlice(1 << 20))
    rows = tuple(
        FetchPartitionResult("t", number, ErrorCode.NONE, records=view, topic_id=TOPIC_ID)
        for number, view in enumerate(views)
    )
    pieces = codec.encode_response(FetchResponse(rows), version, 1)
    assert [piece for piece in pieces if isinstance(piece, SegmentSlice)] == list(views)
    first = pieces[0]
    assert isinstance(first, bytes)
    assert int.from_bytes(first[:4], "big") == codec.frame_size(pieces) - 4


@pytest.mark.parametrize("version", [11, 15])
def test_large_records_are_not_copied_and_small_ones_are_joined(version: int) -> None:
    large, small = memoryview(bytes(100_000)), b"small"
    rows = tuple(
        FetchPartitionResult("t", number, ErrorCode.NONE, records=data, topic_id=TOPIC_ID)
        for number, data in enumerate((small, large, small))
    )
    pieces = codec.encode_response(FetchResponse(rows), version, 1)
    assert len(pieces) == 3
    assert pieces[1] is large


def test_empty_view_leaves_no_piece() -> None:
    row = FetchPartitionResult("t", 0, ErrorCode.NONE, records=SegmentSlice(0))
    (piece,) = codec.encode_response(FetchResponse((row,)), 11, 1)
    assert isinstance(piece, bytes)


def test_topics_are_grouped_and_partitions_keep_their_order() -> None:
    rows = [("a", 2), ("b", 0), ("a", 1)]
    request = OffsetForLeaderEpochRequest(
        CONSUMER, tuple(EpochPartition(t, p, LeaderEpoch(1)) for t, p in rows)
    )
    sent = joined(codec.encode_request(request, 3, 1, None))[4:]
    seen = codec.decode_request(sent, profile=VERSION_PROFILE).request
    assert isinstance(seen, OffsetForLeaderEpochRequest)
    assert [(row.topic, row.partition) for row in seen.partitions] == [
        ("a", 2),
        ("a", 1),
        ("b", 0),
    ]


# ---------------------------------------------------------------- values that do not fit


UNENCODABLE = {
    "an offset above 64 bits": (
        FetchResponse((FetchPartitionResult("t", 0, ErrorCode.NONE, Offset(2**63), Offset(0)),)),
        11,
    ),
    "a produced offset above 64 bits": (
        ProduceResponse((ProducePartitionResult("t", 0, ErrorCode.NONE, Offset(2**63)),)),
        8,
    ),
    "a time above 64 bits": (
        ListOffsetsResponse((ListOffsetsResult("t", 0, ErrorCode.NONE, 2**63, Offset(0)),)),
        1,
    ),
}


@pytest.mark.parametrize(("response", "version"), UNENCODABLE.values(), ids=UNENCODABLE)
def test_a_response_that_does_not_fit_the_protocol_raises_one_error(
    response: KafkaResponse, version: int
) -> None:
    with pytest.raises(UnencodableResponse) as refused:
        codec.encode_response(response, version, 1)
    assert len(str(refused.value)) < 300


# ---------------------------------------------------------------- Metadata's rules


def test_metadata_zero_asks_for_all_topics_with_an_empty_list() -> None:
    request = codec.decode_request(head(3, 0) + bytes(4), profile=VERSION_PROFILE).request
    assert request == MetadataRequest(None, allow_auto_topic_creation=True)


def test_later_metadata_asks_for_no_topics_with_an_empty_list() -> None:
    request = codec.decode_request(head(3, 1) + bytes(4), profile=VERSION_PROFILE).request
    assert request == MetadataRequest((), allow_auto_topic_creation=True)
