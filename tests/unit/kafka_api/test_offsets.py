"""ListOffsets and OffsetForLeaderEpoch, as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_core.ids import LeaderEpoch, NodeId
from highwater_wire.kafka.messages import (
    EpochPartition,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)

EARLIEST, LATEST = -2, -1


def list_offsets(
    timestamp: int, *, replica: int = -1, version: int = 5, epoch: int = -1, topic: str = "t"
) -> ListOffsetsRequest:
    item = ListOffsetsPartition(topic, 0, timestamp, LeaderEpoch(epoch))
    return ListOffsetsRequest(NodeId(replica), (item,), version)


@pytest.fixture
def partition(world: Any) -> Any:
    """Offsets [5, 9), high watermark 7; offset n has timestamp 1000 + n."""
    hosted = world.host("t", log_start_offset=5)
    hosted.fill(b"a", b"b")
    hosted.fill(b"c", b"d", committed=False)
    return hosted


@pytest.mark.parametrize(
    ("timestamp", "replica", "answer"),
    [
        (EARLIEST, -1, ("NONE", -1, 5)),
        (LATEST, -1, ("NONE", -1, 7)),
        (LATEST, 1, ("NONE", -1, 9)),
        (1006, -1, ("NONE", 1006, 6)),
        (0, -1, ("NONE", 1005, 5)),
        (1007, -1, ("NONE", -1, -1)),
        (5000, -1, ("NONE", -1, -1)),
        (-3, -1, ("UNSUPPORTED_VERSION", -1, -1)),
    ],
    ids=[
        "earliest",
        "latest is the high watermark",
        "a replica's latest is the log end",
        "by timestamp",
        "a timestamp before all",
        "a timestamp that is not yet committed",
        "a timestamp after all",
        "max timestamp came in version 7",
    ],
)
def test_offsets_by_timestamp(
    world: Any, partition: Any, timestamp: int, replica: int, answer: tuple[str, int, int]
) -> None:
    listener = "CLIENT" if replica < 0 else "REPLICATION"
    (result,) = world.ask(list_offsets(timestamp, replica=replica), listener).partitions
    assert (result.error.name, result.timestamp, result.offset) == answer


@pytest.mark.parametrize(
    ("timestamp", "version", "error"),
    [
        (LATEST, 5, "OFFSET_NOT_AVAILABLE"),
        (LATEST, 4, "LEADER_NOT_AVAILABLE"),
        (LATEST, 1, "LEADER_NOT_AVAILABLE"),
        (1008, 5, "OFFSET_NOT_AVAILABLE"),
        (1006, 5, "NONE"),
        (EARLIEST, 5, "NONE"),
    ],
)
def test_a_high_watermark_below_the_epochs_start_gives_no_latest_offset(
    world: Any, partition: Any, timestamp: int, version: int, error: str
) -> None:
    partition.lead_in(4)
    (result,) = world.ask(list_offsets(timestamp, version=version)).partitions
    assert result.error.name == error


def test_the_latest_offset_names_its_epoch(world: Any, partition: Any) -> None:
    assert world.ask(list_offsets(LATEST)).partitions[0].leader_epoch == 3


@pytest.mark.parametrize(
    ("topic", "epoch", "error"),
    [
        ("t", 2, "FENCED_LEADER_EPOCH"),
        ("t", 4, "UNKNOWN_LEADER_EPOCH"),
        ("elsewhere", -1, "NOT_LEADER_OR_FOLLOWER"),
        ("unknown", -1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("followed", -1, "NOT_LEADER_OR_FOLLOWER"),
    ],
)
def test_both_apis_ask_for_the_leader_of_the_right_epoch(
    world: Any, partition: Any, topic: str, epoch: int, error: str
) -> None:
    world.cluster({"elsewhere": [1]})
    world.host("followed").lose_leadership()
    offsets = world.ask(list_offsets(LATEST, topic=topic, epoch=epoch))
    item = EpochPartition(topic, 0, LeaderEpoch(1), LeaderEpoch(epoch))
    epochs = world.ask(OffsetForLeaderEpochRequest(NodeId(1), (item,)), "REPLICATION")
    assert [result.error.name for result in (*offsets.partitions, *epochs.partitions)] == [
        error,
        error,
    ]


def test_a_partition_that_is_named_twice_is_invalid_and_the_others_are_answered(
    world: Any, partition: Any
) -> None:
    world.host("u")
    items = tuple(ListOffsetsPartition(topic, 0, LATEST) for topic in ("t", "u", "t"))
    results = world.ask(ListOffsetsRequest(NodeId(-1), items)).partitions
    assert [result.error.name for result in results] == [
        "INVALID_REQUEST",
        "NONE",
        "INVALID_REQUEST",
    ]


@pytest.mark.parametrize("steps", [1, 2, 500])
def test_a_lookup_by_time_may_take_many_steps(world: Any, partition: Any, steps: int) -> None:
    partition.lookup_steps = steps
    asked = [world.start(list_offsets(timestamp)) for timestamp in (1006, 0, 5000)]
    assert [one.answer.partitions[0].offset for one in asked] == [6, 5, -1]


@pytest.mark.parametrize("change", ["lose_leadership", "lead_in"])
def test_a_lookup_ends_with_the_leadership_in_which_it_began(
    world: Any, partition: Any, change: str
) -> None:
    partition.lookup_steps = 1_000

    async def change_soon() -> None:
        await pause(world, lambda: partition.lookup_steps_done >= 50)
        partition.lead_in(4) if change == "lead_in" else partition.lose_leadership()

    world.scope.spawn("change", change_soon())
    (result,) = world.ask(list_offsets(1006)).partitions
    assert result.error.name == "NOT_LEADER_OR_FOLLOWER"
    assert 50 <= partition.lookup_steps_done <= 52


def test_long_lookups_let_other_requests_in_between(world: Any, partition: Any) -> None:
    partition.lookup_steps = 100
    waited: list[int] = []

    async def other_client(timestamp: int) -> None:
        await pause(world, lambda: partition.lookup_steps_done >= 500)
        before = partition.lookup_steps_done
        await world.api.handle(list_offsets(timestamp, topic="u"), "CLIENT")
        waited.append(partition.lookup_steps_done - before)

    world.host("u")
    for timestamp in (LATEST, 1006):
        world.scope.spawn("other", other_client(timestamp))
    for _ in range(64):
        world.scope.spawn("lookup", world.api.handle(list_offsets(1006), "CLIENT"))
    world.kernel.run_for(0)
    assert partition.lookup_steps_done == 64 * 100
    assert waited[0] == 0, "what needs no turn waits for none"
    assert waited[1] <= 65, "and a short lookup waits for one step of each"


async def pause(world: Any, is_over: Callable[[], bool]) -> None:
    while not is_over():
        await world.runtime.sleep(0)


def test_the_end_of_an_epoch_is_the_partitions_answer(world: Any, partition: Any) -> None:
    partition.lead_in(5)
    item = EpochPartition("t", 0, LeaderEpoch(4), LeaderEpoch(5))
    (result,) = world.ask(OffsetForLeaderEpochRequest(NodeId(-1), (item,))).partitions
    assert (result.error.name, result.leader_epoch, result.end_offset) == ("NONE", 3, 9)
