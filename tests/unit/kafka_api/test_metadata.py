"""The metadata cache, and the answers to Metadata."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.metadata_cache import MetadataCache
from highwater_core.ids import NodeId, TopicPartition
from highwater_wire.kafka.messages import MetadataRequest

OLD_ID, NEW_ID = "aa" * 16, "bb" * 16


# ---------------------------------------------------------------- the cache


def test_live_brokers_are_replaced_whole_and_sorted(make_update: Any) -> None:
    cache = MetadataCache()
    cache.update(make_update.request((), live=(2, 0, 1)))
    assert [broker.broker_id for broker in cache.live_brokers()] == [0, 1, 2]
    cache.update(make_update.request((), live=(1,)))
    assert [broker.broker_id for broker in cache.live_brokers()] == [1]
    assert not cache.is_alive(NodeId(0))
    assert cache.endpoints(NodeId(0)) is None


def test_partitions_are_merged_and_listed_in_order(make_update: Any) -> None:
    cache = MetadataCache()
    cache.update(make_update.request((make_update.partition("t", 1, 0),)))
    cache.update(make_update.request((make_update.partition("t", 0, 1),)))
    numbers = [known.topic_partition.partition for known in cache.partitions("t")]
    assert (cache.topics(), numbers, cache.partition_count) == (("t",), [0, 1], 2)
    assert cache.controller_id == 1000
    assert cache.partition("t", 2) is None


def test_leader_during_delete_removes_the_partition_and_at_last_the_topic(
    make_update: Any,
) -> None:
    cache = MetadataCache()
    both = tuple(make_update.partition("t", number, 0, OLD_ID) for number in (0, 1))
    cache.update(make_update.request(both))
    removed = cache.update(make_update.request((make_update.partition("t", 0, -2, OLD_ID),)))
    assert (removed, cache.has_topic("t")) == ((TopicPartition("t", 0),), True)
    assert (cache.partition_count, cache.partition_count_of("t")) == (1, 1)
    cache.update(make_update.request((make_update.partition("t", 1, -2, OLD_ID),)))
    assert (cache.topics(), cache.topic_of(OLD_ID), cache.topic_id("t")) == ((), None, "")
    assert cache.update(make_update.request((make_update.partition("t", 1, -2),))) == ()


def test_a_new_topic_id_replaces_every_partition_of_the_old_one(make_update: Any) -> None:
    cache = MetadataCache()
    old = tuple(make_update.partition("t", number, 0, OLD_ID) for number in (0, 1))
    cache.update(make_update.request(old))
    removed = cache.update(make_update.request((make_update.partition("t", 0, 0, NEW_ID),)))
    assert removed == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert (cache.partition_count, cache.partition_count_of("t")) == (1, 1)
    assert [known.topic_partition.partition for known in cache.partitions("t")] == [0]
    assert (cache.topic_of(OLD_ID), cache.topic_of(NEW_ID)) == (None, "t")


def test_the_deletion_of_an_earlier_incarnation_leaves_the_present_one(make_update: Any) -> None:
    cache = MetadataCache()
    cache.update(make_update.request((make_update.partition("t", 0, 0, NEW_ID),)))
    assert cache.update(make_update.request((make_update.partition("t", 0, -2, OLD_ID),))) == ()
    assert cache.topic_of(NEW_ID) == "t"


def test_listeners_hear_of_each_topic_once_after_the_whole_update(make_update: Any) -> None:
    cache = MetadataCache()
    heard: list[tuple[str, int]] = []
    cache.listen(lambda topic: heard.append((topic, cache.partition_count)))
    names = (("b", 0), ("b", 1), ("a", 0))
    cache.update(make_update.request(tuple(make_update.partition(*name, 0) for name in names)))
    assert heard == [("b", 3), ("a", 3)]


# ---------------------------------------------------------------- the handler


@pytest.mark.parametrize(
    ("listener", "endpoint"),
    [
        ("CLIENT", ("broker-1", 9092)),
        ("EXTERNAL", ("localhost", 30001)),
        ("REPLICATION", ("broker-1", 9093)),
    ],
)
def test_brokers_are_named_by_the_listener_that_was_asked(
    world: Any, listener: str, endpoint: tuple[str, int]
) -> None:
    world.cluster()
    response = world.ask(MetadataRequest(()), listener)
    assert [broker.broker_id for broker in response.brokers] == [0, 1, 2]
    assert (response.brokers[1].host, response.brokers[1].port) == endpoint
    assert response.topics == ()


def test_the_answering_broker_is_the_controller_for_clients_once_it_is_known_to_live(
    world: Any,
) -> None:
    world.cluster(live=(1, 2))
    assert world.ask(MetadataRequest(())).controller_id == -1
    world.cluster()
    response = world.ask(MetadataRequest(()))
    assert (response.controller_id, response.cluster_id) == (0, "test-cluster")


def test_no_names_ask_for_every_topic_in_order(world: Any) -> None:
    world.cluster({"b": [0], "a": [0, 1], "__internal": [0]})
    topics = world.ask(MetadataRequest(None)).topics
    assert [(topic.name, len(topic.partitions), topic.is_internal) for topic in topics] == [
        ("__internal", 1, False),
        ("a", 2, False),
        ("b", 1, False),
    ]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("known", "NONE"),
        ("unknown", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("", "INVALID_TOPIC_EXCEPTION"),
        ("..", "INVALID_TOPIC_EXCEPTION"),
        ("a/b", "INVALID_TOPIC_EXCEPTION"),
        ("x" * 249, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("x" * 250, "INVALID_TOPIC_EXCEPTION"),
        ("schlüssel", "INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_topics_are_answered_by_name(world: Any, name: str, error: str) -> None:
    world.cluster({"known": [0]})
    (topic,) = world.ask(MetadataRequest((name, name), allow_auto_topic_creation=True)).topics
    assert (topic.name, topic.error.name) == (name, error)
    assert world.controller.requests == []


@pytest.mark.parametrize(
    ("leader", "live", "error", "told"),
    [
        (1, (0, 1, 2), "NONE", 1),
        (1, (0, 2), "LEADER_NOT_AVAILABLE", -1),
        (-1, (0, 1, 2), "LEADER_NOT_AVAILABLE", -1),
    ],
    ids=["live leader", "dead leader", "no leader"],
)
def test_a_partition_without_a_live_leader_says_so(
    world: Any, leader: int, live: tuple[int, ...], error: str, told: int
) -> None:
    world.cluster({"t": [leader]}, live)
    (partition,) = world.ask(MetadataRequest(("t",))).topics[0].partitions
    assert (partition.error.name, partition.leader, partition.leader_epoch) == (error, told, 3)
    assert (partition.replicas, partition.isr) == ((0, 1, 2), (0, 1))
    assert partition.offline_replicas == tuple(broker for broker in range(3) if broker not in live)


def test_only_the_topics_that_brokers_keep_are_internal(world: Any) -> None:
    world.cluster({"__consumer_offsets": [0], "__mine": [0]})
    told = {each.name: each.is_internal for each in world.ask(MetadataRequest(None)).topics}
    assert told == {"__consumer_offsets": True, "__mine": False}
