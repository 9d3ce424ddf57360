"""Which of highwater_checker.idle's reasons to find nothing hold in a run, by the tables' rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_checker.idle import LEAST_LOOKS, LONG_NS, Idle
from highwater_core.internal_topics import INTERNAL_TOPICS
from highwater_pipeline.checks.evidence import PARTITION, whole_replicas
from highwater_pipeline.tables import OF_THE_END, REPLICA_LOOKS, RUNS, Row, Tables

HIDDEN_FOR_LONG = f"""
WITH leaders AS (
    SELECT *, row_number() OVER (
        PARTITION BY run_id, topic, partition, look ORDER BY leader_epoch DESC, node
    ) AS place
    FROM {{replica_looks}} WHERE role = 'leader' AND look <> {OF_THE_END}
), hiding AS (
    SELECT *, look - row_number() OVER (
        PARTITION BY run_id, topic, partition, node, leader_epoch, high_watermark ORDER BY look
    ) AS stretch
    FROM leaders WHERE place = 1 AND high_watermark < log_end_offset
)
SELECT DISTINCT run_id FROM (
    SELECT run_id FROM hiding
    GROUP BY run_id, topic, partition, node, leader_epoch, high_watermark, stretch
    HAVING count(*) >= {LEAST_LOOKS}
        AND CAST(max(time_ns) AS DECIMAL(20, 0)) - min(time_ns) >= {LONG_NS}
) AS stretches
"""  # noqa: S608
"""The runs in which highwater_checker.idle.hidden_for_long finds a partition.

A stretch is of looks that follow each other, with one leader, epoch and high watermark.
"""


@dataclass(frozen=True, slots=True)
class Idleness:
    """The runs for which reasons of highwater_checker.idle do not hold.

    hiding: runs in which a high watermark hid records for long.
    replicated: runs of which two replicas of one partition were read.
    """

    hiding: Collection[str] = ()
    replicated: Collection[str] = ()

    def reasons(self, run: Row) -> set[Idle]:
        """Return the reasons that hold in the run; run: a row of RUNS."""
        reasons = {Idle.FEW_LOOKS, Idle.NOTHING_COMPACTED}
        if run["run_id"] not in self.hiding:
            reasons.add(Idle.NOTHING_HIDDEN)
        if not self._is_replicated(run):
            reasons.add(Idle.ONE_REPLICA)
        if run["consumers"] == []:
            reasons.add(Idle.NO_CONSUMERS)
        return reasons

    def _is_replicated(self, run: Row) -> bool:
        """Return whether the run must have two replicas of a partition to compare."""
        if run["only_in_sync"]:
            return run["run_id"] in self.replicated
        return run["replication_factor"] is None or run["replication_factor"] > 1


def read_idleness(tables: Tables) -> Idleness:
    """Read the idleness of all runs from the tables, by two queries."""
    return Idleness(_run_ids(hidden_for_long(tables)), _run_ids(_replicated(tables)))


def hidden_for_long(tables: Tables) -> DataFrame:
    """Return (run_id) of the runs in which a high watermark hid records for long."""
    looks = tables[REPLICA_LOOKS]
    return looks.sparkSession.sql(HIDDEN_FOR_LONG, replica_looks=looks)


def _replicated(tables: Tables) -> DataFrame:
    in_sync = tables[RUNS].where("only_in_sync").select("run_id")
    replicas = whole_replicas(tables).join(fn.broadcast(in_sync), "run_id", "left_semi")
    replicas = replicas.where(~fn.col("topic").isin(*INTERNAL_TOPICS))
    return replicas.groupBy(*PARTITION).count().where("count > 1").select("run_id").distinct()


def _run_ids(frame: DataFrame) -> frozenset[str]:
    return frozenset(row["run_id"] for row in frame.collect())
