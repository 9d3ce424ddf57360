"""Consumers see committed records and no others; paused followers hold replication up."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from kafka.record import MemoryRecords

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_replicated
from highwater.cluster.wire_client import WireClient, record_batch
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from tests.support.clusters import replication_held

pytestmark = pytest.mark.docker

MAX_WAIT_MS = 400
Watch = Callable[..., AbstractContextManager[object]]


def test_a_fetch_between_high_watermark_and_log_end_is_empty_and_later_returns_the_records(
    steady: Cluster,
    new_topic: Callable[..., str],
    nobody_restarts: Watch,
) -> None:
    name = new_topic(steady)
    with nobody_restarts(steady), WireClient(steady.external_endpoint(0)) as client:
        committed = client.produce(name, 0, record_batch([b"a", b"b"]))
        assert (committed.error, committed.base_offset) == (ErrorCode.NONE, 0)
        await_replicated(steady, name)

        with replication_held(steady, leader=0):
            tail = record_batch([b"c", b"d", b"e"])
            appended = client.produce(name, 0, tail, acks=1)
            assert (appended.error, appended.base_offset) == (ErrorCode.NONE, 2)
            held = steady.snapshot(0).replicas
            (replica,) = [one for one in held if one.topic_partition == TopicPartition(name, 0)]
            assert (replica.high_watermark, replica.log_end_offset) == (2, 5)

            for offset in (2, 3, 5):
                started = time.monotonic()
                found = client.fetch(name, 0, offset, max_wait_ms=MAX_WAIT_MS)
                waited_ms = (time.monotonic() - started) * 1000
                assert (found.error, found.high_watermark) == (ErrorCode.NONE, 2), offset
                assert bytes(found.records) == b"", offset
                assert waited_ms >= MAX_WAIT_MS, offset
            assert client.fetch(name, 0, 6).error is ErrorCode.OFFSET_OUT_OF_RANGE
            assert client.fetch(name, 0, -1).error is ErrorCode.OFFSET_OUT_OF_RANGE
            below = client.fetch(name, 0, 0, max_wait_ms=0)
            assert b"c" not in values_in(below.records)

        await_replicated(steady, name)
        found = client.fetch(name, 0, 2)
        assert (found.error, found.high_watermark) == (ErrorCode.NONE, 5)
        assert values_in(found.records) == [b"c", b"d", b"e"]
        again = client.fetch(name, 0, 2)
        assert bytes(again.records) == bytes(found.records)


def test_acks_all_is_answered_only_when_every_in_sync_replica_has_the_records(
    steady: Cluster,
    new_topic: Callable[..., str],
    nobody_restarts: Watch,
) -> None:
    name = new_topic(steady)
    with nobody_restarts(steady), WireClient(steady.external_endpoint(0)) as client:
        with replication_held(steady, leader=0):
            held = client.produce(name, 0, record_batch([b"a"]), timeout_ms=500)
            assert held.error is ErrorCode.REQUEST_TIMED_OUT
        await_replicated(steady, name)
        assert client.produce(name, 0, record_batch([b"b"])).error is ErrorCode.NONE
        found = client.fetch(name, 0, 0)
        assert values_in(found.records) == [b"a", b"b"]


def values_in(records: object) -> list[bytes | None]:
    return [record.value for batch in MemoryRecords(bytes(records)) for record in batch]
