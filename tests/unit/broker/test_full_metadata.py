"""A full UpdateMetadata omits deleted topics, and the broker forgets them (found: L3)."""

from __future__ import annotations

import pytest

from highwater_broker.metadata_cache import MetadataCache
from highwater_core.ids import (
    LEADER_DURING_DELETE,
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import PartitionMetadata, UpdateMetadataRequest

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ID_A, ID_B = TopicId("a" * 32), TopicId("b" * 32)
LEADER = NodeId(1)


def of(
    at: TopicPartition, topic_id: TopicId = NO_TOPIC_ID, leader: NodeId = LEADER
) -> PartitionMetadata:
    return PartitionMetadata(
        at, leader, LeaderEpoch(0), (LEADER,), (LEADER,), PartitionEpoch(0), topic_id
    )


def update(
    number: int, *partitions: PartitionMetadata, is_full: bool = False
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        NodeId(1000), ControllerEpoch(1), BrokerEpoch(7), (), partitions, number, is_full
    )


def known(cache: MetadataCache) -> list[TopicPartition]:
    return [each.topic_partition for topic in cache.topics() for each in cache.partitions(topic)]


@pytest.mark.parametrize(
    ("listed", "left", "removed"),
    [
        ((), [], (T0, T1, U0)),
        ((of(U0),), [U0], (T0, T1)),
        ((of(T1),), [T1], (T0, U0)),
        ((of(T0), of(T1), of(U0)), [T0, T1, U0], ()),
        pytest.param(
            (of(T0), of(T1), of(U0, leader=LEADER_DURING_DELETE)), [T0, T1], (U0,), id="deleted"
        ),
    ],
)
def test_topics_that_a_full_update_does_not_list_are_forgotten(
    listed: tuple[PartitionMetadata, ...],
    left: list[TopicPartition],
    removed: tuple[TopicPartition, ...],
) -> None:
    cache = MetadataCache()
    cache.update(update(1, of(T0), of(T1), of(U0)))
    assert sorted(cache.update(update(2, *listed, is_full=True))) == list(removed)
    assert known(cache) == left


def test_topics_that_a_partial_update_does_not_list_stay() -> None:
    cache = MetadataCache()
    cache.update(update(1, of(T0), of(U0)))
    assert cache.update(update(2, of(U0))) == ()
    assert known(cache) == [T0, U0]


def test_a_late_copy_of_a_full_update_forgets_nothing() -> None:
    cache = MetadataCache()
    full = update(1, of(T0), is_full=True)
    cache.update(full)
    cache.update(update(2, of(U0)))
    assert cache.update(full) == ()
    assert known(cache) == [T0, U0]


def test_a_full_update_that_deletes_a_later_topic_of_the_name_forgets_the_earlier_one() -> None:
    cache = MetadataCache()
    cache.update(update(1, of(T0, ID_A)))
    assert cache.update(update(2, of(T0, ID_B, LEADER_DURING_DELETE))) == (), "a late deletion"
    assert cache.update(update(3, of(T0, ID_B, LEADER_DURING_DELETE), is_full=True)) == (T0,)
    assert cache.topic_of(ID_A) is None


def test_a_deletion_is_one_only_if_an_update_names_it() -> None:
    """A full update leaves out topics that its controller cannot read, too."""
    cache = MetadataCache()
    cache.update(update(1, of(T0, ID_A), of(T1, ID_A), of(U0)))
    deleted: list[TopicPartition] = []
    cache.when_deleted(deleted.extend)
    assert len(cache.update(update(2, is_full=True))) == 3
    assert deleted == []
    cache.update(update(3, of(T0, ID_A), of(T1, ID_A), of(U0)))
    cache.update(update(4, of(U0, leader=LEADER_DURING_DELETE), of(T0, ID_B), is_full=True))
    assert deleted == [U0, T0, T1]
    assert known(cache) == [T0]


def test_listeners_hear_of_topics_that_are_forgotten() -> None:
    cache = MetadataCache()
    cache.update(update(1, of(T0), of(U0)))
    heard: list[str] = []
    cache.listen(heard.append)
    cache.update(update(2, of(T0), is_full=True))
    assert heard == ["t", "u"]


def test_a_topic_that_goes_leaves_its_id_to_another() -> None:
    cache = MetadataCache()
    cache.update(update(1, of(T0, ID_A), of(U0, ID_A)))
    cache.update(update(2, of(T0, ID_A, leader=LEADER_DURING_DELETE)))
    assert cache.topic_of(ID_A) == "u"
