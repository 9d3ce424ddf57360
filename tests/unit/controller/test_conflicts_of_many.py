"""One state that met another version costs the others of its write no round trip each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater_core import znodes
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from tests.unit.controller.conftest import Cluster

PARTITIONS = 160
NS_PER_MS = 1_000_000


@pytest.fixture
def crowded() -> Iterator[Cluster]:
    made = Cluster()
    for broker in range(3):
        made.start_broker(broker)
    made.start_controller()
    made.until_failed_over()
    made.create_topic("t", *[(0, 1, 2)] * PARTITIONS)
    made.settle(2_000)
    yield made
    made.kernel.close()


def ms_until_all_are_led(crowded: Cluster, broker: int) -> float:
    """Kill the broker; return the time from its end, as the controller heard of it."""
    crowded.brokers[broker].die()
    crowded.settle(5_000)
    began_ns = crowded.events(EventKind.BROKERS_CHANGED)[-1].ts_ns
    elected = [e.ts_ns for e in crowded.events(EventKind.LEADER_ELECTED) if e.ts_ns > began_ns]
    assert len(elected) == PARTITIONS
    return (max(elected) - began_ns) / NS_PER_MS


def test_a_write_of_many_states_that_meets_one_other_version_is_repeated_at_once(
    crowded: Cluster,
) -> None:
    alone_ms = ms_until_all_are_led(crowded, 0)
    path = znodes.partition_state_path(TopicPartition("t", 0))

    async def meet_it() -> None:
        await crowded.put(path, crowded.data(path))

    crowded.before_multi(path, meet_it)
    with_conflict_ms = ms_until_all_are_led(crowded, 1)
    assert crowded.events(EventKind.WRITE_CONFLICTED)
    assert with_conflict_ms < alone_ms * PARTITIONS / 10
