"""A group's partition is the one that Apache Kafka computes."""

from __future__ import annotations

import pytest

from highwater_broker.coordinator.logic.placement import java_hash, offsets_partition


@pytest.mark.parametrize(
    ("group_id", "hash_code", "partition_of_50"),
    [
        ("", 0, 0),
        ("group", 98629247, 47),
        ("grüppe", -1233264812, 36),
        ("perf-consumer-1", -706043522, 26),
        ("\N{GRINNING FACE}", 1772899, 49),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaa", 2107059616, 16),
        ("polygenelubricants", -2147483648, 0),
    ],
)
def test_a_group_is_placed_by_javas_hash_of_its_id(
    group_id: str, hash_code: int, partition_of_50: int
) -> None:
    """As Java 17 says of these strings."""
    assert java_hash(group_id) == hash_code
    assert offsets_partition(group_id, 50) == partition_of_50
