"""Every check by its short name, in the order in which reports list them."""

from __future__ import annotations

from collections.abc import Mapping

from highwater_checker.invariants.committed_offsets import CHECK as COMMITTED_OFFSETS
from highwater_checker.invariants.compactions import CHECK as COMPACTIONS
from highwater_checker.invariants.coordinators import CHECK as COORDINATORS
from highwater_checker.invariants.deliveries import CHECK as DELIVERIES
from highwater_checker.invariants.generations import CHECK as GENERATIONS
from highwater_checker.invariants.going_on import CHECK as GOING_ON
from highwater_checker.invariants.reads import CHECK as READS
from highwater_checker.invariants.transitions import CHECK as TRANSITIONS
from highwater_checker.invariants.truncations import CHECK as TRUNCATIONS
from highwater_pipeline.checks import (
    acknowledged_records,
    committed_before,
    empty_fetches,
    high_watermarks,
    reads,
    replica_equality,
    successors,
)
from highwater_pipeline.checks.findings import Check
from highwater_pipeline.checks.in_sql import check_in_sql

GROUP_READS = f"groups: {READS}"

CHECKS: Mapping[str, Check] = {
    "completeness": check_in_sql("completeness", "traces are whole (C00)"),
    "segments_decode": check_in_sql("segments_decode", "segments decode"),
    "acknowledged_records": acknowledged_records.CHECK,
    "successors": successors.CHECK,
    "duplicates": check_in_sql("duplicates", "a record sent once is stored once"),
    "order": check_in_sql("order", "records lie in the order of sends"),
    "inconsistent_offsets": check_in_sql(
        "inconsistent_offsets", "one offset is one record to everyone"
    ),
    "reads": reads.CHECK,
    "group_reads": check_in_sql("group_reads", GROUP_READS),
    "replica_equality": replica_equality.CHECK,
    "high_watermarks_are_held": check_in_sql(
        "high_watermarks_are_held", "log start <= HW <= LEO (I4)"
    ),
    "leader_uniqueness": check_in_sql("leader_uniqueness", "one leader per leader epoch (I7)"),
    "truncations": check_in_sql("truncations", TRUNCATIONS),
    "isr": check_in_sql("isr", "the ISR is within the assignment (I6)"),
    "high_watermarks": high_watermarks.CHECK,
    "committed_before": committed_before.CHECK,
    "compactions": check_in_sql("compactions", COMPACTIONS),
    "transitions": check_in_sql("transitions", TRANSITIONS),
    "coordinators": check_in_sql("coordinators", COORDINATORS),
    "committed_offsets": check_in_sql("committed_offsets", COMMITTED_OFFSETS),
    "generations": check_in_sql("generations", GENERATIONS),
    "deliveries": check_in_sql("deliveries", DELIVERIES),
    "going_on": check_in_sql("going_on", GOING_ON),
    "empty_fetches": empty_fetches.CHECK,
}
