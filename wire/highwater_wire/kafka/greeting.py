"""A client's first request, ApiVersions from version 3 on, by hand: kio refuses unknown tags.

A client may be newer than this codec, and sends this before it knows the server's versions: unknown
tagged fields are skipped (KIP-482, KIP-511).
"""

from __future__ import annotations

from highwater_wire.kafka.bounds import MalformedRequest, read_varint, skip_tags
from highwater_wire.kafka.messages import ApiVersionsRequest

FIRST_VERSION = 3


def read_greeting(data: memoryview, position: int) -> ApiVersionsRequest:
    """Return the request that fills data from position to its end.

    Raises:
        MalformedRequest: it does not.
    """
    name, position = _read_text(data, position)
    version, position = _read_text(data, position)
    if skip_tags(data, position) != len(data):
        raise MalformedRequest("the message does not end at the frame's end")
    return ApiVersionsRequest(name, version)


def _read_text(data: memoryview, position: int) -> tuple[str, int]:
    size, start = read_varint(data, position)
    end = start + size - 1
    if size == 0 or end > len(data):
        raise MalformedRequest("a client's name that is not there")
    try:
        return str(data[start:end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise MalformedRequest("a client's name that is not UTF-8") from error
