"""Followers' fetches of throttled replicas: which a leader holds back, and how they wait."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.replication_quotas import Throttling
from highwater_core.config import Preset
from highwater_core.ids import NodeId, Offset
from highwater_wire.kafka.messages import FetchPartition, FetchRequest
from tests.support.hosted import ONE, TWO, size_bytes, values_of

WAIT_MS = 500
RATE = 1_000
RECORD = b"x" * 900


def follow(*offsets: int, replica: NodeId = TWO) -> FetchRequest:
    items = [FetchPartition("t", at, Offset(offset), 1) for at, offset in enumerate(offsets)]
    return FetchRequest(replica, WAIT_MS, 1, 1 << 20, tuple(items), replica_epoch=102)


def throttled(world: Any, *numbers: int, of: int = 1, **fields: Any) -> list[Any]:
    """Host partitions with records, and throttle some of them; their quota is used up."""
    hosted = [world.host("t", number, **fields) for number in range(of)]
    for number, one in enumerate(hosted):
        one.fill(RECORD, RECORD, RECORD)
        one.throttling = Throttling(as_leader=number in numbers)
    quota = world.quotas.leader
    quota.limit_bytes_per_s = RATE
    quota.record(2 * RATE)
    return hosted


def got(answer: Any) -> list[list[bytes]]:
    return [values_of(result.records) for result in answer.partitions]


def test_a_follower_that_is_not_in_sync_waits_as_long_as_it_may(world: Any) -> None:
    throttled(world, 0)
    asked = world.start(follow(0), "REPLICATION")
    world.kernel.run_for(WAIT_MS)
    assert asked.took_ms == WAIT_MS
    (result,) = asked.answer.partitions
    assert (got(asked.answer), result.high_watermark) == ([[]], 3)


def test_records_that_are_written_meanwhile_do_not_end_its_wait(world: Any) -> None:
    """Else it would ask again with each of them."""
    (one,) = throttled(world, 0)
    asked = world.start(follow(0), "REPLICATION")
    for _ in range(4):
        world.kernel.run_for(WAIT_MS // 5)
        one.fill(b"more")
        world.kernel.run_for(0)
    assert not asked.is_done
    world.kernel.run_for(WAIT_MS)
    assert got(asked.answer) == [[]]


def test_it_gets_records_once_the_rate_allows(world: Any) -> None:
    throttled(world, 0)
    world.kernel.run_for(1_800)
    assert got(world.ask(follow(0), "REPLICATION")) == [[RECORD]]
    assert world.quotas.leader.is_exceeded()


def test_a_wait_during_which_the_rate_comes_to_allow_it_ends_with_records(world: Any) -> None:
    throttled(world, 0)
    world.kernel.run_for(1_700)
    asked = world.start(follow(0), "REPLICATION")
    world.kernel.run_for(WAIT_MS)
    assert got(asked.answer) == [[RECORD]]


def test_a_member_of_the_isr_is_not_held_back_and_counts(world: Any) -> None:
    throttled(world, 0)
    assert got(world.ask(follow(0, replica=ONE), "REPLICATION")) == [[RECORD]]
    world.kernel.run_for(2_500)  # without the member's bytes the rate would allow more
    assert world.quotas.leader.is_exceeded()


def test_a_follower_that_commits_wait_for_is_not_held_back(world: Any) -> None:
    """It was at the log's end a moment ago, and joins the ISR next."""
    (one,) = throttled(world, 0, preset=Preset.V3)  # where no follower need be registered
    assert got(world.ask(follow(3), "REPLICATION")) == [[]]
    one.fill(b"next", committed=False)
    assert got(world.ask(follow(3), "REPLICATION")) == [[b"next"]]


def test_other_partitions_of_the_fetch_are_answered_at_once(world: Any) -> None:
    throttled(world, 0, of=2)
    asked = world.start(follow(0, 0), "REPLICATION")
    assert (asked.took_ms, got(asked.answer)) == (0, [[], [RECORD]])


def test_one_throttled_partition_uses_the_rate_up_for_the_next(world: Any) -> None:
    throttled(world, 0, 1, of=2)
    world.quotas.leader.limit_bytes_per_s = 2 * RATE
    assert got(world.ask(follow(0, 0), "REPLICATION")) == [[RECORD], []]


@pytest.mark.parametrize("replica", [ONE, TWO])
def test_without_a_throttle_nothing_counts(world: Any, replica: NodeId) -> None:
    (one,) = throttled(world, 0)
    one.throttling = Throttling(as_follower=True)
    before = world.quotas.leader._windows
    assert got(world.ask(follow(0, replica=replica), "REPLICATION")) == [[RECORD]]
    assert world.quotas.leader._windows == before
    assert size_bytes(RECORD) > RATE * 0.9
