"""A consumer group's subscriptions and assignments: their format, and assignment by ranges.

Pure. Source: Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment, version 0;
RangeAssignor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from highwater_core.ids import TopicPartition

RANGE = "range"
CONSUMER = "consumer"


class BadAssignment(Exception):
    """The bytes of another member cannot be decoded."""


def encode_subscription(topics: Iterable[str]) -> bytes:
    names = list(topics)
    return struct.pack(">hi", 0, len(names)) + b"".join(map(_text, names)) + struct.pack(">i", -1)


def decode_subscription(data: bytes) -> tuple[str, ...]:
    """Return the topics. Fields that later versions have behind them are ignored.

    Raises:
        BadAssignment: the bytes are incomplete.
    """
    return _Reader(data).topics()


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for each in sorted(partitions):
        by_topic.setdefault(each.topic, []).append(each.partition)
    topics = b"".join(
        _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in by_topic.items()
    )
    return struct.pack(">hi", 0, len(by_topic)) + topics + struct.pack(">i", -1)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions; none where there are no bytes.

    Raises:
        BadAssignment: the bytes are incomplete.
    """
    return _Reader(data).assignment() if data else ()


def assign_ranges(
    subscriptions: Mapping[str, tuple[str, ...]], partition_counts: Mapping[str, int]
) -> dict[str, tuple[TopicPartition, ...]]:
    """Return each member's partitions: one range of every topic, of equal sizes if possible.

    subscriptions: each member's topics. Where sizes cannot be equal, members with lower ids get
    one partition more.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in sorted(subscriptions)}
    topics = sorted({topic for named in subscriptions.values() for topic in named})
    for topic in topics:
        members = [member for member in assigned if topic in subscriptions[member]]
        count = partition_counts.get(topic, 0)
        each, more = divmod(count, len(members))
        start = 0
        for number, member in enumerate(members):
            end = start + each + (number < more)
            assigned[member].extend(TopicPartition(topic, one) for one in range(start, end))
            start = end
    return {member: tuple(partitions) for member, partitions in assigned.items()}


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class _Reader:
    """Reads fields from the front; bytes behind the last field are ignored."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 2  # behind the version

    def topics(self) -> tuple[str, ...]:
        return tuple(self._name() for _ in range(self._count()))

    def assignment(self) -> tuple[TopicPartition, ...]:
        partitions: list[TopicPartition] = []
        for _ in range(self._count()):
            topic = self._name()
            partitions.extend(TopicPartition(topic, self._number()) for _ in range(self._count()))
        return tuple(partitions)

    def _count(self) -> int:
        count = self._number()
        if not 0 <= count <= len(self._data):
            raise BadAssignment(f"{count} elements in {len(self._data)} bytes")
        return count

    def _number(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def _name(self) -> str:
        length = int.from_bytes(self._take(2), "big", signed=True)
        try:
            return str(self._take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise BadAssignment("a topic that is not UTF-8") from error

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise BadAssignment(f"{length} bytes at {self._position} of {len(self._data)}")
        start, self._position = self._position, end
        return self._data[start:end]
