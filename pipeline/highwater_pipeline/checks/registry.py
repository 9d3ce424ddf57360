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
