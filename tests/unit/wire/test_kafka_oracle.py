"""The codec against kafka-python's, an independent one; the fast paths against kio."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest as OracleFetchRequest
from kafka.protocol.consumer import FetchResponse as OracleFetchResponse
from kafka.protocol.metadata import MetadataRequest as OracleMetadataRequest
from kafka.protocol.metadata import MetadataResponse as OracleMetadataResponse
from kafka.protocol.producer import ProduceRequest as OracleProduceRequest
from kafka.protocol.producer import ProduceResponse as OracleProduceResponse

from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicId
from highwater_wire.kafka import codec, codec_records
from highwater_wire.kafka.codec import REPLICATION_PROFILE
from highwater_wire.kafka.entities import (
    PieceSink,
    read_entity,
    request_schema,
    response_schema,
)
from highwater_wire.kafka.messages import (
    CONSUMER,
    ApiKey,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)

ID_A, ID_B = TopicId("0a" * 16), TopicId("0b" * 16)
RECORDS = bytes(range(256)) * 3


def produce_request(version: int) -> ProduceRequest:
    rows = (ProducePartition("a", 0, RECORDS), ProducePartition("a", 3, None))
    return ProduceRequest(-1, 30_000, (*rows, ProducePartition("b", 1, b"")))


def produce_response(version: int) -> ProduceResponse:
    start = Offset(2) if version >= 5 else Offset(-1)
    return ProduceResponse(
        (
            ProducePartitionResult("a", 0, ErrorCode.NONE, Offset(2**40), start),
            ProducePartitionResult("a", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ProducePartitionResult("b", 7, ErrorCode.NONE, Offset(0), start),
        )
    )


def fetch_request(version: int) -> FetchRequest:
    ids = (ID_A, ID_B) if version >= 13 else (TopicId(""), TopicId(""))
    epoch = LeaderEpoch(4) if version >= 9 else LeaderEpoch(-1)
    start = Offset(1) if version >= 5 else Offset(-1)
    return FetchRequest(
        NodeId(2),
        500,
        1,
        10 << 20,
        (
            FetchPartition("a", 0, Offset(2**40), 1 << 20, epoch, start, ids[0]),
            FetchPartition("a", 1, Offset(0), 1 << 20, epoch, start, ids[0]),
            FetchPartition("b", 0, Offset(7), 1 << 20, epoch, start, ids[1]),
        ),
        BrokerEpoch(2**33) if version >= 15 else BrokerEpoch(-1),
    )


def fetch_response(version: int) -> FetchResponse:
    ids = (ID_A, ID_B) if version >= 13 else (TopicId(""), TopicId(""))
    start = Offset(1) if version >= 5 else Offset(-1)
    return FetchResponse(
        (
            FetchPartitionResult("a", 0, ErrorCode.NONE, Offset(9), start, RECORDS, ids[0]),
            FetchPartitionResult("a", 1, ErrorCode.NONE, Offset(0), start, b"", ids[0]),
            FetchPartitionResult(
                "b", 0, ErrorCode.OFFSET_OUT_OF_RANGE, Offset(-1), Offset(-1), b"", ids[1]
            ),
        )
    )


def metadata_request(_version: int) -> MetadataRequest:
    return MetadataRequest(("a", "b"), allow_auto_topic_creation=False)


def metadata_response(_version: int) -> MetadataResponse:
    nodes = (NodeId(0), NodeId(1))
    partition = MetadataPartition(
        ErrorCode.NONE, 0, NodeId(0), LeaderEpoch(3), nodes, nodes[:1], nodes[1:]
    )
    return MetadataResponse(
        tuple(MetadataBroker(node, f"broker-{node}", 9092) for node in nodes),
        "cluster",
        NodeId(1),
        (
            MetadataTopic(ErrorCode.NONE, "a", (partition,)),
            MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "b"),
        ),
    )


REQUESTS = {
    ApiKey.PRODUCE: (produce_request, OracleProduceRequest),
    ApiKey.FETCH: (fetch_request, OracleFetchRequest),
    ApiKey.METADATA: (metadata_request, OracleMetadataRequest),
}
RESPONSES = {
    ApiKey.PRODUCE: (produce_response, OracleProduceResponse),
    ApiKey.FETCH: (fetch_response, OracleFetchResponse),
    ApiKey.METADATA: (metadata_response, OracleMetadataResponse),
}
SERVED = [
    pytest.param(key, version, id=f"{key.name.lower()}-v{version}")
    for key in REQUESTS
    for version in REPLICATION_PROFILE.served_versions(key)
]


def joined(pieces: Any) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


# ---------------------------------------------------------------- against kafka-python


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_oracle_reads_our_request_and_writes_the_same_bytes(key: ApiKey, version: int) -> None:
    make, oracle = REQUESTS[key]
    sent = joined(codec.encode_request(make(version), version, 77, "client"))
    theirs = oracle[version].decode(sent, header=True, framed=True)
    theirs.with_header(correlation_id=77, client_id="client")
    assert theirs.encode(header=True, framed=True) == sent


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_oracle_reads_our_response_and_writes_the_same_bytes(key: ApiKey, version: int) -> None:
    make, oracle = RESPONSES[key]
    sent = joined(codec.encode_response(make(version), version, 77))
    theirs = oracle[version].decode(sent, header=True, framed=True)
    theirs.with_header(correlation_id=77)
    assert theirs.encode(header=True, framed=True) == sent


@pytest.mark.parametrize("version", range(3, 9))
def test_oracle_sees_in_our_produce_response_what_we_meant(version: int) -> None:
    sent = joined(codec.encode_response(produce_response(version), version, 1))
    theirs = OracleProduceResponse[version].decode(sent, header=True, framed=True)
    rows = [
        (topic.name, row.index, row.error_code, row.base_offset)
        for topic in theirs.responses
        for row in topic.partition_responses
    ]
    assert rows == [("a", 0, 0, 2**40), ("a", 1, 6, -1), ("b", 7, 0, 0)]


@pytest.mark.parametrize("version", range(4, 16))
def test_oracle_sees_in_our_fetch_response_what_we_meant(version: int) -> None:
    sent = joined(codec.encode_response(fetch_response(version), version, 1))
    theirs = OracleFetchResponse[version].decode(sent, header=True, framed=True)
    rows = [
        (row.partition_index, row.error_code, row.high_watermark, bytes(row.records or b""))
        for topic in theirs.responses
        for row in topic.partitions
    ]
    assert rows == [(0, 0, 9, RECORDS), (1, 0, 0, b""), (0, 1, -1, b"")]


@pytest.mark.parametrize("version", range(4, 12))
def test_we_see_in_an_oracles_fetch_request_what_it_meant(version: int) -> None:
    topic = OracleFetchRequest.FetchTopic(
        topic="t",
        partitions=[
            OracleFetchRequest.FetchTopic.FetchPartition(
                partition=3, fetch_offset=5, partition_max_bytes=1000, current_leader_epoch=2
            )
        ],
    )
    theirs = OracleFetchRequest[version](
        replica_id=-1, max_wait_ms=250, min_bytes=1, max_bytes=9999, topics=[topic]
    )
    theirs.with_header(correlation_id=5, client_id="kp")
    sent = theirs.encode(header=True, framed=True)
    frame = codec.decode_request(sent[4:], profile=REPLICATION_PROFILE)
    epoch = LeaderEpoch(2 if version >= 9 else -1)
    row = FetchPartition("t", 3, Offset(5), 1000, epoch)
    assert frame.request == FetchRequest(CONSUMER, 250, 1, 9999, (row,))


# ---------------------------------------------------------------- fast paths against kio


@pytest.mark.parametrize("version", range(3, 9))
def test_fast_produce_response_equals_kios(version: int) -> None:
    value, schema = produce_response(version), response_schema(ApiKey.PRODUCE, version)
    sink = PieceSink((5).to_bytes(4, "big"))
    schema.write(sink, codec_records.write_produce_response(value, schema))
    assert joined(codec.encode_response(value, version, 5)) == joined(sink.frame())


@pytest.mark.parametrize("version", [*range(4, 13), 15])
def test_fast_fetch_response_equals_kios(version: int) -> None:
    value, schema = fetch_response(version), response_schema(ApiKey.FETCH, version)
    sink = PieceSink((5).to_bytes(4, "big") + (b"\x00" if schema.flexible else b""))
    schema.write(sink, codec_records.write_fetch_response(value, schema))
    assert joined(codec.encode_response(value, version, 5)) == joined(sink.frame())


@pytest.mark.parametrize("version", [11, 12, 15])
@pytest.mark.parametrize("who", ["follower", "consumer", "nothing"])
def test_fast_fetch_request_equals_kios(version: int, who: str) -> None:
    value = fetch_request(version)
    if who == "consumer":
        value = FetchRequest(CONSUMER, 500, 1, 1000, value.partitions)
    elif who == "nothing":
        value = FetchRequest(NodeId(1), 500, 1, 1000, ())
    schema = request_schema(ApiKey.FETCH, version)
    sink = PieceSink(b"")
    schema.write(sink, codec_records.write_fetch_request(value, schema))
    sent = joined(codec.encode_request(value, version, 5, None))
    header = 4 + 10 + (1 if schema.flexible else 0)
    assert sent[header:] == joined(sink.frame())[4:]


@pytest.mark.parametrize("version", [11, 12, 15])
def test_fast_and_kios_reading_of_fetch_agree(version: int) -> None:
    request, response = fetch_request(version), fetch_response(version)
    tag = 1 if version >= 12 else 0
    sent = memoryview(joined(codec.encode_request(request, version, 5, None)))[4:]
    entity = read_entity(request_schema(ApiKey.FETCH, version), sent, 10 + tag)
    frame = codec.decode_request(sent, profile=REPLICATION_PROFILE)
    assert frame.request == codec_records.read_fetch_request(entity, version)

    answer = memoryview(joined(codec.encode_response(response, version, 5)))[4:]
    entity = read_entity(response_schema(ApiKey.FETCH, version), answer, 4 + tag)
    decoded = codec.decode_response(answer, request, version)
    assert decoded == (5, codec_records.read_fetch_response(entity, request))


@pytest.mark.parametrize("version", range(3, 9))
@pytest.mark.parametrize("records", [b"", RECORDS, None])
def test_fast_and_kios_reading_of_produce_agree(version: int, records: bytes | None) -> None:
    request = ProduceRequest(1, 5, (ProducePartition("ü", 3, records),))
    sent = memoryview(joined(codec.encode_request(request, version, 5, None)))[4:]
    entity = read_entity(request_schema(ApiKey.PRODUCE, version), sent, 10)
    frame = codec.decode_request(sent, profile=REPLICATION_PROFILE)
    assert frame.request == codec_records.read_produce_request(entity, version) == request
