"""How values travel in the simulator: as they are, or copied through the codecs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from highwater_core.messages import ControlRequest, ControlResponse
from highwater_simulator.calls import Carriage
from highwater_simulator.unread import FileRange, Sender, Unread
from highwater_wire.control import (
    decode_control_request,
    decode_control_response,
    encode_control_request,
    encode_control_response,
)
from highwater_wire.kafka.codec import (
    Piece,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    replication_version,
)
from highwater_wire.kafka.messages import (
    FetchPartitionResult,
    FetchResponse,
    KafkaRequest,
    KafkaResponse,
)
from highwater_wire.kafka.versions import REPLICATION_PROFILE

_SIZE_BYTES = 4


def _as_it_is(request: Any) -> Any:
    return request


def _control_request_through_codec(request: ControlRequest) -> ControlRequest:
    return decode_control_request(*encode_control_request(request))


def _control_response_through_codec(
    request: ControlRequest, response: ControlResponse
) -> ControlResponse:
    path, _ = encode_control_request(request)
    return decode_control_response(path, encode_control_response(path, response))


def _kafka_request_through_codec(request: KafkaRequest) -> KafkaRequest:
    frame = _frame(encode_request(request, replication_version(request), 0, "simulator"))
    return decode_request(frame, profile=REPLICATION_PROFILE).request


class _KafkaByValue:
    """Kafka's answers as values, their records read as they leave or as they arrive."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def response(self, _: KafkaRequest, response: KafkaResponse | None) -> Any:
        """Return the response with its records read: a view of a log must not outlive sending."""
        if not isinstance(response, FetchResponse):
            return response
        left = _owned(self._sender, response)
        if any(isinstance(partition.records, FileRange) for partition in left.partitions):
            return Unread(functools.partial(_read_records, left))
        return left


def _owned(sender: Sender, response: FetchResponse) -> FetchResponse:
    """Return the partition's answer with its records read, or with an error where reading fails.

    As in the real listener, a disk error costs its partition alone.
    """
    partitions: list[FetchPartitionResult] = []
    for partition in response.partitions:
        if type(partition.records) is not bytes:
            try:
                records: Any = sender.own(partition.records)
                partition = replace(partition, records=records)
            except OSError:
                partition = partition.unreadable()
        partitions.append(partition)
    return FetchResponse(tuple(partitions), response.error)


def _read_records(response: FetchResponse) -> FetchResponse:
    partitions = [
        replace(partition, records=partition.records.read())
        if isinstance(partition.records, FileRange)
        else partition
        for partition in response.partitions
    ]
    return FetchResponse(tuple(partitions), response.error)


class _KafkaByCodec:
    """Kafka's answers as frames, their pieces read as they leave or as they arrive."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def response(self, request: KafkaRequest, response: KafkaResponse | None) -> Any:
        if response is None:
            return None
        if isinstance(response, FetchResponse):
            response = _owned(self._sender, response)
        version = replication_version(request)
        pieces = [self._sender.own(piece) for piece in encode_response(response, version, 0)]
        read = functools.partial(_read_frame, pieces, request, version)
        if any(isinstance(piece, FileRange) for piece in pieces):
            return Unread(read)
        return read()


def _read_frame(
    pieces: Sequence[bytes | FileRange], request: KafkaRequest, version: int
) -> KafkaResponse:
    frame = _frame([piece.read() if isinstance(piece, FileRange) else piece for piece in pieces])
    return decode_response(frame, request, version)[1]


def _frame(pieces: Iterable[Piece]) -> bytes:
    """Return the frame without its size."""
    return b"".join(pieces)[_SIZE_BYTES:]  # type: ignore[arg-type]


def kafka_carriage(sender: Sender, *, through_codecs: bool) -> Carriage:
    """Return the carriage of Kafka's requests and of this broker's answers."""
    if through_codecs:
        return Carriage(_kafka_request_through_codec, _KafkaByCodec(sender).response)
    return Carriage(_as_it_is, _KafkaByValue(sender).response)


CONTROL_BY_VALUE = Carriage(_as_it_is, lambda _, response: response)
CONTROL_BY_CODEC = Carriage(_control_request_through_codec, _control_response_through_codec)
KAFKA_BY_CODEC = kafka_carriage(Sender(), through_codecs=True)
