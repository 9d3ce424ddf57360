"""Every check, in the order in which reports list them."""

from __future__ import annotations

from highwater_pipeline.checks import (
    acknowledged_records,
    committed_before,
    completeness,
    duplicates,
    empty_fetches,
    high_watermarks,
    inconsistent_offsets,
    isr,
    leader_uniqueness,
    order,
    reads,
    replica_equality,
    successors,
    truncations,
)
from highwater_pipeline.checks.findings import Check

CHECKS: tuple[Check, ...] = (
    completeness.CHECK,
    replica_equality.SEGMENTS_DECODE,
    acknowledged_records.CHECK,
    successors.CHECK,
    duplicates.CHECK,
    order.CHECK,
    inconsistent_offsets.CHECK,
    reads.CHECK,
    replica_equality.REPLICA_EQUALITY,
    replica_equality.HIGH_WATERMARKS_ARE_HELD,
    leader_uniqueness.CHECK,
    truncations.CHECK,
    isr.CHECK,
    high_watermarks.CHECK,
    committed_before.CHECK,
    empty_fetches.CHECK,
)

WHERE_THERE_IS_SOMETHING = (
    order.CHECK,  # of clients with one request in flight
    reads.CHECK,  # of runs with consumers
    high_watermarks.CHECK,  # where somebody looked at a leader and its followers twice
    empty_fetches.CHECK,  # where a high watermark hid something for long
)
"""A run in which these had nothing to examine still proves something by the others."""

WHERE_THERE_ARE_FOLLOWERS = (truncations.CHECK, replica_equality.REPLICA_EQUALITY)
"""Likewise these, in a run of one broker."""
