"""Walks a frame by its schema before kio reads it, so that no array claims more than the frame has.

kio reserves memory for as many elements as an array's length says: a torn or hostile frame of
20 bytes could claim 2^31 of them and end the process. The walk reads lengths only, no values.

A request's walk also counts the cost of reading it, which blocks the event loop.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from highwater_core.check import check


class MalformedRequest(Exception):
    """A peer's frame does not match its API key and version. Responses raise it too."""


MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""For every request but Produce: ten thousand partitions of topics with the longest names."""
MAX_STRUCTURES = 12_000
"""Most topics, partitions, names and similar structures of one request: some more than the most
partitions of a cluster. Reading so many takes a twentieth of a second."""
MAX_FETCH_STRUCTURES = 30_000
"""Most topics and partitions of a follower's fetch: one request must name all partitions of a
fetcher, and reading so many costs a quarter of a second."""
_STRUCTURE_COST = 20
_TAG_COST = 1
_NUMBER_COST = 1
"""The cost of reading a number in an array, or a tag, relative to a structure or a text."""
_PARTITION_NUMBERS = ("partitions", "partition_indexes")
"""Fields whose numbers cost as much as structures: each becomes a partition with its topic."""
MAX_HEADER_TAGS = 100
MAX_REQUEST_COST = MAX_STRUCTURES * _STRUCTURE_COST


Walk = Callable[[memoryview, int], int]
"""Takes a frame and an entity's position in it; returns the entity's end, which a later step or the
caller checks against the frame's end."""

_FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "error_code": 2,
    "int32": 4,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "int64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_read_int16 = struct.Struct(">h").unpack_from
_read_int32 = struct.Struct(">i").unpack_from


class _Budget:
    """The cost that is left for a frame during one walk."""

    __slots__ = ("_most", "left")

    def __init__(self, most: int) -> None:
        self._most = most
        self.left = most

    def renew(self) -> None:
        self.left = self._most

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise MalformedRequest(f"it costs more to read than {MAX_STRUCTURES} structures")


_NO_LIMIT = 2**62


def compile_walk(entity_type: type[Any], max_cost: int = _NO_LIMIT) -> Walk:
    """Return the walk over a whole frame part that holds exactly one entity of the type.

    The walk raises MalformedRequest when the entity does not end at the frame's end, or when
    its arrays and tags cost more than max_cost to read.
    """
    budget = _Budget(max_cost)
    walk, _ = _entity_walk(entity_type, budget)

    def walk_to_end(data: memoryview, position: int) -> int:
        budget.renew()
        try:
            end = walk(data, position)
        except struct.error as error:
            raise MalformedRequest("the frame ends within a message") from error
        if end != len(data):
            raise MalformedRequest(f"the message ends {end - len(data):+} bytes off the frame's")
        return end

    return walk_to_end


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 32 bits and where it ends."""
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedRequest("a varint that does not end")


def skip_tags(data: memoryview, position: int) -> int:
    """Return the end of a header's section of tagged fields (KIP-482)."""
    return _skip_tags(data, position, _Budget(MAX_HEADER_TAGS))


def _skip_tags(data: memoryview, position: int, budget: _Budget) -> int:
    count, position = read_varint(data, position)
    budget.spend(count * _TAG_COST)
    for _ in range(count):
        _, position = read_varint(data, position)
        length, position = read_varint(data, position)
        position += length
    return position


def _tags_walk(budget: _Budget) -> Walk:
    return lambda data, position: _skip_tags(data, position, budget)


def _no_tags(data: memoryview, position: int) -> int:
    """Refuse tags where one may be an array: kio would believe its claimed length."""
    count, position = read_varint(data, position)
    if count:
        raise MalformedRequest("a tagged field that is not read here")
    return position


# ---------------------------------------------------------------- lengths


def _skip_string(data: memoryview, position: int) -> int:
    length: int = _read_int16(data, position)[0]
    return position + 2 + max(length, 0)


def _skip_bytes(data: memoryview, position: int) -> int:
    length: int = _read_int32(data, position)[0]
    return position + 4 + max(length, 0)


def _skip_compact(data: memoryview, position: int) -> int:
    length, position = read_varint(data, position)
    return position + max(length - 1, 0)


def _array_length(data: memoryview, position: int) -> tuple[int, int]:
    return max(_read_int32(data, position)[0], 0), position + 4


def _compact_array_length(data: memoryview, position: int) -> tuple[int, int]:
    length, position = read_varint(data, position)
    return max(length - 1, 0), position


# ---------------------------------------------------------------- compiling


def _fixed(size: int) -> Walk:
    return lambda _data, position: position + size


def _entity_walk(entity_type: type[Any], budget: _Budget) -> tuple[Walk, int]:
    """Return the entity's walk and the fewest bytes that it can take."""
    flexible = entity_type.__flexible__
    steps: list[Walk] = []
    may_have_tags = True
    pending_fixed = 0
    least = 0
    for field in fields(entity_type):
        if "tag" in field.metadata:
            may_have_tags = may_have_tags and not _is_array(field.type)
            continue
        walk, size, is_fixed = _field_walk(field, flexible, budget)
        least += size
        if is_fixed:
            pending_fixed += size
            continue
        if pending_fixed:
            steps.append(_fixed(pending_fixed))
            pending_fixed = 0
        steps.append(walk)
    if pending_fixed:
        steps.append(_fixed(pending_fixed))
    if flexible:
        steps.append(_tags_walk(budget) if may_have_tags else _no_tags)
        least += 1

    def walk_entity(data: memoryview, position: int) -> int:
        for step in steps:
            position = step(data, position)
        return position

    return walk_entity, least


def _field_walk(field: Any, flexible: bool, budget: _Budget) -> tuple[Walk, int, bool]:
    """Return the field's walk, the fewest bytes that it can take, and whether it always does."""
    if not _is_array(field.type):
        return _primitive_walk(field.metadata["kafka_type"], flexible)
    inner = _without_none(get_args(_without_none(field.type))[0])
    if is_dataclass(inner):
        element, least = _entity_walk(inner, budget)  # type: ignore[arg-type]
        walk = _array_walk(element, least, flexible, budget, _STRUCTURE_COST)
    else:
        element, least, is_fixed = _primitive_walk(field.metadata["kafka_type"], flexible)
        is_number = is_fixed and field.name not in _PARTITION_NUMBERS
        cost = _NUMBER_COST if is_number else _STRUCTURE_COST
        walk = _array_walk(element, least, flexible, budget, cost)
    return walk, 1 if flexible else 4, False


def _primitive_walk(kafka_type: str, flexible: bool) -> tuple[Walk, int, bool]:
    size = _FIXED_SIZES.get(kafka_type)
    if size is not None:
        return _fixed(size), size, True
    check(kafka_type in {"string", "bytes", "records"}, f"no walk over {kafka_type}")
    if flexible:
        return _skip_compact, 1, False
    if kafka_type == "string":
        return _skip_string, 2, False
    return _skip_bytes, 4, False


def _array_walk(element: Walk, least: int, flexible: bool, budget: _Budget, cost: int) -> Walk:
    read_length = _compact_array_length if flexible else _array_length
    check(least > 0, "an array's element takes at least a byte")

    def walk_array(data: memoryview, position: int) -> int:
        count, position = read_length(data, position)
        if count * least > len(data) - position:
            raise MalformedRequest(f"an array of {count} elements in {len(data)} bytes")
        budget.spend(count * cost)
        for _ in range(count):
            position = element(data, position)
        return position

    return walk_array


def _is_array(field_type: Any) -> bool:
    return get_origin(_without_none(field_type)) is tuple


def _without_none(field_type: Any) -> Any:
    if get_origin(field_type) is not UnionType:
        return field_type
    (inner,) = (part for part in get_args(field_type) if part is not NoneType)
    return inner
