"""The one module that uses kio: schemas by API and version, entities to pieces of bytes and back.

Records are never copied when they are encoded: any object with a length may stand for them, and
becomes a piece of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from types import ModuleType
from typing import Any, TypeVar
from uuid import UUID

from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.constants import EntityType

from highwater_core.check import check
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_TOPIC_ID, TopicId
from highwater_wire.kafka.bounds import MAX_REQUEST_COST, MalformedRequest, Walk, compile_walk
from highwater_wire.kafka.messages import ApiKey, RecordsView

Piece = bytes | bytearray | memoryview | RecordsView
"""A part of a frame; a RecordsView may be sent by sendfile."""

JOIN_BELOW_BYTES = 8 * 1024
"""Pieces smaller than this are joined with their neighbours: a copy is cheaper than a buffer."""

NO_THROTTLE = timedelta(0)
_MILLISECOND = timedelta(milliseconds=1)
_ERRORS = {int(code): code for code in ErrorCode}


# ---------------------------------------------------------------- schemas


@dataclass(frozen=True, slots=True)
class Schema:
    """One direction of one version of an API: its classes, its reader and its writer."""

    types: ModuleType
    version: int
    flexible: bool
    walk: Walk
    read: Callable[[Any, int], tuple[Any, int]]
    write: Callable[[Any, Any], None]


@cache
def request_schema(api_key: ApiKey, version: int) -> Schema:
    return _schema(api_key, version, EntityType.request)


@cache
def response_schema(api_key: ApiKey, version: int) -> Schema:
    return _schema(api_key, version, EntityType.response)


def _schema(api_key: ApiKey, version: int, entity_type: Any) -> Schema:
    module = load_payload_module(int(api_key), version, entity_type)
    payload: Any
    (payload,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and getattr(value, "__type__", None) is entity_type
    )
    is_request = entity_type is EntityType.request
    return Schema(
        types=module,
        version=version,
        flexible=payload.__flexible__,
        walk=compile_walk(payload, MAX_REQUEST_COST) if is_request else compile_walk(payload),
        read=entity_reader(payload),
        write=entity_writer(payload),
    )


def make(entity_type: type[Any], **values: Any) -> Any:
    """Return the entity with the values for which its version has a field."""
    known: Mapping[str, Any] = entity_type.__dataclass_fields__
    return entity_type(**{name: value for name, value in values.items() if name in known})


# ---------------------------------------------------------------- reading


def read_entity(schema: Schema, data: memoryview, position: int) -> Any:
    """Return the entity that fills data from position to its end.

    Raises:
        MalformedRequest: the bytes are no such entity.
    """
    schema.walk(data, position)
    try:
        entity, _ = schema.read(data, position)
    except (SerialError, ValueError, KeyError, OverflowError, TypeError) as error:
        raise MalformedRequest(f"{type(error).__name__}: {error}") from error
    return entity


Row = TypeVar("Row")


def rows(values: tuple[Row, ...] | None) -> tuple[Row, ...]:
    """Return an array that the protocol does not allow to be null."""
    if values is None:
        raise MalformedRequest("null where an array belongs")
    return values


def known_error(code: int) -> ErrorCode:
    """Return the registry's error; a code that is not in it becomes UNKNOWN_SERVER_ERROR."""
    return _ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def read_error(code: Any) -> ErrorCode:
    """Return the registry's error for kio's."""
    return known_error(code.value)


def read_ms(duration: timedelta) -> int:
    return duration // _MILLISECOND


def write_ms(duration_ms: int) -> timedelta:
    return timedelta(milliseconds=duration_ms)


def read_topic_id(value: UUID | None) -> TopicId:
    return NO_TOPIC_ID if value is None else TopicId(value.hex)


def write_topic_id(value: TopicId) -> UUID | None:
    return UUID(hex=value) if value else None


T = TypeVar("T")


def by_topic(items: Iterable[T], name: Callable[[T], str]) -> dict[str, list[T]]:
    """Return the items by topic, topics in order of first appearance, each one's items in order."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(name(item), []).append(item)
    return groups


# ---------------------------------------------------------------- writing


class UnencodableResponse(Exception):
    """A response has a value that does not fit its field: a text too long, a number too large."""


NOT_ENCODABLE = (SerialError, struct.error, ValueError, OverflowError, TypeError)
"""The errors of kio, struct and str.encode for such a value."""


class PieceSink:
    """The sink of kio's writes; small writes are joined, large ones and views stay as they are."""

    def __init__(self, head: bytes) -> None:
        self._small: list[bytes | bytearray | memoryview] = [head]
        self._pieces: list[Piece] = []
        self._length = len(head)

    def write(self, data: Piece) -> None:
        length = len(data)
        self._length += length
        if isinstance(data, bytes | bytearray | memoryview) and length < JOIN_BELOW_BYTES:
            self._small.append(data)
        elif length:
            self._join()
            self._pieces.append(data)

    def frame(self) -> list[Piece]:
        """Return the pieces behind a piece that starts with their length (4 bytes)."""
        self._join()
        first = self._pieces[0]
        check(isinstance(first, bytes), "a frame starts with its head")
        self._pieces[0] = struct.pack(">i", self._length) + bytes(first)  # type: ignore[arg-type]
        return self._pieces

    def _join(self) -> None:
        if self._small:
            self._pieces.append(b"".join(self._small))
            self._small = []


def frame_size(pieces: Sequence[Piece]) -> int:
    """Return the length of all pieces together, with the size prefix."""
    return sum(len(piece) for piece in pieces)
