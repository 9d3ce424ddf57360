"""Looks at the keys of records for compacted topics before their append, giving way to others."""

from __future__ import annotations

from collections.abc import Sequence

from highwater_broker.kafka_api.lookup import PartitionLookup
from highwater_broker.kafka_api.turns import LARGE, Turns
from highwater_broker.log.record_batch import (
    KEYS_PER_STEP,
    KeyLook,
    begin_key_look,
    count_of_keys,
)
from highwater_core.ids import TopicPartition
from highwater_core.internal_topics import INTERNAL_TOPICS
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import ProducePartition

APPENDS_PER_TURN = 16
"""Appends in a turn of a larger request; they take about a millisecond."""
_KEYS_WITH_AN_APPEND = KEYS_PER_STEP // APPENDS_PER_TURN
"""Keys that an append among others looks at itself: all of a turn take a millisecond more."""
_KEYS_PER_THING = 20
"""Keys that take as long as one append does."""


class KeyLooks:
    """The looks at the keys of clients' records.

    Only batches for compacted topics have one. A batch with few records needs none beforehand: its
    append looks at them.
    """

    def __init__(self, lookup: PartitionLookup, runtime: Runtime, turns: Turns) -> None:
        self._lookup = lookup
        self._runtime = runtime
        self._turns = turns

    def are_short(self, items: Sequence[ProducePartition]) -> bool:
        """Return whether the appends may look at all keys at once."""
        left = KEYS_PER_STEP
        for item in items:
            left -= self._count(item)
            if left < 0:
                return False
        return True

    async def look(self, item: ProducePartition, things_left: int) -> KeyLook | None:
        """Return the finished look at the item's keys, None where its append is to look itself.

        It takes turns, in the last of which it returns: the append follows without an await.
        things_left: the request's remaining appends.
        """
        count = self._count(item)
        if count <= _KEYS_WITH_AN_APPEND:
            return None
        is_short = count <= 2 * KEYS_PER_STEP
        size = 0 if is_short else LARGE + count // _KEYS_PER_THING
        async with self._turns.alone(size):  # records that were unpacked stay in memory meanwhile
            await self._turns.next(things_left + count // _KEYS_PER_THING)
            look = self._begin(item)
            while look is not None and look.step():
                count = max(0, count - KEYS_PER_STEP)
                await self._turns.next(things_left + count // _KEYS_PER_THING)
        return look

    def _begin(self, item: ProducePartition) -> KeyLook | None:
        """Return a new look, None where the partition takes no records now."""
        partition = self._lookup.get(TopicPartition(item.topic, item.partition))
        if partition is None or not partition.serves_clients or not item.records:
            return None
        now_ms = self._runtime.wall_clock_ms()
        return begin_key_look(item.records, partition.log.config, now_ms)

    def _count(self, item: ProducePartition) -> int:
        partition = self._lookup.get(TopicPartition(item.topic, item.partition))
        if partition is None or not item.records or item.topic in INTERNAL_TOPICS:
            return 0
        return count_of_keys(item.records, partition.log.config)
