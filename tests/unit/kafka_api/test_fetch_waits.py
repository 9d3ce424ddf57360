"""Consumers' waiting fetches: their cost, their bound, and that all memory is given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_broker.kafka_api.fetch import MAX_WATCHED_PARTITIONS
from highwater_broker.log.segment_list import SegmentList
from highwater_core.ids import Offset
from highwater_core.ports import CallFailed
from highwater_wire.kafka.messages import (
    CONSUMER,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchPartition,
    FetchRequest,
    ProducePartition,
    ProduceRequest,
    TopicToCreate,
)
from tests.support.hosted import batch, size_bytes, values_of


def fetch(*partitions: int, min_bytes: int = 1, max_wait_ms: int = 500) -> FetchRequest:
    items = tuple(FetchPartition("t", number, Offset(0), 1_000) for number in partitions)
    return FetchRequest(CONSUMER, max_wait_ms, min_bytes, 10_000, items)


def test_no_fetch_waits_longer_than_the_setting_allows(world: Any) -> None:
    world.host("t")
    asked = world.start(fetch(0, max_wait_ms=2**31 - 1))
    world.kernel.run_for(world.settings.request_wait_max_ms)
    assert asked.took_ms == world.settings.request_wait_max_ms


def test_only_a_partition_that_changed_is_looked_at_again(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    size_between = SegmentList.size_between

    def look(segments: SegmentList, start_offset: int, end_offset: int) -> int | None:
        looked_at.append(id(segments))
        return size_between(segments, start_offset, end_offset)

    monkeypatch.setattr(SegmentList, "size_between", look)
    hosted = [world.host("t", number) for number in range(50)]
    for one in hosted:
        one.fill(b"x")
    wanted = size_bytes(*[b"x"] * 50, b"y", b"z" * 9)
    asked = world.start(fetch(*range(50), min_bytes=wanted))
    assert {id(one.log.segments) for one in hosted} == set(looked_at)
    looked_at.clear()
    hosted[7].fill(b"y", committed=False)
    assert looked_at == [id(hosted[7].log.segments)]
    hosted[7].commit(2)
    hosted[8].fill(b"z" * 9)
    world.kernel.run_for(0)
    assert asked.is_done
    assert sum(len(result.records) for result in asked.answer.partitions) == wanted


def test_a_truncation_ends_a_wait_for_more_bytes(world: Any) -> None:
    """The bytes that were counted are gone, and so is their leader epoch."""
    partition = world.host("t")
    partition.fill(b"x" * 5, b"x" * 5)
    asked = world.start(fetch(0, min_bytes=size_bytes(b"x" * 5) * 3))
    world.kernel.run_for(10)
    partition.truncate(1)
    world.kernel.run_for(0)
    assert asked.took_ms == 10
    assert values_of(asked.answer.partitions[0].records) == [b"x" * 5]


@pytest.mark.parametrize("number", [0, MAX_WATCHED_PARTITIONS - 1])
def test_a_fetch_of_very_many_partitions_is_woken_by_the_first_of_them(
    world: Any, number: int
) -> None:
    count = MAX_WATCHED_PARTITIONS + 50
    hosted = [world.host("t", each) for each in range(count)]
    asked = world.start(fetch(*range(count)))
    hosted[-1].fill(b"late")
    world.kernel.run_for(10)
    assert not asked.is_done
    hosted[number].fill(b"now")
    world.kernel.run_for(0)
    assert asked.took_ms == 10
    assert values_of(asked.answer.partitions[-1].records) == [b"late"]


def after_events(world: Any, count: int, action: Callable[[], None]) -> None:
    """Have the action done once that many events are over."""
    left = [count]

    def count_down() -> None:
        left[0] -= 1
        if left[0] == 0:
            action()

    world.kernel.after_event = count_down


@pytest.mark.parametrize("events", range(1, 10))
def test_a_change_while_a_large_fetch_is_still_looked_at_is_not_missed(
    world: Any, events: int
) -> None:
    hosted = [world.host("t", number) for number in range(350)]
    after_events(world, events, lambda: hosted[0].fill(b"meanwhile"))
    asked = world.start(fetch(*range(350)))
    assert asked.took_ms == 0
    assert values_of(asked.answer.partitions[0].records) == [b"meanwhile"]


def test_consumers_that_fill_the_purgatory_keep_no_produce_from_waiting(world: Any) -> None:
    partition = world.host("t")
    world.purgatory._max_readers = 10
    waiting = [world.start(fetch(0)) for _ in range(10)]
    overflow = world.start(fetch(0))
    assert overflow.is_done
    assert overflow.answer.partitions[0].error.name == "NONE"
    produced = world.start(ProduceRequest(-1, 1_000, (ProducePartition("t", 0, batch(b"x")),)))
    assert not produced.is_done
    partition.commit(1)
    world.kernel.run_for(0)
    assert produced.answer.partitions[0].error.name == "NONE"
    assert all(asked.is_done for asked in waiting)


@pytest.mark.parametrize("events", range(1, 12))
@pytest.mark.parametrize("partition_count", [1, 350])
def test_a_fetch_that_is_cancelled_at_any_await_leaves_nothing_behind(
    world: Any, partition_count: int, events: int
) -> None:
    for number in range(partition_count):
        world.host("t", number)
    after_events(world, events, world.scope.cancel)
    asked = world.start(fetch(*range(partition_count)))
    world.kernel.after_event = None
    world.scope.cancel()
    world.kernel.run_for(0)
    assert not asked.is_done
    assert world.purgatory.waiting_count == 0
    assert not world.purgatory.is_listing_any()
    world.host("t", 0).fill(b"x")
    assert world.start(fetch(*range(partition_count))).is_done


@pytest.mark.parametrize(
    "request_value",
    [
        CreateTopicsRequest((TopicToCreate("t", 1, 1),), 2**31 - 1),
        DeleteTopicsRequest(("t",), 2**31 - 1),
    ],
)
def test_a_controller_is_given_no_longer_than_the_setting_allows(
    world: Any, request_value: Any
) -> None:
    world.controller.answer = CallFailed("nobody", sent=False)
    world.ask(request_value)
    assert world.controller.requests[-1].timeout_ms == world.settings.request_wait_max_ms
