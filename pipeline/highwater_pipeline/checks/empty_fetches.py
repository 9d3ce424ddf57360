"""I9: a consumer's fetch in [high watermark, log end) gets nothing and no error."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_checker.invariants.empty_fetches import CHECK as NAME
from highwater_checker.probes import NO_ANSWER
from highwater_checker.wording import Wording
from highwater_core.errors import ErrorCode
from highwater_pipeline.checks.evidence import PARTITION
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
    kept,
)
from highwater_pipeline.checks.leaders_asked import leaders_asked
from highwater_pipeline.tables import PROBES, Tables

INVARIANT = "I9"
PROBE = ["run_id", "line"]
BOUNDS = ["least_end_offset", "least_high_watermark", "most_high_watermark"]


def run(tables: Tables) -> CheckFrames:
    """Find answers with records at or above their high watermark, or with an error in the log.

    Examined are the empty answers that certainly hid records. Their offset lay at or above the
    answer's high watermark and below the leader's log end, or at an older leader's high watermark
    above the new one's. Runs without probes are not examined.
    Source: docs/reference/invariants.md, I9; docs/reference/catalogue.md, row 23;
    highwater_checker.invariants.empty_fetches.
    """
    answered = tables[PROBES].where(fn.col("error") != NO_ANSWER)
    judged = kept(answered.join(leaders_asked(tables, answered), PROBE, "left"))
    findings = findings_of(
        judged.withColumn("wording", fn.explode(fn.array_compact(fn.array(*_wrong())))),
        fn.col("wording"),
        invariant=INVARIANT,
        offset="offset",
        broker="broker",
        operation=fn.format_string("probe at %.3f s", fn.col("asked_ns") / 1e9),
        facts=["error", "high_watermark", "last_record", *BOUNDS],
    )
    probed = tables[PROBES].select("run_id").distinct()
    examined = count_by_run(tables, _hidden(judged, answered))
    return CheckFrames(findings, examined.join(probed, "run_id", "left_semi"))


def _wrong() -> tuple[Column, ...]:
    """Return one column for each fault of an answer: its wording, or null."""
    told = fn.col("high_watermark")
    is_error, is_in_log = fn.col("error") != "", fn.col("offset") >= fn.col("log_start_offset")
    out_of_range = fn.col("error") == ErrorCode.OFFSET_OUT_OF_RANGE.name
    is_of_a_leader = fn.col("led_throughout") | out_of_range
    below_the_end = fn.col("offset") <= fn.col("least_end_offset")
    least, most = fn.col("least_high_watermark"), fn.col("most_high_watermark")
    return (
        fn.when(
            ~_is_empty() & (fn.col("last_record") >= told),
            Wording.GOT_UNCOMMITTED.name,
        ),
        fn.when(
            is_error & is_in_log & is_of_a_leader & below_the_end,
            Wording.GOT_ERROR.name,
        ),
        fn.when(
            ~is_error & is_in_log & ~told.between(least, most),
            Wording.TOLD_HIGH_WATERMARK.name,
        ),
    )


def _is_empty() -> Column:
    return fn.col("last_record") < 0


def _hidden(judged: DataFrame, answered: DataFrame) -> DataFrame:
    """Return the empty answers that hid records, each once."""
    empty = judged.where(
        (fn.col("error") == "") & _is_empty() & fn.col("led_throughout").isNotNull()
    )
    offset, told = fn.col("offset"), fn.col("high_watermark")
    between = empty.where((told <= offset) & (offset < fn.col("least_end_offset")))
    began_below = fn.col("began.high_watermark") < offset
    above = empty.where((offset > told) & began_below & (offset <= fn.col("began.offset")))
    told_before = _reported_before_by_another(above, answered)
    return between.select(*PROBE).unionByName(told_before.select(*PROBE)).distinct()


def _reported_before_by_another(probes: DataFrame, answered: DataFrame) -> DataFrame:
    """Return the probes at an offset that another broker had reported as high watermark before.

    Few probes stand there, so each is compared with the answers of its partition.
    """
    earlier = answered.where(fn.col("error") == "").select(
        *PARTITION,
        fn.col("broker").alias("teller"),
        fn.col("high_watermark").alias("told"),
        fn.col("answered_ns").alias("told_ns"),
    )
    same = [probes[name] == earlier[name] for name in PARTITION]
    before = (
        (earlier["told"] >= probes["offset"])
        & (earlier["teller"] != probes["broker"])
        & (earlier["told_ns"] <= probes["asked_ns"])
    )
    return probes.join(earlier, [*same, before], "left_semi")


CHECK = Check(NAME, run)
