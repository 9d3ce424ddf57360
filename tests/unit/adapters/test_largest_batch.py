"""The largest batch that a leader appends comes through to its followers."""

from __future__ import annotations

import struct

import pytest

from highwater_adapters.frames import BadFrame, FrameBuffer
from highwater_adapters.tcp_connection import MAX_UNSENT_BYTES
from highwater_adapters.tcp_transport import TcpTransport
from highwater_broker.kafka_api.api_settings import KafkaApiSettings
from highwater_broker.log.record_batch import MAX_BATCH_BYTES
from highwater_broker.logic.fetcher_spread import MAX_FOLLOWED
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, Offset
from highwater_wire.kafka.codec import MAX_RESPONSE_BYTES, encode_response, frame_size
from highwater_wire.kafka.messages import FetchPartitionResult, FetchResponse
from highwater_wire.kafka.versions import FETCH_BY_NAME_WITH_REPLICA_EPOCH_VERSION


class Records:
    """Records of a size, which nobody reads."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes

    def __len__(self) -> int:
        return self._size_bytes

    def read(self) -> bytes:
        raise AssertionError("nothing reads them")

    def file_range(self) -> None:
        return None


def longest_answer_bytes() -> int:
    """Return the size of an answer to a fetcher with the most partitions, with that batch.

    A batch that is larger than a fetch's bounds is returned alone.
    """
    api = KafkaApiSettings(NodeId(0), "c", ())
    assert api.fetch_response_max_bytes <= MAX_BATCH_BYTES
    names = (f"{number:06}".ljust(249, "x") for number in range(MAX_FOLLOWED))
    results = [FetchPartitionResult(name, 2**31 - 1, ErrorCode.NONE, Offset(1)) for name in names]
    results[0] = FetchPartitionResult(
        results[0].topic, 0, ErrorCode.NONE, Offset(1), records=Records(MAX_BATCH_BYTES)
    )
    answer = FetchResponse(tuple(results))
    return frame_size(encode_response(answer, FETCH_BY_NAME_WITH_REPLICA_EPOCH_VERSION, 1))


def announced(transport: TcpTransport, size_bytes: int) -> bytes | memoryview | None:
    """Return what the transport reads once a peer has announced an answer of that size."""
    buffer = FrameBuffer(transport._max_frame_bytes)
    buffer.space()[:4] = struct.pack(">i", size_bytes)
    buffer.received(4)
    return buffer.next_frame()


def test_an_answer_with_the_largest_batch_is_sent_and_read() -> None:
    size_bytes = longest_answer_bytes()
    assert size_bytes > MAX_BATCH_BYTES + 249 * MAX_FOLLOWED
    assert size_bytes < MAX_UNSENT_BYTES, "also where the records are in memory"
    assert announced(TcpTransport("node-1"), size_bytes) is None, "it waits for the rest"


def test_a_node_reads_every_answer_that_a_node_sends_and_no_longer_one() -> None:
    transport = TcpTransport("node-1")
    assert announced(transport, MAX_RESPONSE_BYTES) is None
    with pytest.raises(BadFrame):
        announced(transport, MAX_RESPONSE_BYTES + 1)
