"""Which partition of `__consumer_offsets` a group's records are in. Pure.

All brokers must agree on it, as must whoever reads the topic: it goes by Java's hash of the id.
Source: Kafka's GroupMetadataManager.partitionFor.
"""

from __future__ import annotations

import struct


def java_hash(text: str) -> int:
    """Return Java's String.hashCode of the text: a signed 32-bit number."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", data):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def offsets_partition(group_id: str, partition_count: int) -> int:
    """Return the number of the group's partition. partition_count: at least one."""
    return (java_hash(group_id) & 0x7FFFFFFF) % partition_count
