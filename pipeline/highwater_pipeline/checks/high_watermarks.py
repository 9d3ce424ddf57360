"""I4: at no moment of a run is a leader's high watermark above what an ISR member has."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from highwater_checker.invariants.high_watermark_in_run import CHECK as NAME
from highwater_checker.wording import Wording
from highwater_core.events import EventKind
from highwater_pipeline.checks.evidence import PARTITION, replica_looks_in_run
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
)
from highwater_pipeline.checks.traces import events_of, with_life
from highwater_pipeline.tables import Tables

INVARIANT = "I4"
STAY = [*PARTITION, "life", "node", "leader_epoch"]
MEMBER = [*PARTITION, "look", "member"]


def run(tables: Tables) -> CheckFrames:
    """Find ISR members whose log ended below the high watermark that their leader had before.

    A leader's high watermark in one look is compared with a member's log end in the next look. Only
    members whose log was not cut below it in between are compared. Runs without looks are not
    examined.
    Source: docs/reference/invariants.md, I4;
    highwater_checker.invariants.high_watermark_in_run.
    """
    pairs = _pairs(tables)
    in_order = Window.partitionBy(*PARTITION, "member").orderBy("look", "node", "place")
    first_of_each = (
        pairs.where(fn.col("log_end_offset") < fn.col("high_watermark"))
        .withColumn("number", fn.row_number().over(in_order))
        .where("number = 1")
    )
    findings = findings_of(
        first_of_each,
        Wording.MEMBER_LACKS,
        invariant=INVARIANT,
        offset="log_end_offset",
        broker="member",
        facts=[
            "node",
            "leader_epoch",
            "high_watermark",
            "isr",
            (fn.col("time_ns") / 1e9).alias("before_s"),
        ],
    )
    looked = replica_looks_in_run(tables).select("run_id").distinct()
    examined = count_by_run(tables, pairs).join(looked, "run_id", "left_semi")
    return CheckFrames(findings, examined)


def _pairs(tables: Tables) -> DataFrame:
    """Return each look at a leader beside the next look at each other member of its ISR.

    Row grain: (run_id, topic, partition, look, node, place): the leader's look, the leader, and
    the member's place in its ISR.
    Columns of the leader: high_watermark, isr and time_ns.
    Columns of the member: member, its id, and log_end_offset.
    """
    told = _advanced(tables).select(
        *STAY, "look", "time_ns", "high_watermark", "isr", "topic_id",
        fn.posexplode("isr").alias("place", "member"),
    )  # fmt: skip
    was = _followers(tables, "was", fn.col("look"))
    now = _followers(tables, "now", fn.col("look") - 1)
    both = (
        told.where(fn.col("member") != fn.col("node"))
        .join(was, MEMBER)
        .join(now, MEMBER)
        .where(_follows("was") & _follows("now"))
        .where(fn.col("was.incarnation") == fn.col("now.incarnation"))
        .withColumn("log_end_offset", fn.col("now.log_end_offset"))
    )
    shrinking = _cuts(tables).withColumnRenamed("node", "member")
    alone = _in_one_incarnation(tables).withColumnRenamed("node", "member")
    stay = ["member" if name == "node" else name for name in STAY]
    return (
        both.join(fn.broadcast(alone), stay, "left_semi")
        .join(fn.broadcast(shrinking), stay, "left")
        .where(fn.col("cut_to").isNull() | (fn.col("cut_to") >= fn.col("high_watermark")))
    )


def _advanced(tables: Tables) -> DataFrame:
    """Return the looks at leaders that raised their high watermark in their epoch."""
    brought = (
        with_life(tables, events_of(tables, EventKind.BECAME_LEADER))
        .groupBy(*STAY)
        .agg(fn.greatest(fn.max("high_watermark"), fn.lit(0)).alias("brought"))
    )
    return (
        with_life(tables, replica_looks_in_run(tables).where(fn.col("role") == "leader"))
        .join(fn.broadcast(brought), STAY)
        .where(fn.col("high_watermark") > fn.col("brought"))
    )


def _followers(tables: Tables, name: str, look: Column) -> DataFrame:
    """Return the looks at followers by MEMBER, each in one column of that name.

    look: the number under which each look is returned.
    """
    told = fn.struct("incarnation", "leader_epoch", "topic_id", "log_end_offset")
    return (
        replica_looks_in_run(tables)
        .where(fn.col("role") == "follower")
        .select(*PARTITION, look.alias("look"), fn.col("node").alias("member"), told.alias(name))
    )


def _follows(name: str) -> Column:
    """Return whether a follower's look is of its leader's epoch and topic."""
    same_epoch = fn.col(f"{name}.leader_epoch") == fn.col("leader_epoch")
    return same_epoch & fn.col(f"{name}.topic_id").eqNullSafe(fn.col("topic_id"))


def _cuts(tables: Tables) -> DataFrame:
    """Return the lowest offset to which each node cut its log in each epoch, as cut_to."""
    cut = with_life(tables, events_of(tables, EventKind.LOG_TRUNCATED))
    return cut.groupBy(*STAY).agg(fn.min("offset").alias("cut_to"))


def _in_one_incarnation(tables: Tables) -> DataFrame:
    """Return the STAYs, a node's time in one epoch, in which one incarnation alone followed."""
    followed = with_life(tables, events_of(tables, EventKind.BECAME_FOLLOWER))
    incarnations = followed.groupBy(*STAY).agg(fn.countDistinct("incarnation").alias("number"))
    return incarnations.where("number = 1").select(*STAY)


CHECK = Check(NAME, run)
