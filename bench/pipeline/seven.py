"""The seven checks that targets are set for, and which of the pipeline's stands for each.

The first study of the pipeline measured seven queries at 10^8 events. Six ask what a check or a
metric of the pipeline asks too. That a high watermark never falls was asked of each node twice, by
a window and by a Python function: no check asks it like that, and two with the same work stand for
it, a window along each node's events and one along what leaders called committed.
"""

from __future__ import annotations

from highwater_pipeline.checks import (
    acknowledged_records,
    committed_before,
    completeness,
    leader_uniqueness,
    reads,
)
from highwater_pipeline.checks.replica_equality import REPLICA_EQUALITY

LATENCIES = "latency percentiles of sends (M01)"
"""No check: a metric, of the seven all the same."""

SEVEN = {
    acknowledged_records.CHECK.name: "lost write",
    REPLICA_EQUALITY.name: "divergence",
    leader_uniqueness.CHECK.name: "leader uniqueness",
    completeness.CHECK.name: "high watermark monotonic, by a window",
    committed_before.CHECK.name: "high watermark monotonic, by a function",
    reads.CHECK.name: "read above the high watermark",
    LATENCIES: "acknowledgement latency percentiles",
}
"""By the name here, what it stands for."""

ROWS_PER_S = 3_500_000
"""The target of each: rows of all tables, by the seconds that it takes."""
TOGETHER_S = 240
TOGETHER_ROWS = 100_000_000
"""The target of all seven, one after the other: so many seconds at so many rows."""
