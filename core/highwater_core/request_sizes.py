"""The sizes of requests in ZooKeeper's protocol, and their bound. Pure.

A server reads no packet above jute.maxbuffer, by default 1,048,575 bytes. It closes the connection,
and a retry of the request loses the next connection too. So each size is known and bounded before
the request is sent.
Source: ZooKeeper's zookeeper.jute and BinaryOutputArchive.
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_core.ports import CheckOp, CreateOp, DeleteOp, MultiOp, SetOp

SERVER_LIMIT_BYTES = 0xFFFFF
"""jute.maxbuffer's default: the largest packet that a server reads, its length not counted."""
MAX_REQUEST_BYTES = 1_000_000
"""The largest request of a node. A server adds some bytes when it logs a transaction."""

_LENGTH = 4
_VERSION = 4
_HEADER = 8
"""Of each request: its number in the session, and its type."""
_PART_HEADER = 9
"""Of each operation of a multi, and of its end."""
_ACL = 4 + 4 + (_LENGTH + len("world")) + (_LENGTH + len("anyone"))
"""The ACL of every znode here: anyone may do anything."""
_FLAGS = 4


def size_of_create(path: str, data: bytes) -> int:
    """Return the bytes of a request that creates a znode."""
    return _HEADER + _text(path) + _LENGTH + len(data) + _ACL + _FLAGS


def size_of_set(path: str, data: bytes) -> int:
    """Return the bytes of a request that writes a znode's data."""
    return _HEADER + _text(path) + _LENGTH + len(data) + _VERSION


def size_of_path(path: str) -> int:
    """Return the bytes of a request with a path, and at most a version or flag."""
    return _HEADER + _text(path) + _VERSION


def size_of_multi(operations: Sequence[MultiOp]) -> int:
    """Return the bytes of a request that carries out all the operations, or none."""
    return _HEADER + sum(map(size_in_multi, operations)) + _PART_HEADER


def size_in_multi(operation: MultiOp) -> int:
    """Return the bytes that one operation adds to a multi."""
    match operation:
        case CreateOp():
            size_bytes = size_of_create(operation.path, operation.data)
        case SetOp():
            size_bytes = size_of_set(operation.path, operation.data)
        case DeleteOp() | CheckOp():
            size_bytes = size_of_path(operation.path)
    return size_bytes - _HEADER + _PART_HEADER


def _text(text: str) -> int:
    return _LENGTH + len(text.encode("utf-8", "replace"))
