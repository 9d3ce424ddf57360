"""Malformed bytes on a node's ports: a clear answer or a closed connection, and it lives on."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager

import grpc
import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_replicated
from highwater.cluster.wire_client import ConnectionClosed, WireClient, record_batch
from highwater.waiting import eventually
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import Endpoint
from highwater_wire.control import METHODS
from highwater_wire.kafka.messages import (
    ApiVersionsRequest,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
)
from tests.support.batches import with_wrong_crc
from tests.support.clusters import await_trace

pytestmark = pytest.mark.docker

Guard = Callable[[Cluster], AbstractContextManager[None]]

WITHIN_S = 60.0
GARBAGE = random.Random(20261121).randbytes(4096)  # noqa: S311 - the same in every run


def size(count: int) -> bytes:
    return struct.pack(">i", count)


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, -1)


def framed(content: bytes) -> bytes:
    return size(len(content)) + content


CLOSING_INPUT = {
    "a frame of negative length": size(-1),
    "the most negative length": size(-(2**31)),
    "an oversized frame": size(2**31 - 1) + b"x" * 100,
    "a frame that is too short for a header": framed(b"\x00\x12\x00"),
    "an empty frame": size(0),
    "an unknown API": framed(header(999, 0)),
    "a version that is not served": framed(header(1, 99) + bytes(40)),
    "a Produce version that is offered but not served": framed(header(0, 1) + bytes(40)),
    "a client id longer than the frame": framed(struct.pack(">hhih", 18, 0, 7, 500) + b"abc"),
    "an array that claims two billion entries": framed(header(3, 5) + struct.pack(">i", 2**31 - 1)),
    "random bytes": GARBAGE,
    "random bytes in a frame": framed(GARBAGE),
    "random bytes after a Fetch header": framed(header(1, 11) + GARBAGE),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
}


def listeners(cluster: Cluster, broker: int) -> dict[str, Endpoint]:
    """Return the broker's Kafka listeners as this machine reaches them."""
    found = {"external": cluster.external_endpoint(broker)}
    if cluster.control_endpoint(broker).host == cluster.address(broker):
        found["client"] = Endpoint(cluster.address(broker), 9092)
        found["replication"] = Endpoint(cluster.address(broker), 9093)
    return found


def assert_serves(cluster: Cluster, topic: str, broker: int = 0) -> None:
    with WireClient(cluster.external_endpoint(broker)) as client:
        before = client.fetch(topic, 0, 0, max_wait_ms=0).high_watermark
        answer = client.produce(topic, 0, record_batch([b"alive"]))
        assert (answer.error, answer.base_offset) == (ErrorCode.NONE, before)
    await_replicated(cluster, topic)


def is_closed(client: WireClient) -> bool:
    """Wait until the broker closes the connection (True) or answers (False)."""
    try:
        client.receive_some(1)
    except ConnectionClosed:
        return True
    return False


@pytest.mark.parametrize("name", list(CLOSING_INPUT))
def test_a_connection_that_sends_nonsense_is_closed_and_the_broker_lives_on(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard, name: str
) -> None:
    topic = new_topic(steady)
    with nobody_restarts(steady):
        for endpoint in listeners(steady, 0).values():
            with WireClient(endpoint) as client:
                client.send(CLOSING_INPUT[name])
                assert is_closed(client), f"{name} at {endpoint} was answered"
        assert_serves(steady, topic)


def test_bad_input_is_traced_with_the_listener_and_what_was_wrong(steady: Cluster) -> None:
    with WireClient(steady.external_endpoint(0)) as client:
        client.send(framed(header(777, 3)))
        assert is_closed(client)
    event = await_trace(steady, 0, EventKind.BAD_INPUT_MET, what="API 777 version 3")
    assert event.detail["where"].startswith("EXTERNAL ")
    eventually(  # the engine reads a node's output a moment later
        lambda: "API 777 version 3 is not served" in steady.logs(0, tail=50),
        within=WITHIN_S,
        what="the log tells of it",
        state=lambda: steady.logs(0, tail=50),
    )


def test_a_connection_that_ends_within_a_frame_costs_nobody_else(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    topic = new_topic(steady)
    with nobody_restarts(steady), WireClient(steady.external_endpoint(0)) as other:
        for torn in (b"\x00", size(100), size(100) + header(3, 1), size(50_000_000) + b"x" * 999):
            with WireClient(steady.external_endpoint(0)) as client:
                client.send(torn)
                assert other.call(ApiVersionsRequest()).error is ErrorCode.NONE
        assert_serves(steady, topic)


def test_requests_before_the_bad_one_are_answered(steady: Cluster) -> None:
    with WireClient(steady.external_endpoint(0)) as client:
        client.send(framed(header(18, 0)) + framed(header(999, 0)))
        assert client.receive_frame()[:4] == struct.pack(">i", 7)
        assert is_closed(client)


def test_an_unknown_version_of_api_versions_is_answered_with_what_is_offered(
    steady: Cluster,
) -> None:
    with WireClient(steady.external_endpoint(0)) as client:
        client.send(framed(header(18, 99) + bytes(20)))
        correlation_id, error = struct.unpack_from(">ih", client.receive_frame())
    assert (correlation_id, error) == (7, ErrorCode.UNSUPPORTED_VERSION)


# ---------------------------------------------------------------- sound frames, bad content


def _with_magic(batch: bytes, magic: int) -> bytes:
    return batch[:16] + bytes([magic]) + batch[17:]


BAD_BATCHES: dict[str, tuple[bytes, set[ErrorCode]]] = {
    "wrong CRC": (with_wrong_crc(record_batch([b"x"])), {ErrorCode.CORRUPT_MESSAGE}),
    "cut short": (record_batch([b"x"])[:-3], {ErrorCode.CORRUPT_MESSAGE}),
    "random bytes": (GARBAGE[:200], {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}),
    "an old format": (
        _with_magic(record_batch([b"x"]), 1),
        {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.CORRUPT_MESSAGE},
    ),
    "larger than max.message.bytes": (
        record_batch([b"x" * 2_000_000]),
        {ErrorCode.MESSAGE_TOO_LARGE},
    ),
}


@pytest.mark.parametrize("name", list(BAD_BATCHES))
def test_a_bad_batch_is_refused_by_its_error_and_nothing_of_it_is_kept(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard, name: str
) -> None:
    topic = new_topic(steady)
    batch, errors = BAD_BATCHES[name]
    with nobody_restarts(steady), WireClient(steady.external_endpoint(0)) as client:
        assert client.produce(topic, 0, record_batch([b"good"])).error is ErrorCode.NONE
        for acks in (-1, 1):
            assert client.produce(topic, 0, batch, acks=acks).error in errors
        look = await_replicated(steady, topic)
        ends = {
            replica.log_end_offset
            for snapshot in look.nodes.values()
            if snapshot is not None
            for replica in snapshot.replicas
            if replica.topic_partition.topic == topic
        }
        assert ends == {1}
        assert client.produce(topic, 0, record_batch([b"next"])).base_offset == 1


def test_unknown_topics_and_partitions_are_named_as_such(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = new_topic(steady)
    with nobody_restarts(steady), WireClient(steady.external_endpoint(0)) as client:
        for name, partition in (("no-such-topic", 0), (topic, 7), (topic, -1), ("", 0)):
            assert client.produce(name, partition, record_batch([b"x"])).error is unknown
            assert client.fetch(name, partition, 0).error is unknown
            asked = ListOffsetsRequest(
                replica_id=-1,  # type: ignore[arg-type]
                partitions=(ListOffsetsPartition(name, partition, -1),),
            )
            assert client.call(asked).partitions[0].error is unknown
        (described,) = client.call(MetadataRequest(("no-such-topic",))).topics
        assert described.error is unknown


def test_a_client_that_claims_to_be_a_replica_moves_no_high_watermark(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    topic = new_topic(steady)
    with nobody_restarts(steady), WireClient(steady.external_endpoint(0)) as client:
        for replica_id in (1, 99, -7):
            part = FetchPartition(topic, 0, 1_000_000, 1 << 20)  # type: ignore[arg-type]
            request = FetchRequest(replica_id, 0, 1, 1 << 20, (part,))  # type: ignore[arg-type]
            assert client.call(request).partitions[0].error is not ErrorCode.NONE
        assert_serves(steady, topic)


# ---------------------------------------------------------------- the control plane


@pytest.mark.parametrize(
    "garbage",
    [GARBAGE, b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + GARBAGE],
    ids=["random bytes", "HTTP 1", "an HTTP 2 preface and random bytes"],
)
def test_garbage_on_the_control_port_stops_no_node(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard, garbage: bytes
) -> None:
    with nobody_restarts(steady):
        for node in steady.node_ids:
            endpoint = steady.control_endpoint(node)
            with socket.create_connection((endpoint.host, endpoint.port), 10) as connection:
                connection.sendall(garbage)
                connection.shutdown(socket.SHUT_WR)
        assert_serves(steady, new_topic(steady))


def test_every_control_call_with_a_payload_that_is_none_is_refused_and_traced(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    with nobody_restarts(steady):
        for node in steady.node_ids:
            with grpc.insecure_channel(str(steady.control_endpoint(node))) as channel:
                for path in METHODS:
                    with pytest.raises(grpc.RpcError) as refused:
                        channel.unary_unary(path)(b"\xff\xff\xff\xff", timeout=10)
                    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, path
                with pytest.raises(grpc.RpcError) as refused:
                    channel.unary_unary("/no.such.Service/Method")(b"", timeout=10)
                assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
            await_trace(steady, node, EventKind.BAD_INPUT_MET, where=" from ipv4:")
        assert_serves(steady, new_topic(steady))
