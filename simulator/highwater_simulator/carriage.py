"""How values travel in the simulator: handed over as they are, or copied through the codecs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from highwater_core.messages import ControlRequest, ControlResponse
from highwater_simulator.calls import Carriage
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
from highwater_wire.kafka.messages import FetchResponse, KafkaRequest, KafkaResponse
from highwater_wire.kafka.versions import REPLICATION_PROFILE

_SIZE_BYTES = 4


def _as_it_is(request: Any) -> Any:
    return request


def _detached(_: Any, response: Any) -> Any:
    """Return the response with its records read: a view of a log must not outlive the sending."""
    if not isinstance(response, FetchResponse):
        return response
    partitions = tuple(
        partition
        if type(partition.records) is bytes
        else replace(partition, records=_bytes_of(partition.records))
        for partition in response.partitions
    )
    return FetchResponse(partitions, response.error)


def _bytes_of(records: Any) -> bytes:
    if isinstance(records, bytes | bytearray | memoryview):
        return bytes(records)
    found: bytes = records.read()
    return found


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


def _kafka_response_through_codec(
    request: KafkaRequest, response: KafkaResponse | None
) -> KafkaResponse | None:
    if response is None:
        return None
    version = replication_version(request)
    frame = _frame(encode_response(response, version, 0))
    return decode_response(frame, request, version)[1]


def _frame(pieces: list[Piece]) -> bytes:
    """Return the frame without its size."""
    return b"".join(_bytes_of(piece) for piece in pieces)[_SIZE_BYTES:]


CONTROL_BY_VALUE = Carriage(_as_it_is, lambda _, response: response)
CONTROL_BY_CODEC = Carriage(_control_request_through_codec, _control_response_through_codec)
KAFKA_BY_VALUE = Carriage(_as_it_is, _detached)
KAFKA_BY_CODEC = Carriage(_kafka_request_through_codec, _kafka_response_through_codec)
