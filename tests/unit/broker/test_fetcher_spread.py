"""Which of a leader's fetchers copies a partition, and how partitions move between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from highwater_broker.logic.fetcher_spread import fetcher_number
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, TopicId, TopicPartition

from .conftest import TWO, Bench

MakeBench = Callable[..., Bench]


@pytest.mark.parametrize(
    ("topic", "partition", "count", "number"),
    [
        # |31 * "orders".hashCode() + partition| % count, as Java has it
        ("", 0, 4, 0),
        ("a", 0, 4, 3),
        ("a", 1, 4, 0),
        ("orders", 0, 4, 1),
        ("orders", 7, 4, 2),
        ("orders", 0, 1, 0),
        ("payments", 2, 7, 3),
        ("payments", 900, 64, 9),
        ("polygenelubricants", 0, 3, 0),  # its hash is the lowest number that there is
        ("polygenelubricants", 1, 3, 1),
    ],
)
def test_a_partitions_fetcher_is_kafkas(
    topic: str, partition: int, count: int, number: int
) -> None:
    assert fetcher_number(TopicPartition(topic, partition), count) == number


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_topics_partitions_are_spread_evenly(count: int) -> None:
    numbers = Counter(fetcher_number(TopicPartition("t", each), count) for each in range(1_000))
    assert sorted(numbers) == list(range(count))
    assert max(numbers.values()) - min(numbers.values()) <= 1


class NamedPartition:
    """A partition with the attributes that the registry reads."""

    leader_epoch = 0

    def __init__(self, number: int, topic_id: TopicId) -> None:
        self.topic_partition = TopicPartition("t", number)
        self.topic_id = topic_id
        self.traced: list[EventKind] = []

    def trace(self, kind: EventKind, **detail: object) -> None:
        self.traced.append(kind)


def test_partitions_move_only_where_the_number_changes_their_fetcher(
    make_bench: MakeBench,
) -> None:
    registry = make_bench().fetchers()
    partitions = [NamedPartition(each, TopicId("f" * 32)) for each in range(12)]
    partitions += [NamedPartition(12, NO_TOPIC_ID)]
    for each in partitions:
        truncates = each.topic_partition.partition % 2 == 0
        registry.add(each, TWO, truncates=truncates, is_in_sync=not truncates)  # type: ignore[arg-type]
    assert {key.name for key in registry._fetchers} == {
        "ReplicaFetcherThread-2",
        "ReplicaFetcherThread-2-by-name",
    }

    registry.spread_over(4)
    followed = {
        key.name: sorted(each.partition for each in fetcher._followed)
        for key, (fetcher, _) in registry._fetchers.items()
    }
    base = fetcher_number(TopicPartition("t", 0), 4)
    names = ["", "-1", "-2", "-3"]
    assert followed == {
        **{
            f"ReplicaFetcherThread-2{names[(base + first) % 4]}": [first, first + 4, first + 8]
            for first in range(4)
        },
        f"ReplicaFetcherThread-2{names[base % 4]}-by-name": [12],
    }
    for fetcher, _ in registry._fetchers.values():
        for key, entry in fetcher._followed.items():
            is_even = key.partition % 2 == 0
            assert (entry.phase.value, entry.is_in_sync) == (
                "truncating" if is_even else "fetching",
                not is_even,
            )
    stayed = [each for each in partitions if each.traced == [EventKind.FETCHER_STARTED]]
    moved = [each for each in partitions if each not in stayed]
    started, stopped = EventKind.FETCHER_STARTED, EventKind.FETCHER_STOPPED
    assert all(each.traced == [started, stopped, started] for each in moved)
    assert {fetcher_number(each.topic_partition, 4) for each in stayed} == {0}

    registry.spread_over(1)
    assert {key.number for key in registry._fetchers} == {0}
    assert len(registry._fetcher_of) == 13
