"""Small requests with large answers: others go on, and waiting requests hold no memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from highwater_broker.kafka_api.metadata import MetadataHandler
from highwater_broker.kafka_api.turns import CHUNK, LARGE, Turns
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_simulator.kernel import Kernel
from highwater_wire.kafka.messages import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
)

BIG, MEDIUM, SMALL = 3 * LARGE, LARGE - 1, 1


class Gathering(MetadataCache):
    """Notes which topics' partitions are listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def partitions(self, topic: str) -> Any:
        self.listed.append(topic)
        return super().partitions(topic)


class Asking:
    """A broker with topics of three sizes, and clients that ask for their metadata."""

    def __init__(self, make_update: Any) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("broker")
        self.scope = self.runtime.scope("requests")
        self.cache = Gathering()
        sizes = {"big": BIG, "medium": MEDIUM, "small": SMALL}
        self.cache.update(
            make_update.request(
                tuple(
                    make_update.partition(topic, number, 0)
                    for topic, size in sizes.items()
                    for number in range(size)
                )
            )
        )
        self.cache.listed.clear()
        self.turns = Turns(self.runtime)
        self.handler = MetadataHandler(
            self.cache, NodeId(0), "cluster", cast(Any, None), self.turns
        )
        self.answered: list[tuple[str, int]] = []

    def ask(self, topic: str) -> Any:
        names = None if topic == "all" else (topic,)

        async def ask() -> None:
            response = await self.handler.handle(MetadataRequest(names), "CLIENT")
            self.answered.append((topic, sum(len(each.partitions) for each in response.topics)))

        return self.scope.spawn(topic, ask())


@pytest.fixture
def asking(make_update: Any) -> Iterator[Asking]:
    made = Asking(make_update)
    yield made
    assert made.turns.is_free
    made.kernel.close()


def test_large_answers_are_gathered_one_at_a_time_and_those_who_wait_have_listed_nothing(
    asking: Asking,
) -> None:
    for _ in range(20):
        asking.ask("big")
    listed: list[int] = []

    async def look() -> None:
        while len(asking.answered) < 20:
            listed.append(len(asking.cache.listed) - len(asking.answered))
            await asking.runtime.sleep(0)

    asking.scope.spawn("look", look())
    asking.kernel.run_for(0)
    assert asking.answered == [("big", BIG)] * 20
    assert max(listed) == 1


def test_answers_that_are_not_large_wait_for_no_large_one(asking: Asking) -> None:
    for topic in ("all", "big", "big", "medium", "small"):
        asking.ask(topic)
    asking.kernel.run_for(0)
    assert [topic for topic, _ in asking.answered][:2] == ["small", "medium"]
    assert sorted(asking.answered[2:]) == [
        ("all", BIG + MEDIUM + SMALL),
        ("big", BIG),
        ("big", BIG),
    ]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_whoever_leaves_amid_a_large_answer_or_before_it_holds_nobody_up(
    asking: Asking, number: int
) -> None:
    tasks = [asking.ask("big") for _ in range(3)]

    async def leave() -> None:
        await asking.runtime.sleep(0)
        tasks[number].cancel()

    asking.scope.spawn("leave", leave())
    asking.kernel.run_for(0)
    assert asking.answered == [("big", BIG)] * 2


def test_offsets_of_many_partitions_are_looked_up_in_steps(world: Any) -> None:
    """11,900 in one request kept all others waiting for 60 ms."""
    partitions = tuple(
        ListOffsetsPartition("t", number, LATEST_TIMESTAMP) for number in range(10 * CHUNK)
    )
    for number in range(10 * CHUNK):
        world.host("t", number)
    order: list[int] = []

    async def ask(wanted: tuple[ListOffsetsPartition, ...]) -> None:
        request = ListOffsetsRequest(NodeId(-1), wanted)
        response = await world.api.handle(request, "CLIENT")
        assert all(each.error is ErrorCode.NONE for each in response.partitions)
        order.append(len(response.partitions))

    world.scope.spawn("large", ask(partitions))
    world.scope.spawn("small", ask(partitions[:1]))
    world.kernel.run_for(0)
    assert order == [1, 10 * CHUNK]
