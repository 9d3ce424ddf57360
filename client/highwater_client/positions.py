"""A consumer's position in each of its partitions, and whether it has read them to the end."""

from __future__ import annotations

from collections.abc import Iterable

from highwater_core.ids import Endpoint, Offset
from highwater_core.runtime import Event, Runtime
from highwater_wire.kafka.messages import FetchPartition


class AssignedPartition:
    """One partition of a consumer.

    position: the offset to read next; None until it is known.
    leader: the broker to fetch from; None while unknown.
    failures: in a row.
    has_been_placed: from now on a new position follows the reset policy.
    """

    __slots__ = (
        "_fetch",
        "failures",
        "has_been_placed",
        "has_ended",
        "high_watermark",
        "is_resting",
        "leader",
        "max_bytes",
        "partition",
        "position",
        "topic",
    )

    def __init__(self, topic: str, partition: int, max_bytes: int) -> None:
        self.topic = topic
        self.partition = partition
        self.max_bytes = max_bytes
        self.position: int | None = None
        self.high_watermark = -1
        self.leader: Endpoint | None = None
        self.is_resting = False
        self.failures = 0
        self.has_been_placed = False
        self.has_ended = False
        self._fetch: FetchPartition | None = None

    def place(self, offset: int) -> None:
        """Read on from this offset."""
        self.position = offset
        self.has_been_placed = True

    def fetch_partition(self) -> FetchPartition:
        """Return the partition's part of a Fetch; the same object for the same position."""
        position = Offset(self.position or 0)
        if self._fetch is None or self._fetch.fetch_offset != position:
            self._fetch = FetchPartition(self.topic, self.partition, position, self.max_bytes)
        return self._fetch


class Progress:
    """Knows when every partition has been read to the high watermark of its leader's answer."""

    def __init__(self, runtime: Runtime) -> None:
        self.round = 0
        """Counts the calls of caught_up; a request belongs to the round in which it was sent."""
        self._behind: dict[AssignedPartition, None] = {}
        self._caught_up: Event = runtime.event()

    def is_behind(self, item: AssignedPartition) -> bool:
        """Return whether a caller waits for the partition to be read to the end."""
        return item in self._behind

    def answered(self, item: AssignedPartition, asked_in_round: int) -> None:
        """Note the position after an answer, and the answer's high watermark."""
        if (
            asked_in_round == self.round
            and item in self._behind
            and (item.position or 0) >= item.high_watermark
        ):
            self.ended(item)

    def ended(self, item: AssignedPartition) -> None:
        """Wait for the partition no longer."""
        self._behind.pop(item, None)
        if not self._behind:
            self._caught_up.set()

    async def caught_up(self, items: Iterable[AssignedPartition], within_ms: int) -> bool:
        self.round += 1
        self._behind = dict.fromkeys(item for item in items if not item.has_ended)
        self._caught_up.clear()
        return not self._behind or await self._caught_up.wait(within_ms)
