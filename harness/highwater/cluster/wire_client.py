"""A small Kafka client that sends exactly the given requests, right or wrong: for tests of brokers.

Unlike a stock client it retries nothing, hides no error and can send any bytes.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from itertools import count
from types import TracebackType
from typing import Any, Self

from highwater_checker.kafka_python import MemoryRecordsBuilder
from highwater_core.ids import Endpoint, NodeId, Offset
from highwater_wire.kafka.codec import VERSION_PROFILE, api_key_of, decode_response, encode_request
from highwater_wire.kafka.messages import (
    CONSUMER,
    ApiVersionsRequest,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    KafkaRequest,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
)

_SIZE = struct.Struct(">i")
_PRODUCE_WAITS_MS = 10_000
_ANSWER_WITHIN_S = 30.0
"""More than any wait that this client asks of a broker: else no answer that comes at the end of
one is ever seen, as REQUEST_TIMED_OUT for records that an altered min.insync.replicas holds up."""


class ConnectionClosed(Exception):
    """The broker closed the connection instead of answering."""


class WireClient:
    """One connection to one listener; calls are answered one at a time.

    >>> with WireClient(cluster.external_endpoint(0)) as client:
    ...     response = client.call(MetadataRequest(topics=None))
    """

    def __init__(self, endpoint: Endpoint, *, timeout_s: float = _ANSWER_WITHIN_S) -> None:
        """Connect.

        Raises:
            OSError: nobody listens there.
        """
        self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # the peer, or the engine before a dead one, has reset it already
            self._socket.close()
            raise
        self._correlation_ids = count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def reset(self) -> None:
        """Close the connection with a reset: the broker gets an RST."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    # ------------------------------------------------------------ whole requests

    def call(self, request: KafkaRequest, version: int | None = None) -> Any:
        """Send the request and return its response; version None: the newest that clients use.

        Raises:
            ConnectionClosed: the broker closed the connection.
            TimeoutError: no answer in time.
        """
        if version is None:
            version = VERSION_PROFILE.offered[api_key_of(request)][1]
        correlation_id = self.ask([request], version)
        answered_id, response = decode_response(self.receive_frame(), request, version)
        if answered_id != correlation_id:
            raise ConnectionClosed(f"answered {answered_id} where {correlation_id} was asked")
        return response

    def produce(
        self,
        topic: str,
        partition: int,
        batch: bytes,
        *,
        acks: int = -1,
        timeout_ms: int = _PRODUCE_WAITS_MS,
    ) -> ProducePartitionResult:
        """Send one record batch and return the answer; acks 0 has none and is not supported."""
        part = ProducePartition(topic, partition, batch)
        response = self.call(ProduceRequest(acks, timeout_ms, (part,)))
        result: ProducePartitionResult = response.partitions[0]
        return result

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_wait_ms: int = 500,
        max_bytes: int = 1 << 20,
        replica_id: NodeId = CONSUMER,
    ) -> FetchPartitionResult:
        """Fetch from one partition, as a consumer unless replica_id says otherwise."""
        part = FetchPartition(topic, partition, Offset(offset), max_bytes)
        response = self.call(FetchRequest(replica_id, max_wait_ms, 1, max_bytes, (part,)))
        result: FetchPartitionResult = response.partitions[0]
        return result

    def ask(self, requests: Sequence[KafkaRequest], version: int | None = None) -> int:
        """Send the requests together, wait for no answer; return the last one's correlation id."""
        ids = [next(self._correlation_ids) for _ in requests]
        frames = [
            frame_of(request, version, number)
            for request, number in zip(requests, ids, strict=True)
        ]
        self.send(b"".join(frames))
        return ids[-1]

    # ------------------------------------------------------------ any bytes

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive_frame(self) -> bytes:
        """Return the next frame, without its size.

        Raises:
            ConnectionClosed: the broker closed the connection.
            TimeoutError: nothing came in time.
        """
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        return self._receive(size)

    def receive_some(self, size: int) -> bytes:
        """Return the next bytes, so many; raises as receive_frame does."""
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                part = self._socket.recv(size - len(received))
            except ConnectionError as error:
                raise ConnectionClosed(str(error)) from error
            if not part:
                raise ConnectionClosed(f"{len(received)} of {size} bytes came")
            received += part
        return bytes(received)


def frame_of(request: KafkaRequest, version: int | None = None, correlation_id: int = 0) -> bytes:
    """Return the request's frame; version None: the newest that clients use."""
    if isinstance(request, ApiVersionsRequest) and request.client_software_name is None:
        request = ApiVersionsRequest("wire-client", "1")
    if version is None:
        version = VERSION_PROFILE.offered[api_key_of(request)][1]
    pieces = encode_request(request, version, correlation_id, "wire-client")
    return b"".join(_bytes(piece) for piece in pieces)


def record_batch(values: Sequence[bytes], *, timestamp_ms: int | None = None) -> bytes:
    """Return one uncompressed v2 record batch with these values and no keys.

    timestamp_ms: of the records; default: now. Retention lets go of old ones within seconds.
    """
    at_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 30)
    for value in values:
        builder.append(timestamp=at_ms, key=None, value=value)
    builder.close()
    return bytes(builder.buffer())


def _bytes(piece: Any) -> bytes:
    return bytes(piece.read()) if hasattr(piece, "read") else bytes(piece)
