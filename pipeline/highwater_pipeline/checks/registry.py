"""Every check by its short name, in the order in which reports list them."""

from __future__ import annotations

from collections.abc import Mapping

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

CHECKS: Mapping[str, Check] = {
    "completeness": completeness.CHECK,
    "segments_decode": replica_equality.SEGMENTS_DECODE,
    "acknowledged_records": acknowledged_records.CHECK,
    "successors": successors.CHECK,
    "duplicates": duplicates.CHECK,
    "order": order.CHECK,
    "inconsistent_offsets": inconsistent_offsets.CHECK,
    "reads": reads.CHECK,
    "replica_equality": replica_equality.REPLICA_EQUALITY,
    "high_watermarks_are_held": replica_equality.HIGH_WATERMARKS_ARE_HELD,
    "leader_uniqueness": leader_uniqueness.CHECK,
    "truncations": truncations.CHECK,
    "isr": isr.CHECK,
    "high_watermarks": high_watermarks.CHECK,
    "committed_before": committed_before.CHECK,
    "empty_fetches": empty_fetches.CHECK,
}
