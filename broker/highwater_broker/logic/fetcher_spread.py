"""Decides which of a leader's fetchers a partition belongs to. Pure.

Source: Kafka's AbstractFetcherManager.getFetcherId. The number is the same in every process, and
partitions of one topic are spread evenly.
"""

from __future__ import annotations

from highwater_core.ids import TopicPartition

MAX_FOLLOWED = 10_000
"""Most partitions of one fetcher. A Fetch names all of them, and a leader's listener closes the
connection of one that names many more."""
MAX_ASKED = 1_000
"""Most partitions of one OffsetForLeaderEpoch, which is bounded likewise."""
_SIGN = 1 << 31


def fetcher_number(key: TopicPartition, fetcher_count: int) -> int:
    """Return the number of the partition's fetcher, in [0, fetcher_count)."""
    text_hash = 0
    for character in key.topic:
        text_hash = (31 * text_hash + ord(character)) & 0xFFFFFFFF
    mixed = (31 * text_hash + key.partition) & 0xFFFFFFFF
    size = (1 << 32) - mixed if mixed & _SIGN else mixed
    return (0 if size == _SIGN else size) % fetcher_count
