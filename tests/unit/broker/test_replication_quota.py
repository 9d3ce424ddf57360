"""When a replication quota is exceeded, and which traffic counts."""

from __future__ import annotations

import pytest

from highwater_broker.logic.replication_quota import (
    WINDOW_MS,
    WINDOWS,
    Window,
    Windows,
    is_exceeded,
    record,
    throttled_on,
)
from highwater_broker.replication_quotas import ReplicationQuota
from highwater_core.ids import NodeId
from highwater_simulator.kernel import Kernel

FORGOTTEN_MS = WINDOW_MS * WINDOWS


@pytest.mark.parametrize(
    ("passed", "windows"),
    [
        pytest.param([(5, 10)], [(5, 10)], id="the first begins a window"),
        pytest.param([(5, 10), (1_004, 20)], [(5, 30)], id="within one second"),
        pytest.param([(5, 10), (1_005, 20)], [(5, 10), (1_005, 20)], id="a second later"),
        pytest.param([(0, 10), (10_999, 20)], [(0, 10), (10_999, 20)], id="just remembered"),
        pytest.param([(0, 10), (11_000, 20)], [(11_000, 20)], id="forgotten"),
    ],
)
def test_bytes_are_counted_by_the_second(
    passed: list[tuple[int, int]], windows: list[tuple[int, int]]
) -> None:
    counted: Windows = ()
    for now_ms, size_bytes in passed:
        counted = record(counted, size_bytes, now_ms)
    assert counted == tuple(Window(*each) for each in windows)


@pytest.mark.parametrize(
    ("windows", "limit", "now_ms", "expected"),
    [
        pytest.param([], 0, 0, False, id="nothing is never too much"),
        pytest.param([(0, 100)], 100, 0, False, id="as much as is allowed"),
        pytest.param([(0, 101)], 100, 0, True, id="one byte more"),
        pytest.param([(0, 500)], 100, 4_999, True, id="not yet long enough ago"),
        pytest.param([(0, 500)], 100, 5_000, False, id="long enough ago"),
        pytest.param([(0, 500), (5_000, 200)], 100, 5_000, True, id="together too much"),
        pytest.param([(0, 1 << 40)], 1, FORGOTTEN_MS - 1, True, id="far too much"),
        pytest.param([(0, 1 << 40)], 1, FORGOTTEN_MS, False, id="far too much is forgotten, too"),
        pytest.param([(0, 1)], 0, 0, True, id="nothing is allowed"),
    ],
)
def test_a_quota_is_exceeded_by_the_mean_of_the_remembered_seconds(
    windows: list[tuple[int, int]], limit: int, now_ms: int, expected: bool
) -> None:
    counted = tuple(Window(*each) for each in windows)
    assert is_exceeded(counted, limit, now_ms) is expected


@pytest.mark.parametrize("limit", [1, 50_000, 1_000_000])
def test_who_waits_while_the_quota_is_exceeded_gets_on_at_that_rate(limit: int) -> None:
    kernel = Kernel()
    runtime = kernel.runtime("broker-1")
    quota = ReplicationQuota(runtime)
    quota.limit_bytes_per_s = limit
    piece = max(1, limit // 4)
    passed = 0

    async def transfer() -> None:
        nonlocal passed
        while runtime.now_ms() < 30_000:
            if not quota.is_exceeded():
                quota.record(piece)
                passed += piece
            await runtime.sleep(10)

    runtime.start("transfer", transfer())
    kernel.run_for(30_000)
    kernel.close()
    assert 0.9 * limit * 30 <= passed <= 1.1 * limit * 30 + piece


@pytest.mark.parametrize(
    ("replicas", "of_one", "of_eleven"),
    [
        ("", [], []),
        ("*", [0, 1, 2, 11], [0, 1, 2, 11]),
        ("0:1,2:1", [0, 2], []),
        (" 0:1 , 11:11,, 1:2", [0], [11]),
    ],
)
def test_a_list_names_partition_and_broker(
    replicas: str, of_one: list[int], of_eleven: list[int]
) -> None:
    for broker, expected in ((1, of_one), (11, of_eleven)):
        throttled = throttled_on(NodeId(broker), replicas)
        assert [number for number in (0, 1, 2, 11) if number in throttled] == expected
