"""The checks of the seven that are short in polars, over the same files.

Each finds the same as the SQL text of its name; `reads` and `committed_before` are long in any
language and are left out.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from bench.pipeline.cost import Answer, Engine, Job
from bench.pipeline.seven import LATENCIES
from highwater_core.events import EventKind
from highwater_pipeline.checks.evidence import OPERATION, PARTITION, REPLICA
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.tables import EVENTS, OPERATIONS, RECORDS, REPLICAS, Table

LEADERSHIP = [*PARTITION, "life", "leader_epoch"]
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
STOPPED = 3
"""The exit code of a process whose check took too long: polars cannot be interrupted."""
Scan = Callable[[Table], pl.LazyFrame]
Query = Callable[[Scan], tuple[pl.LazyFrame, pl.LazyFrame]]
"""Returns a row for each finding, and a row for each examined item."""


@contextmanager
def polars_engine(job: Job) -> Iterator[Engine]:
    """Yield polars' streaming engine, with all memory of the machine."""
    yield Engine(
        pid=os.getpid(),
        checks={name: functools.partial(_ask, query, job) for name, query in QUERIES.items()},
        stop=lambda: os._exit(STOPPED),
        failures=(pl.exceptions.PolarsError,),
    )


def _ask(query: Query, job: Job) -> Answer:
    def scan(table: Table) -> pl.LazyFrame:
        return pl.scan_parquet(
            Path(job.store) / table.name / "**/*.parquet", hive_partitioning=True
        )

    found, examined = pl.collect_all(
        [frame.select(pl.len()) for frame in query(scan)], engine="streaming"
    )
    return found.item(), examined.item()


def _acknowledged_records(scan: Scan) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    acknowledged = scan(OPERATIONS).filter(
        pl.col("function") == "send", pl.col("type") == "ok", pl.col("acks").fill_null(-1) == -1
    )
    replicas = _whole(scan).select(*REPLICA, "log_start_offset")
    owed = acknowledged.join(replicas, on=PARTITION).filter(
        pl.col("offset") >= pl.col("log_start_offset")
    )
    held = scan(RECORDS).select(*REPLICA, "offset", held=pl.col("value").fill_null(""))
    lost = owed.join(held, on=[*REPLICA, "offset"], how="left").filter(
        pl.col("held").ne_missing(pl.col("value"))
    )
    unread = acknowledged.join(replicas, on=PARTITION, how="anti")
    return pl.concat([frame.select("run_id") for frame in (lost, unread)]), owed


def _replica_equality(scan: Scan) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    replicas = _whole(scan)
    ranges = replicas.group_by(PARTITION).agg(
        reference=pl.min("broker"),
        start_offset=pl.max("log_start_offset"),
        end_offset=pl.min("high_watermark"),
    )
    batches = (
        scan(RECORDS)
        .group_by(*REPLICA, "base_offset")
        .agg(
            next_offset=pl.max("offset") + 1,
            leader_epoch=pl.min("leader_epoch"),
            batch_crc=pl.min("batch_crc"),
        )
        .join(replicas, on=REPLICA, how="semi")
        .join(ranges, on=PARTITION)
        .filter(
            pl.col("base_offset") >= pl.col("start_offset"),
            pl.col("next_offset") <= pl.col("end_offset"),
        )
        .with_columns(
            number=pl.col("base_offset").rank("ordinal").over(REPLICA),
            batch=pl.struct("base_offset", "next_offset", "leader_epoch", "batch_crc"),
        )
    )
    is_reference = pl.col("broker") == pl.col("reference")
    others = replicas.join(ranges, on=PARTITION).filter(~is_reference)
    expected = (
        batches.filter(is_reference)
        .select(*PARTITION, "number", expected="batch")
        .join(others.select(REPLICA), on=PARTITION)
    )
    found = batches.filter(~is_reference).select(*REPLICA, "number", found="batch")
    pairs = expected.join(found, on=[*REPLICA, "number"], how="full", coalesce=True)
    different = pairs.filter(pl.col("expected").ne_missing(pl.col("found")))
    return different.select(REPLICA).unique(), pairs


def _leader_uniqueness(scan: Scan) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    elected = EventKind.LEADER_ELECTED.value
    led = (
        scan(EVENTS)
        .filter(pl.col("kind").is_in([EventKind.BECAME_LEADER.value, elected]))
        .with_columns(
            life=pl.lit(""),  # no topic of the made tables is deleted
            leader=pl.when(pl.col("kind") == elected)
            .then(pl.col("leader"))
            .otherwise(pl.col("node")),
        )
        .drop_nulls(LEADERSHIP)
    )
    # Files are read by the names of their nodes: brokers before controllers, then as texts.
    in_order = ["kind", pl.col("node").cast(pl.String), "incarnation", "seq"]
    first = pl.col("leader").first().over(LEADERSHIP, order_by=in_order)
    two = led.filter(pl.col("leader") != first)
    times = led.filter(pl.col("kind") == elected).group_by(LEADERSHIP).len("times")
    repeated = times.filter(pl.col("times") > 1)
    return pl.concat([frame.select("run_id") for frame in (two, repeated)]), led


def _completeness(scan: Scan) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    events = scan(EVENTS).select("run_id", "node", "incarnation", "seq")
    previous = pl.col("seq").shift(1, fill_value=-1)
    missteps = events.filter(
        pl.col("seq") != previous.over("run_id", "node", "incarnation", order_by="seq") + 1
    )
    return missteps, events


def _latencies(scan: Scan) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    def first(kind: str) -> pl.Expr:
        return pl.col("time_ns").filter(pl.col("type") == kind).min()

    sends = scan(OPERATIONS).filter(pl.col("function") == "send")
    acknowledged = sends.group_by(OPERATION).agg(ns=first("ok") - first("invoke")).drop_nulls()
    percentiles = acknowledged.select(
        **{name: pl.col("ns").quantile(share) for name, share in PERCENTILES.items()}
    )
    # No finding is ever made of it, but polars has to compute it to know.
    return percentiles.filter(pl.col("p99") < pl.col("p50")), acknowledged


def _whole(scan: Scan) -> pl.LazyFrame:
    return scan(REPLICAS).filter(pl.col("damage").is_null(), pl.col("high_watermark") >= 0)


QUERIES: dict[str, Query] = {
    CHECKS["acknowledged_records"].name: _acknowledged_records,
    CHECKS["replica_equality"].name: _replica_equality,
    CHECKS["leader_uniqueness"].name: _leader_uniqueness,
    CHECKS["completeness"].name: _completeness,
    LATENCIES: _latencies,
}
