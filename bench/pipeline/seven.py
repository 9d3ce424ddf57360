"""The seven checks that targets are set for, and which of the pipeline's stands for each.

The first study of the pipeline measured seven queries at 10^8 events. For six the pipeline has a
check or a metric of the same meaning. The study checked twice that a node's high watermark never
falls, by a window and by a Python function. No check does that; two with the same work stand for
it: a window along each node's events, and one along the committed offsets that leaders traced.
"""

from __future__ import annotations

from highwater_pipeline.checks.registry import CHECKS

LATENCIES = "latency percentiles of sends (M01)"
"""No check: a metric, of the seven all the same."""

SEVEN = {
    CHECKS["acknowledged_records"].name: "lost write",
    CHECKS["replica_equality"].name: "divergence",
    CHECKS["leader_uniqueness"].name: "leader uniqueness",
    CHECKS["completeness"].name: "high watermark monotonic, by a window",
    CHECKS["committed_before"].name: "high watermark monotonic, by a function",
    CHECKS["reads"].name: "read above the high watermark",
    LATENCIES: "acknowledgement latency percentiles",
}
"""The query of the study that each check or metric stands for."""

ROWS_PER_S = 3_500_000
"""The target of each: rows of all tables, by the seconds that it takes."""
TOGETHER_S = 240
TOGETHER_ROWS = 100_000_000
"""The target of all seven, one after the other: so many seconds at so many rows."""
