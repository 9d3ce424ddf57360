"""Decides which replicas' traffic is throttled, and sums it up. Pure.

Source: KIP-73; Kafka's SimpleRate over SampledStat, with replication.quota.window.num 11 and
replication.quota.window.size.seconds 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from highwater_core.ids import NodeId
from highwater_core.topic_configs import EVERY_REPLICA

WINDOW_MS = 1_000
WINDOWS = 11
"""Traffic before so many windows is forgotten."""


@dataclass(frozen=True, slots=True)
class Window:
    """The traffic in the WINDOW_MS from start_ms on."""

    start_ms: int
    size_bytes: int


Windows = tuple[Window, ...]
"""The oldest first."""


def record(windows: Windows, size_bytes: int, now_ms: int) -> Windows:
    """Return the windows with traffic of now; now_ms is monotonic."""
    kept = _remembered(windows, now_ms)
    if kept and now_ms - kept[-1].start_ms < WINDOW_MS:
        last = kept[-1]
        return (*kept[:-1], Window(last.start_ms, last.size_bytes + size_bytes))
    return (*kept, Window(now_ms, size_bytes))


def is_exceeded(windows: Windows, limit_bytes_per_s: int, now_ms: int) -> bool:
    """Return whether the traffic a second is above the limit, since the oldest window began.

    The time is one second at least. Any amount is forgotten in the end, so no replica waits for
    ever.
    """
    kept = _remembered(windows, now_ms)
    if not kept:
        return False
    elapsed_ms = max(now_ms - kept[0].start_ms, WINDOW_MS)
    return sum(each.size_bytes for each in kept) * 1_000 > limit_bytes_per_s * elapsed_ms


def _remembered(windows: Windows, now_ms: int) -> Windows:
    oldest_ms = now_ms - WINDOWS * WINDOW_MS
    return tuple(each for each in windows if each.start_ms > oldest_ms)


@dataclass(frozen=True, slots=True)
class ThrottledPartitions:
    """The partitions of a topic whose replica on one broker is throttled."""

    numbers: frozenset[int] = frozenset()
    all_of_them: bool = False

    def __contains__(self, partition: int) -> bool:
        return self.all_of_them or partition in self.numbers


@lru_cache(maxsize=16)  # each of a topic's partitions asks
def throttled_on(broker_id: NodeId, replicas: str) -> ThrottledPartitions:
    """Return a broker's throttled partitions in a topic's (valid) list of throttled replicas."""
    if replicas.strip() == EVERY_REPLICA:
        return ThrottledPartitions(all_of_them=True)
    pairs = (entry.split(":") for entry in replicas.split(",") if entry.strip())
    return ThrottledPartitions(
        frozenset(int(partition) for partition, broker in pairs if int(broker) == broker_id)
    )
