"""What a broker counts for its snapshot, by the names that the metrics go by.

Source: Kafka's ReplicaManager (IsrShrinksPerSec, IsrExpandsPerSec, UnderMinIsrPartitionCount,
AtMinIsrPartitionCount, OfflineReplicaCount).
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_broker.partition import Partition
from highwater_broker.partition_context import IsrChanges

Counters = tuple[tuple[str, int], ...]


def broker_counters(
    partitions: Iterable[Partition],
    isr_changes: IsrChanges,
    *,
    offline_replicas: int,
    waiting_requests: int,
    waiting_fetches: int,
) -> Counters:
    """Return the counters; those of the ISR's size are of the partitions that the broker leads."""
    spare = [each.spare_in_sync for each in partitions]
    return (
        ("waiting_requests", waiting_requests),
        ("waiting_fetches", waiting_fetches),
        ("isr_shrinks", isr_changes.shrinks),
        ("isr_expands", isr_changes.expands),
        ("under_min_isr_partitions", sum(each is not None and each < 0 for each in spare)),
        ("at_min_isr_partitions", sum(each == 0 for each in spare)),
        ("offline_replicas", offline_replicas),
    )
