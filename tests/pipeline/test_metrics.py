"""The metrics of runs whose numbers can be computed by hand."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from highwater_pipeline.metrics.alerts import alerts
from highwater_pipeline.metrics.confidence import comparison, medians
from highwater_pipeline.metrics.failovers import failovers
from highwater_pipeline.metrics.replication import STRETCHES, lag_over_time, lags, replication
from highwater_pipeline.metrics.sends import fetch_latencies, latencies, outages
from highwater_pipeline.tables import (
    EVENTS,
    FAULTS,
    LOOKS,
    OPERATIONS,
    PROBES,
    REPLICA_LOOKS,
    RUNS,
    Table,
)
from tests.pipeline.frames import Rows, tables_from_rows

MS = 1_000_000
START_NS = 1_700_000_000_000_000_000


def run(run_id: str = "r", start_wall_ns: int | None = START_NS) -> dict[str, Any]:
    return {"run_id": run_id, "start_wall_ns": start_wall_ns}


def event(kind: str, at_ms: int, leader_epoch: int, node: int = 0, **detail: Any) -> dict[str, Any]:
    return {
        "run_id": "r", "kind": kind, "ts_ns": START_NS + at_ms * MS, "node": node, "incarnation": 1,
        "seq": at_ms, "topic": "t", "partition": 0, "leader_epoch": leader_epoch,
        **detail,
    }  # fmt: skip


def send(number: int, invoked_ms: int, ok_ms: int | None, partition: int = 0) -> Rows:
    common = {
        "run_id": "r", "process": "p0", "operation_id": number, "function": "send",
        "topic": "t", "partition": partition,
    }  # fmt: skip
    yield common | {"type": "invoke", "time_ns": invoked_ms * MS, "line": 2 * number}
    if ok_ms is not None:
        yield common | {"type": "ok", "time_ns": ok_ms * MS, "line": 2 * number + 1}


def fault(
    number: int, kind: str, at_ms: int, *, is_proven: bool = True, proven_ms: int | None = None
) -> Rows:
    """Yield the phases of a fault; without proven_ms as an earlier version wrote them."""
    yield {"run_id": "r", "number": number, "phase": "intended", "fault": kind, "at_ns": 0}
    acting = {"run_id": "r", "number": number, "phase": "acting", "at_ns": at_ms * MS}
    if proven_ms is not None:
        acting |= {"at_ns": proven_ms * MS, "acted_ns": at_ms * MS}
    if is_proven:
        yield acting


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


FAILOVER: dict[Table, Rows] = {
    RUNS: [run()],
    EVENTS: [
        event("leadership_decided", 10, 0, node=1000),
        event("became_leader", 20, 0, node=0, isr=[0, 1, 2]),
        event("leadership_decided", 3_000, 1, node=1000),
        event("became_leader", 3_050, 1, node=1, isr=[1, 2]),
        event("isr_changed", 5_000, 1, node=1, isr=[1]),
        event("isr_changed", 6_000, 1, node=1, isr=[1, 2, 0]),
        event("became_leader", 9_000, 2, node=2, isr=[2]),
    ],
    FAULTS: [
        *fault(1, "pause", 500),
        *fault(2, "kill", 1_000),
        *fault(3, "cut", 2_000, is_proven=False),
        *fault(4, "isolate", 8_000),
    ],
    OPERATIONS: [*send(1, 100, 110), *send(2, 900, 3_200), *send(3, 3_200, 3_210)],
}


def test_a_failover_is_split_into_its_waits(spark: SparkSession) -> None:
    first, second = rows_of(failovers(tables_from_rows(spark, FAILOVER)).orderBy("leader_epoch"))
    assert first == {
        "run_id": "r", "topic": "t", "partition": 0, "leader_epoch": 1, "leader": 1,
        "fault": "kill", "fault_number": 2, "fault_ns": 1_000 * MS, "elected_ns": 3_050 * MS,
        "detect_ms": 2_000.0, "elect_ms": 50.0, "first_ack_ms": 150.0, "isr_restored_ms": 2_950.0,
        "total_ms": 2_200.0,
    }  # fmt: skip
    assert (second["leader"], second["fault"]) == (2, "isolate")
    unknown = ("detect_ms", "elect_ms", "first_ack_ms", "isr_restored_ms", "total_ms")
    assert [second[name] for name in unknown] == [None] * 5


def test_a_failover_is_timed_from_when_its_fault_acted_not_from_its_proof(
    spark: SparkSession,
) -> None:
    """Found: a kill that was proven after 1.1 s was detected in 0.7 s, and took 1.8."""
    faults = fault(1, "kill", 1_000, proven_ms=2_100)
    first, _ = rows_of(
        failovers(tables_from_rows(spark, FAILOVER | {FAULTS: [*faults]})).orderBy("leader_epoch")
    )
    assert (first["fault_ns"], first["detect_ms"], first["total_ms"]) == (1_000 * MS, 2_000, 2_200)


def test_leaderships_handed_over_after_the_last_look_are_no_failovers(
    spark: SparkSession,
) -> None:
    looks = [{"run_id": "r", "look": n, "time_ns": ms * MS} for n, ms in enumerate((20, 8_900))]
    found = rows_of(failovers(tables_from_rows(spark, FAILOVER | {LOOKS: looks})))
    assert [row["leader_epoch"] for row in found] == [1]


def test_a_run_that_does_not_say_when_it_began_has_no_failovers(spark: SparkSession) -> None:
    assert rows_of(failovers(tables_from_rows(spark, FAILOVER | {RUNS: [run("r", None)]}))) == []


def test_latency_counts_acknowledged_records(spark: SparkSession) -> None:
    sends = [*send(0, 0, None)]
    for number in range(1, 101):
        sends += send(number, 1_000 * number, 1_000 * number + number)
    (found,) = rows_of(latencies(tables_from_rows(spark, {OPERATIONS: sends})))
    assert found["acknowledged"] == 100
    assert found["records_per_s"] == pytest.approx(99 / 99.099)
    assert (found["p50_ms"], found["p95_ms"], found["p99_ms"]) == (50.0, 95.0, 99.0)
    assert found["longest_ms"] == 100.0


def test_a_long_pause_of_one_partition_is_an_outage_with_the_fault_before_it(
    spark: SparkSession,
) -> None:
    others = [one for number in range(10, 37) for one in send(number, 0, 100 * number, partition=1)]
    tables = tables_from_rows(spark, FAILOVER | {OPERATIONS: [*FAILOVER[OPERATIONS], *others]})
    (found,) = rows_of(outages(tables))
    assert (found["partition"], found["from_ns"], found["to_ns"]) == (0, 110 * MS, 3_200 * MS)
    assert (found["outage_ms"], found["fault"], found["fault_number"]) == (3_090.0, "kill", 2)
    assert rows_of(outages(tables, longer_than_ms=4_000)) == []


def test_silence_at_a_runs_end_is_an_outage_of_each_partition_that_is_sent_to(
    spark: SparkSession,
) -> None:
    sends = [
        *send(1, 100, 110),
        *send(2, 200, None),  # partition 0 acknowledged at 110 for the last time,
        *send(3, 300, None, partition=1),  # 1 never,
        *send(4, 1_500, 1_600, partition=2),  # 2 at 1,600,
        *send(5, 90, 100, partition=3),
        *send(6, 1_900, 2_000, partition=3),  # and 3 at the end, after a pause
    ]
    tables = tables_from_rows(spark, FAILOVER | {OPERATIONS: sends})
    found = rows_of(outages(tables).orderBy("partition"))
    assert [
        (row["partition"], row["from_ns"] // MS, row["to_ns"] // MS, row["outage_ms"])
        for row in found
    ] == [(0, 110, 2_000, 1_890.0), (1, 300, 2_000, 1_700.0), (3, 100, 2_000, 1_900.0)]
    assert {(row["fault"], row["fault_number"]) for row in found} == {("kill", 2)}
    with_quiet = rows_of(outages(tables, longer_than_ms=400).orderBy("partition"))
    assert [row["partition"] for row in with_quiet] == [0, 1, 2, 3]


def test_a_run_that_sent_nothing_has_no_outage(spark: SparkSession) -> None:
    polls = [{**row, "function": "poll"} for row in send(1, 0, 9_000)]
    assert rows_of(outages(tables_from_rows(spark, {RUNS: [run()], OPERATIONS: polls}))) == []


def look(number: int, node: int, role: str, end: int, high_watermark: int) -> dict[str, Any]:
    return {
        "run_id": "r", "look": number, "time_ns": number * 100 * MS, "node": node, "topic": "t",
        "partition": 0, "role": role, "leader_epoch": 1, "log_end_offset": end,
        "high_watermark": high_watermark, "isr": [0, 1] if role == "leader" else [],
    }  # fmt: skip


def test_followers_lag_behind_the_leader_of_their_look(spark: SparkSession) -> None:
    looks = [
        look(0, 0, "leader", 10, 8), look(0, 1, "follower", 8, 7), look(0, 2, "follower", 12, 0),
        look(1, 0, "leader", 30, 30), look(1, 1, "follower", 30, 30),
        look(2, 1, "follower", 30, 30),
    ]  # fmt: skip
    changes = [event("isr_changed", 1, 1), event("isr_changed", 2, 1)]
    tables = tables_from_rows(
        spark, {RUNS: [run(), run("idle")], REPLICA_LOOKS: looks, EVENTS: changes}
    )
    found = {(row["look"], row["broker"]): row for row in rows_of(lags(tables))}
    assert {place: (row["log_lag"], row["high_watermark_lag"]) for place, row in found.items()} == {
        (0, 1): (2, 1), (0, 2): (0, 8), (1, 1): (0, 0),
    }  # fmt: skip
    assert {place: row["is_in_isr"] for place, row in found.items()} == {
        (0, 1): True, (0, 2): False, (1, 1): True,
    }  # fmt: skip
    idle, busy = rows_of(replication(tables).orderBy("run_id"))
    assert (idle["log_lag_max"], idle["isr_changes"]) == (None, 0)
    assert (busy["log_lag_max"], busy["high_watermark_lag_max"], busy["isr_changes"]) == (2, 8, 2)
    assert busy["log_lag_p50"] == 0


def test_lag_over_time_is_that_of_the_last_follower_in_each_stretch(spark: SparkSession) -> None:
    end_ns = STRETCHES * MS
    looks = [
        {**each, "time_ns": time_ns}
        for number, (time_ns, end_offset) in enumerate(
            [(0, 7), (MS // 2, 4), (MS + STRETCHES, 9), (end_ns - 1, 10)]
        )
        for each in (
            look(number, 0, "leader", 10, 8),
            look(number, 1, "follower", end_offset, 7),
            look(number, 2, "follower", 10, 6),
        )
    ]
    rows = rows_of(
        lag_over_time(tables_from_rows(spark, {REPLICA_LOOKS: looks})).orderBy("from_ns")
    )
    assert [(row["from_ns"], row["log_lag"], row["high_watermark_lag"]) for row in rows] == [
        (0, 6, 2), (MS, 1, 2), (end_ns - MS, 0, 2),
    ]  # fmt: skip


def test_fetches_are_timed_by_who_asked(spark: SparkSession) -> None:
    probes = [
        {"run_id": "r", "line": line, "asked_ns": line * MS, "answered_ns": line * MS + took_ns}
        for line, took_ns in enumerate([2 * MS, 3 * MS, MS // 2])
    ]
    (found,) = rows_of(fetch_latencies(tables_from_rows(spark, {RUNS: [run()], PROBES: probes})))
    assert found == {
        "run_id": "r", "fetches": 3, "p50_ms": 2.0, "p95_ms": 3.0, "p99_ms": 3.0, "longest_ms": 3.0,
    }  # fmt: skip


def test_what_64_bits_do_not_hold_is_null_or_left_out(spark: SparkSession) -> None:
    """Found: one run's times near 2^63 ended the analysis of all."""
    least, largest = -(2**63), 2**63 - 1
    times = {"asked_ns": least, "answered_ns": largest}
    looks = [
        {**each, "time_ns": time_ns}
        for number, time_ns in enumerate((least, largest))
        for each in (
            look(number, 0, "leader", largest, 0),
            look(number, 1, "follower", least, 0),
        )
    ]
    tables = tables_from_rows(
        spark,
        {
            RUNS: [run(start_wall_ns=least)],
            PROBES: [{"run_id": "r", "line": 0, **times}],
            REPLICA_LOOKS: looks,
            EVENTS: [event("became_leader", 0, epoch) for epoch in (1, 2)],
        },
    )
    (fetched,) = rows_of(fetch_latencies(tables))
    assert (fetched["fetches"], fetched["longest_ms"]) == (1, None)
    assert {row["log_lag"] for row in rows_of(lags(tables))} == {None}
    assert rows_of(lag_over_time(tables)) == []
    assert rows_of(failovers(tables)) == []


def test_a_median_has_an_interval_from_six_values_on(spark: SparkSession) -> None:
    groups = {"few": [3.0, 1.0, 2.0, 9.0, 4.0], "many": [float(n) for n in range(1, 101)]}
    rows = [(name, value) for name, values in groups.items() for value in values]
    frame = spark.createDataFrame([*rows, ("many", None)], "name string, ms double")
    few, many = rows_of(medians(frame, ["name"], "ms").orderBy("name"))
    assert few == {"name": "few", "count": 5, "median": 3.0, "low": None, "high": None}
    assert (many["count"], many["median"]) == (100, 50.5)
    # The 40th and the 61st of 100 hold the median in 95.4 of 100 samples.
    assert (many["low"], many["high"]) == (40.0, 61.0)


@pytest.mark.parametrize(
    ("a", "b", "verdict", "share"),
    [
        (range(10, 40), range(30, 60), "b is slower", 0.9444),
        (range(30, 60), range(10, 40), "b is faster", 0.0556),
        (range(20), range(20), "no difference is shown", 0.5),
        (range(5), range(100, 200), "too few values", 1.0),
        ((), range(100), "too few values", None),
    ],
    ids=["slower", "faster", "alike", "few", "none"],
)
def test_two_sides_are_compared_by_ranks(
    spark: SparkSession, a: Iterable[int], b: Iterable[int], verdict: str, share: float | None
) -> None:
    sides = {"a": list(a), "b": list(b)}
    rows = [(side, float(value)) for side, values in sides.items() for value in values]
    (found,) = rows_of(
        comparison(spark.createDataFrame(rows, "side string, ms double"), "side", "ms")
    )
    assert found["verdict"] == verdict
    assert found["b_is_greater"] == (None if share is None else pytest.approx(share, abs=0.01))
    assert [found["count_a"], found["count_b"]] == [len(values) for values in sides.values()]
    for side, values in sides.items():
        assert found[f"median_{side}"] == (statistics.median(values) if values else None)


def test_commands_without_an_answer_are_counted_by_term_broker_and_command(
    spark: SparkSession,
) -> None:
    def event(ts_ns: int, kind: str, broker: int, **more: Any) -> dict[str, Any]:
        detail = f'{{"broker": {broker}, "request": "LeaderAndIsrRequest"}}'
        return {
            "run_id": "r", "ts_ns": ts_ns, "node": 1000, "seq": ts_ns, "kind": kind,
            "controller_epoch": 1, "detail": detail, **more,
        }  # fmt: skip

    events: Rows = [
        event(1_000_000, "command_timed_out", 2),
        event(3_000_000, "command_timed_out", 2),
        event(4_000_000, "command_timed_out", 1),
        event(5_000_000, "command_answered", 2),
    ]
    found = alerts(tables_from_rows(spark, {EVENTS: events})).orderBy("broker").collect()
    assert [
        (row["controller"], row["broker"], row["timeouts"], row["span_ms"]) for row in found
    ] == [
        (1000, 1, 1, 0.0),
        (1000, 2, 2, 2.0),
    ]
    assert {row["request"] for row in found} == {"LeaderAndIsrRequest"}
