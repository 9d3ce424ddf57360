"""Ranges where replicas hold the clients' records are left out; one difference takes one range."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from highwater_pipeline.checks.evidence import (
    PARTITION,
    held_records,
    promised_sends,
    reads_of_consumers,
)
from highwater_pipeline.checks.ranges import RANGE_BITS, Doubts, doubts
from highwater_pipeline.tables import OPERATIONS, RECORDS, REPLICAS, RUNS, Tables
from tests.pipeline.frames import Rows, tables_from_rows

WIDTH = 2**RANGE_BITS
END_OFFSET = 3 * WIDTH + 5
BROKERS = (0, 1, 2)
READER = ["process", *PARTITION]


def operation(offset: int, function: str, process: str) -> dict[str, Any]:
    return {
        "run_id": "r", "process": process, "line": offset, "type": "ok", "operation_id": offset,
        "function": function, "topic": "t", "partition": 0, "offset": offset,
        "value": f"v{offset}", "high_watermark": END_OFFSET,
    }  # fmt: skip


def tables(
    spark: SparkSession,
    *,
    unread_from: int = END_OFFSET,
    log_start_offset: int = 0,
    **changed: dict[int, str | None],
) -> Tables:
    """Return the tables of a sound run with changed values by offset; None: no record.

    changed: b0, b1, b2: the broker's records; sent, read: the records of clients' histories.
    """

    def records(name: str) -> Rows:
        values = changed.get(name, {})
        for offset in range(END_OFFSET):
            value = values.get(offset, f"v{offset}")
            if value is not None:
                yield {"offset": offset, "value": value}

    log = {"run_id": "r", "topic": "t", "partition": 0}
    return tables_from_rows(
        spark,
        {
            RUNS: [{"run_id": "r"}],
            OPERATIONS: [
                *(operation(each["offset"], "send", "p0") | each for each in records("sent")),
                *(
                    operation(each["offset"], "poll", "c0") | each
                    for each in records("read")
                    if each["offset"] < unread_from
                ),
            ],
            REPLICAS: [
                log | {"broker": broker, "high_watermark": END_OFFSET, "log_start_offset": start}
                for broker, start in zip(BROKERS, (0, 0, log_start_offset), strict=True)
            ],
            RECORDS: [
                log | {"broker": broker} | each
                for broker in BROKERS
                for each in records(f"b{broker}")
            ],
        },
    )


def doubtful(found: Doubts) -> list[int]:
    """Return the ranges to doubt; all others are like."""
    assert found.doubtful is not None
    assert found.like is not None
    ranges = sorted(row["range"] for row in found.doubtful.collect())
    assert found.like.count() == 4 - len(ranges)
    return ranges


def offsets(rows: DataFrame) -> set[int]:
    return {row["offset"] for row in rows.collect()}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"b1": {WIDTH: None}}, [1]),
        ({"b2": {WIDTH - 1: "other"}}, [0]),
        ({"sent": {0: None, END_OFFSET - 1: "other"}}, [0, 3]),
        # The same values, as often, but not where they were.
        ({"b0": {2: "v3", 3: "v2"}}, [0]),
        ({broker: {WIDTH: None} for broker in ("b0", "b1", "b2")}, [1]),
        ({"log_start_offset": 1}, [0]),
    ],
    ids=["sound", "lost", "another", "sent less", "exchanged", "lost everywhere", "cut"],
)
def test_one_difference_takes_its_range(
    spark: SparkSession, changed: dict[str, Any], expected: list[int]
) -> None:
    given = tables(spark, **changed)
    found = doubts(given, promised_sends(given), PARTITION)
    assert doubtful(found) == expected
    in_ranges = {offset for offset in range(END_OFFSET) if offset // WIDTH in expected}
    assert offsets(found.doubted(held_records(given))) <= in_ranges


def test_records_of_replicas_that_no_client_read_are_doubted(spark: SparkSession) -> None:
    given = tables(spark, unread_from=2 * WIDTH)
    reads = reads_of_consumers(given)
    last = reads.select("run_id", "process", "topic").distinct()
    assert doubts(given, reads, READER).doubtful.isEmpty()  # type: ignore[union-attr]
    found = doubts(given, reads, READER, reported_by=last)
    assert found.doubtful is not None
    assert sorted(row["range"] for row in found.doubtful.collect()) == [2, 3]


def test_an_odd_row_takes_its_range_even_if_replicas_agree(spark: SparkSession) -> None:
    given = tables(spark)
    reads = reads_of_consumers(given)
    found = doubts(given, reads, READER, is_odd=reads["offset"] == WIDTH)
    assert doubtful(found) == [1]
