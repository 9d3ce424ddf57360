"""ApiVersions, every client's first request: it can read the answer to any version.

Source: KIP-511.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsRequest as OracleRequest
from kafka.protocol.metadata import ApiVersionsResponse as OracleResponse

from highwater_core.errors import ErrorCode
from highwater_wire.kafka import codec
from highwater_wire.kafka.codec import VERSION_PROFILE, MalformedRequest
from highwater_wire.kafka.messages import (
    ApiVersionRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
    UnsupportedRequest,
)

HEADER = bytes.fromhex("0012 0003 00000007 0001") + b"c"
ANSWER = ApiVersionsResponse(ErrorCode.NONE, (ApiVersionRange(0, 0, 8), ApiVersionRange(18, 0, 3)))


def joined(pieces: Any) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def decode(frame: bytes) -> Any:
    return codec.decode_request(frame, profile=VERSION_PROFILE)


@pytest.mark.parametrize("version", range(4))
def test_the_oracles_request_is_read(version: int) -> None:
    fields = {"client_software_name": "oracle", "client_software_version": "1.0"}
    request = OracleRequest[version](**(fields if version == 3 else {}))
    request.with_header(correlation_id=7, client_id="c")
    frame = decode(request.encode(header=True, framed=True)[4:])
    expected = ApiVersionsRequest("oracle", "1.0") if version == 3 else ApiVersionsRequest()
    assert (frame.correlation_id, frame.client_id, frame.request) == (7, "c", expected)


@pytest.mark.parametrize("version", range(4))
def test_the_oracle_reads_our_answer(version: int) -> None:
    sent = joined(codec.encode_response(ANSWER, version, 7))
    read = OracleResponse[version].decode(sent, header=True, framed=True)
    assert read.error_code == 0
    ranges = [(item.api_key, item.min_version, item.max_version) for item in read.api_keys]
    assert ranges == [(0, 0, 8), (18, 0, 3)]


def test_version_three_has_tags_in_its_body_and_none_in_the_answers_header() -> None:
    request = HEADER + b"\x00" + b"\x02a" + b"\x021" + b"\x00"
    assert decode(request).request == ApiVersionsRequest("a", "1")
    ranges = bytes.fromhex("0000 0000 0008 00  0012 0000 0003 00")
    body = b"\x00\x00" + b"\x03" + ranges + bytes(4) + b"\x00"
    frame = b"\x00\x00\x00\x07" + body
    assert joined(codec.encode_response(ANSWER, 3, 7)) == len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00\x00\x00",
        b"\x00\x02a\x021\x01\x00\xff\xff\xff\xff\x0f",
        b"\x00\x02a\x021\x01\x63\x05abcd",
        b"\x00\x02a\x021\x00\x00",
        b"\x00\xff\xff\xff\xff\x0fa\x021\x00",
        b"\x00\x02\xff\x021\x00",
    ],
    ids=["null names", "endless tag", "tag too long", "a byte too many", "long name", "not UTF-8"],
)
def test_a_body_that_is_none_of_version_three_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decode(HEADER + body)


def test_an_unknown_tagged_field_is_skipped() -> None:
    assert decode(HEADER + b"\x00\x02a\x021\x01\x63\x02xy").request == ApiVersionsRequest("a", "1")


def test_a_higher_version_is_answered_in_version_zero_with_what_is_served() -> None:
    frame = decode(bytes.fromhex("0012 0004 00000007 ffff 00 02"))
    assert frame.request == UnsupportedRequest(18, 4)
    pieces = codec.encode_unsupported(frame, VERSION_PROFILE)
    read = OracleResponse[0].decode(joined(pieces), header=True, framed=True)
    assert read.error_code == 35
    assert (18, 0, 3) in [(i.api_key, i.min_version, i.max_version) for i in read.api_keys]
