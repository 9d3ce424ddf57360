"""A controller whose connection to ZooKeeper broke: every watch fires, and few znodes have changed.

Source: the Coordination port: watches of a lost connection fire once, whether or not it changed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from highwater_controller import chunks
from highwater_controller.controller_events import BrokersChanged, TopicsChanged, TopicZnodeChanged
from highwater_controller.event_queue import EventQueue
from highwater_controller.patience import PatientReader
from highwater_core import znodes
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicId
from highwater_core.messages import CreateTopicsRequest, LeaderAndIsrRequest, NewTopic
from highwater_core.topic_znode import encode_topic
from highwater_simulator.network import Plane
from highwater_simulator.zookeeper import HOST

TOPICS = [f"t-{number:02}" for number in range(12)]
CONTROLLER = "controller-1000"


@pytest.fixture
def reads(running: Any, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Topics on a running cluster; by topic, how often its znode is read from now on."""
    topics = tuple(NewTopic(topic, 1, 3) for topic in TOPICS)
    running.ask(CreateTopicsRequest(topics))
    running.settle()
    counted: Counter[str] = Counter()
    get = PatientReader.get

    async def count(self: PatientReader, path: str, *, watch: bool = False) -> Any:
        topic = path.removeprefix(f"{znodes.TOPICS}/")
        counted[topic] += topic in TOPICS
        return await get(self, path, watch=watch)

    monkeypatch.setattr(PatientReader, "get", count)
    return counted


def break_connection(cluster: Any) -> None:
    (session_id,) = cluster.zookeeper.session_ids(CONTROLLER)
    cluster.zookeeper.lose_connection(session_id)


def away(cluster: Any, work: Any) -> None:
    """Do the work while the controller has no connection, well within its session's timeout."""
    cluster.network.cut_both_ways(CONTROLLER, HOST, Plane.ZOOKEEPER)
    break_connection(cluster)
    work()
    cluster.network.heal_all()
    cluster.settle(500)
    assert len(cluster.events(EventKind.CONTROLLER_ELECTED)) == 1


def test_each_topics_znode_is_read_once(running: Any, reads: Counter[str]) -> None:
    """Found: three times, one after the other, before any later event."""
    break_connection(running)
    running.settle(500)
    assert reads == Counter(TOPICS)


def test_a_brokers_death_waits_for_one_step_of_them_at_most(
    running: Any, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "PARTITIONS_PER_STEP", 5)
    events = [event for topic in TOPICS for event in (TopicZnodeChanged(topic), TopicsChanged())]
    controller = running.controllers[1000]._controller
    for event in (*events, BrokersChanged()):
        controller.enqueue(event)
    counts: list[int] = []
    children = PatientReader.children

    async def note(self: PatientReader, path: str, *, watch: bool = False) -> Any:
        if path == znodes.BROKER_IDS:
            counts.append(sum(reads.values()))
        return await children(self, path, watch=watch)

    monkeypatch.setattr(PatientReader, "children", note)
    running.settle(500)
    assert counts == [5]
    assert reads == Counter(TOPICS)


def test_a_later_change_is_seen(running: Any, reads: Counter[str]) -> None:
    break_connection(running)
    running.settle(500)
    running.write_topic(TOPICS[2], (0, 1, 2), (1, 2, 0))
    running.settle()
    assert running.state(TOPICS[2], 1).leader == 1


def test_partitions_that_were_added_meanwhile_come_up(running: Any, reads: Counter[str]) -> None:
    away(running, lambda: running.write_topic(TOPICS[7], (0, 1, 2), (1, 2, 0)))
    assert running.state(TOPICS[7], 1).leader == 1
    assert reads[TOPICS[7]] > 1
    assert reads[TOPICS[8]] == 1


def test_a_topic_that_was_made_again_meanwhile_is_another_one(
    running: Any, reads: Counter[str]
) -> None:
    name, topic_id = TOPICS[5], TopicId("ab" * 16)

    def make_again() -> None:
        for path in sorted(running.zookeeper.dump(), reverse=True):
            if path == znodes.topic_path(name) or path.startswith(f"{znodes.topic_path(name)}/"):
                running.delete(path)
        running.write(znodes.topic_path(name), encode_topic({0: (NodeId(2),)}, topic_id))

    away(running, make_again)
    command = running.brokers[2].heard(LeaderAndIsrRequest)[-1].partitions[-1]
    assert (command.topic_partition.topic, command.topic_id) == (name, topic_id)


def test_topics_that_went_meanwhile_are_forgotten(running: Any, reads: Counter[str]) -> None:
    gone = TOPICS[3:5]

    def remove() -> None:
        for path in sorted(running.zookeeper.dump(), reverse=True):
            if path.split("/")[3:4] and path.split("/")[3] in gone:
                running.delete(path)

    away(running, remove)
    (changed,) = running.events(EventKind.TOPICS_CHANGED)[-1:]
    assert changed.detail["deleted"] == gone


@pytest.mark.parametrize("kind", ["unreadable_topics", "unwritable_topics"])
def test_a_topic_that_waits_for_a_repair_is_looked_at_whole(
    running: Any, reads: Counter[str], kind: str
) -> None:
    """Another topic's id may be free by now: then the topic is sound, though it is as it was."""
    getattr(running.controllers[1000]._controller.term.context, kind).add(TOPICS[9])
    break_connection(running)
    running.settle(500)
    assert reads[TOPICS[9]] > 1
    assert reads[TOPICS[8]] == 1


def test_events_of_one_kind_are_taken_and_the_others_stay_in_order(cluster: Any) -> None:
    queue = EventQueue(cluster.kernel.runtime("node"))
    for event in (
        TopicZnodeChanged("a"),
        BrokersChanged(),
        TopicZnodeChanged("b"),
        TopicsChanged(),
    ):
        queue.put(event)
    assert queue.take_waiting(TopicZnodeChanged) == [TopicZnodeChanged("a"), TopicZnodeChanged("b")]
    assert queue.drain() == [BrokersChanged(), TopicsChanged()]
    assert dict(queue.counters())["events_taken"] == 2
