"""I4, I11: what a leader committed is on every leader after it, and no ISR member cuts it off."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.window import WindowSpec

from highwater_checker.wording import Wording
from highwater_core.events import EventKind
from highwater_pipeline.checks.evidence import PARTITION
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    field,
    findings_of,
)
from highwater_pipeline.checks.traces import file_of_node, with_life
from highwater_pipeline.tables import EVENTS, Tables

INVARIANT = "I4"
OF_CUTS = "I11"
BEGAN, CUT = EventKind.BECAME_LEADER.value, EventKind.LOG_TRUNCATED.value
COMMITTED = EventKind.HIGH_WATERMARK_ADVANCED.value
TELL_ISR = (BEGAN, COMMITTED, EventKind.ISR_CHANGED.value, EventKind.ISR_WRITTEN.value)
LIFE = [*PARTITION, "life"]
EPOCH = [*LIFE, "leader_epoch"]
NO_EPOCH = -1
NONE_COMMITTED = -1
_BETWEEN = ","


def run(tables: Tables) -> CheckFrames:
    """Find leaders that began without committed records, and ISR members that cut them off.

    Committed before an epoch are the records below the highest high watermark that a leader of an
    older epoch reported. A leader must begin with them.
    A member of the ISR must cut off neither them nor records that its own epoch had committed by
    then. The ISR is the last one that an event of the epoch names before the cut, or else the first
    one after it.
    Deleted topics without ids are left out. An event that lacks the ISR, or the offset from which
    a log was cut, makes no finding: the checker stops there, and C00 finds it.
    Source: docs/reference/invariants.md, I4 and I11;
    highwater_checker.invariants.committed_before.
    """
    events = _events(tables)
    is_cut = fn.col("kind") == CUT
    known = fn.when(is_cut, _before_cut()).otherwise(fn.col("before"))
    end_offset = fn.coalesce(field(known, "committed"), fn.lit(0))
    # Not least(), which would skip a null.
    from_offset = fn.col("from_offset")
    cut_of_it = fn.when(end_offset < from_offset, end_offset).otherwise(from_offset)
    lacking = (
        _with_committed(events)
        .where(fn.col("kind").isin(BEGAN, CUT))
        .where(fn.col("offset") < fn.when(is_cut, cut_of_it).otherwise(end_offset))
    )
    findings = findings_of(
        lacking,
        fn.when(is_cut, Wording.CUT_OFF_COMMITTED.name).otherwise(Wording.BEGAN_WITHOUT.name),
        invariant=fn.when(is_cut, OF_CUTS).otherwise(INVARIANT),
        offset="offset",
        broker="node",
        facts=[
            "leader_epoch",
            "from_offset",
            fn.coalesce(field(known, "leader_epoch"), fn.lit(NO_EPOCH)).alias("epoch"),
            end_offset.alias("end_offset"),
        ],
    )
    judged = events.where(fn.col("kind").isin(BEGAN, CUT))
    return CheckFrames(findings, count_by_run(tables, judged))


def _events(tables: Tables) -> DataFrame:
    """Return the events of partitions whose life is known, with file and committed.

    committed: of COMMITTED events their offset, else null. (file, seq): as in traces.events_of.
    """
    told = tables[EVENTS].where(fn.col("kind").isin(*TELL_ISR, CUT))
    return (
        with_life(tables, told)
        .dropna(subset=EPOCH)
        .select(
            *EPOCH, "kind", "ts_ns", "node", "seq", "offset", "isr", "from_offset",
            file_of_node().alias("file"),
            fn.when(fn.col("kind") == COMMITTED, fn.col("offset")).alias("committed"),
        )
    )  # fmt: skip


def _epochs(events: DataFrame) -> DataFrame:
    """Return one row for each leader epoch.

    Columns:
      EPOCH.
      before: (committed, leader_epoch), the highest high watermark that an older epoch reported.
      until_ns: the time of the epoch's last cut, or of its first event that names an ISR if that is
        later; null if nobody cut a log in the epoch.
    """
    tells_isr = fn.col("kind").isin(*TELL_ISR)
    last_cut_ns = fn.max(fn.when(fn.col("kind") == CUT, fn.col("ts_ns")))
    first_ns = fn.min(fn.when(tells_isr, fn.col("ts_ns")))
    epochs = events.groupBy(*EPOCH).agg(
        fn.max("committed").alias("committed"),
        fn.when(last_cut_ns.isNotNull(), fn.greatest(last_cut_ns, first_ns)).alias("until_ns"),
    )
    commit = fn.when(fn.col("committed").isNotNull(), fn.struct("committed", "leader_epoch"))
    older = _up_to(Window.partitionBy(*LIFE).orderBy("leader_epoch"))
    return epochs.select(*EPOCH, "until_ns", fn.max(commit).over(older).alias("before"))


def _with_committed(events: DataFrame) -> DataFrame:
    """Return the events that are judged, BEGAN and CUT, and others of their epochs.

    Columns that are added:
      before, until_ns: of the epoch, as _epochs returns them.
      last: the last earlier event of the epoch that names an ISR.
      own: the highest high watermark that an earlier event of the epoch reported.
      first: the epoch's first event that names an ISR, whenever it was.
    High watermarks reported after the epoch's last cut are many; their rows are left out.
    """
    earlier = _up_to(Window.partitionBy(*EPOCH).orderBy("ts_ns"))
    tells_isr = fn.col("kind").isin(*TELL_ISR)
    # Neither nulls nor arrays: Sail 0.7.2 compares no structs that have some.
    isr = fn.coalesce(fn.array_join("isr", _BETWEEN), fn.lit("")).alias("isr")
    committed = fn.coalesce("committed", fn.lit(NONE_COMMITTED)).alias("committed")
    told = fn.when(tells_isr, fn.struct("ts_ns", "file", "seq", isr, committed))
    return (
        events.join(fn.broadcast(_epochs(events)), EPOCH)
        .where((fn.col("kind") == BEGAN) | (fn.col("ts_ns") <= fn.col("until_ns")))
        .withColumns(
            {
                "last": fn.max(told).over(earlier),
                "own": fn.max("committed").over(earlier),
                "first": fn.min(told).over(Window.partitionBy(*EPOCH)),
            }
        )
    )


def _up_to(window: WindowSpec) -> WindowSpec:
    """Return the window with a frame of all rows that come before the current one's value."""
    return window.rangeBetween(Window.unboundedPreceding, -1)


def _before_cut() -> Column:
    """Return (committed, leader_epoch) before a cut; null if the log was then no ISR member's."""
    has_earlier = fn.col("last").isNotNull()
    own = fn.when(has_earlier, fn.col("own")).otherwise(
        fn.nullif(field(fn.col("first"), "committed"), fn.lit(NONE_COMMITTED))
    )
    isr = fn.split(field(fn.coalesce("last", "first"), "isr"), _BETWEEN)
    commit = fn.when(own.isNotNull(), fn.struct(own.alias("committed"), fn.col("leader_epoch")))
    return fn.when(
        fn.array_contains(isr, fn.col("node").cast("string")), fn.greatest("before", commit)
    )


CHECK = Check("leaders have, and members keep, committed records (I4, I11)", run)
