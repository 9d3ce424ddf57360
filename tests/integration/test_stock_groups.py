"""Groups of stock clients in containers: shared partitions, a dead coordinator, Apache's tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_full_isr
from highwater.waiting import eventually
from highwater_core.config import Preset
from highwater_core.internal_topics import OFFSETS_TOPIC
from tests.integration.conftest import under_presets
from tests.support.kafka_commands import CONSOLE_CONSUMER, KafkaCommands

pytestmark = pytest.mark.docker

WITHIN_S = 60.0
PARTITIONS = 4
RECORDS = 40


def produce(cluster: Cluster, topic: str, first: int = 0) -> None:
    """Write RECORDS records with different values, numbers from the first one on."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(first, first + RECORDS):
        producer.produce(topic, f"{number}".encode(), partition=number % PARTITIONS)
    assert producer.flush(WITHIN_S) == 0


class Members:
    """Members of one group that read a topic, and all records that they have read."""

    def __init__(self, cluster: Cluster, topic: str, group: str) -> None:
        self._cluster, self._topic, self._group = cluster, topic, group
        self.consumers: list[Any] = []
        self.read: list[str] = []

    def add(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 20_000,
                "heartbeat.interval.ms": 500,
            }
        )
        consumer.subscribe([self._topic])
        self.consumers.append(consumer)

    def poll(self) -> None:
        for consumer in self.consumers:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append(message.value().decode())

    def share(self, *counts: int) -> None:
        """Poll until the members' assignments have these sizes at one time, in any order."""

        def is_shared() -> bool:
            self.poll()
            return sorted(len(each.assignment()) for each in self.consumers) == sorted(counts)

        eventually(is_shared, within=WITHIN_S, what=f"shares of {counts}")

    def read_to(self, count: int) -> None:
        def has_read() -> bool:
            self.poll()
            return len(set(self.read)) >= count

        eventually(has_read, within=WITHIN_S, what=f"{count} records")

    def commit(self) -> None:
        """Commit all positions, again and again until the commits are acknowledged."""

        def is_committed(consumer: Any) -> bool:
            self.poll()
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                return False
            return True

        for consumer in self.consumers:
            eventually(
                lambda one=consumer: is_committed(one), within=WITHIN_S, what="positions committed"
            )

    def committed(self) -> list[int]:
        wanted = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        found = eventually(
            lambda: self.consumers[0].committed(wanted, timeout=WITHIN_S),
            within=WITHIN_S,
            what="committed offsets",
            retry_on=KafkaException,
        )
        return [each.offset for each in found]


@contextmanager
def members_of(cluster: Cluster, topic: str, count: int, group: str = "") -> Iterator[Members]:
    members = Members(cluster, topic, group or f"of-{topic}")
    for _ in range(count):
        members.add()
    try:
        yield members
    finally:
        for consumer in members.consumers:
            consumer.close()


def coordinator_of(cluster: Cluster, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (described,) = admin.describe_consumer_groups([group]).values()
    return int(described.result(WITHIN_S).coordinator.id)


# A preset changes nothing of a coordinator.
@pytest.mark.parametrize("brisk", under_presets("brisk", nightly=(Preset.V3,)), indirect=True)
def test_members_go_on_after_their_coordinator_dies(
    brisk: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(brisk, partition_count=PARTITIONS, replication_factor=3)
    produce(brisk, topic)
    with members_of(brisk, topic, 2) as members:
        members.share(2, 2)
        members.read_to(RECORDS)
        members.commit()
        assert members.committed() == [RECORDS // PARTITIONS] * PARTITIONS
        dead = coordinator_of(brisk, f"of-{topic}")
        brisk.kill(dead)
        eventually(
            lambda: coordinator_of(brisk, f"of-{topic}") != dead,
            within=WITHIN_S,
            what="another coordinator",
            retry_on=KafkaException,  # it does not lead yet, or loads
        )
        assert members.committed() == [RECORDS // PARTITIONS] * PARTITIONS
        produce(brisk, topic, first=RECORDS)
        members.read_to(2 * RECORDS)
        members.commit()
        brisk.start_node(dead)
        brisk.wait_until_ready()
        members.add()
        members.share(1, 1, 2)
        assert members.committed() == [2 * RECORDS // PARTITIONS] * PARTITIONS


def restart_all(cluster: Cluster, topic: str) -> None:
    """Restart the brokers, one after the other, each once all replicas are in sync again."""
    for broker in cluster.topology.broker_ids:
        assert cluster.terminate(broker) == 0
        cluster.start_node(broker)
        cluster.wait_until_ready()
        await_full_isr(cluster, topic, PARTITIONS)
        await_full_isr(cluster, OFFSETS_TOPIC)


def commits(consumer: Consumer) -> bool:
    """Commit what the consumer has read and not committed yet, if anything."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:
            raise
    return True


def test_a_group_and_an_idempotent_producer_go_on_through_a_rolling_restart(
    steady: Cluster, new_topic: Callable[..., str]
) -> None:
    """With clients as they are; no record is lost, stored twice or delivered twice."""
    topic = new_topic(steady, partition_count=PARTITIONS, replication_factor=3)
    bootstrap = {"bootstrap.servers": steady.bootstrap}
    group = {"group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    acknowledged: list[str] = []
    read: list[str] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        acknowledged.append(message.value().decode())

    producer = Producer({**bootstrap, "enable.idempotence": True})
    consumers = [Consumer({**bootstrap, **group}) for _ in range(2)]
    try:
        for consumer in consumers:
            consumer.subscribe([topic])

        def poll() -> None:
            for consumer in consumers:
                message = consumer.poll(0.01)
                if message is not None and message.error() is None:
                    read.append(message.value().decode())

        def go_on(number: int) -> None:
            producer.produce(topic, f"{number}", partition=number % PARTITIONS, callback=delivered)
            producer.poll(0)
            poll()

        def are_assigned() -> bool:
            poll()
            return all(consumer.assignment() for consumer in consumers)

        eventually(are_assigned, within=WITHIN_S, what="both members have partitions")
        with ThreadPoolExecutor(1) as pool:
            restarted = pool.submit(restart_all, steady, topic)
            numbers = count()
            while not restarted.done():
                go_on(next(numbers))
            restarted.result()
        for _ in range(RECORDS):
            go_on(next(numbers))
        assert producer.flush(WITHIN_S) == 0

        def is_read() -> bool:
            poll()
            return len(read) >= len(acknowledged)

        eventually(is_read, within=WITHIN_S, what="each record", state=lambda: len(read))
        for consumer in consumers:
            # A commit that close() makes is tried once: a coordinator may just have moved.
            eventually(
                lambda consumer=consumer: commits(consumer),
                within=WITHIN_S,
                what="the offsets are committed",
                retry_on=KafkaException,
            )
    finally:
        for consumer in consumers:
            consumer.close()
    assert len(acknowledged) == next(numbers) > RECORDS
    assert sorted(read) == sorted(acknowledged)
    with members_of(steady, topic, 1, group["group.id"]) as again:
        assert sum(again.committed()) == len(acknowledged)


def test_kafkas_own_consumer_and_its_tool_for_groups(
    steady: Cluster, new_topic: Callable[..., str], kafka_commands: KafkaCommands
) -> None:
    topic = new_topic(steady, partition_count=PARTITIONS, replication_factor=3)
    group = f"java-{topic}"
    produce(steady, topic)
    read = kafka_commands.run(
        CONSOLE_CONSUMER, steady.bootstrap, "--topic", topic,
        "--group", group, "--from-beginning", "--max-messages", str(RECORDS),
    )  # fmt: skip
    assert sorted(map(int, read.split())) == list(range(RECORDS))

    def tool(*arguments: str) -> list[list[str]]:
        told = kafka_commands.of_groups(steady.bootstrap, *arguments)
        return [line.split() for line in told.splitlines()]

    assert [group, "Empty"] in tool("--list", "--state", "Empty")
    rows = [line[:6] for line in tool("--describe", "--group", group) if line[:1] == [group]]
    at_end = str(RECORDS // PARTITIONS)
    assert sorted(rows) == [
        [group, topic, str(number), at_end, at_end, "0"] for number in range(PARTITIONS)
    ]
    with members_of(steady, topic, 1, group) as members:
        members.share(PARTITIONS)
        (row,) = [line for line in tool("--describe", "--group", group, "--members")
                  if line[:1] == [group]]  # fmt: skip
        assert row[-2:] == ["rdkafka", str(PARTITIONS)]
        assert row[2].startswith("/")
    tool("--reset-offsets", "--group", group, "--to-earliest", "--all-topics", "--execute")
    tool("--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    rows = [line[:4] for line in tool("--describe", "--group", group) if line[:1] == [group]]
    assert sorted(rows) == [[group, topic, number, "0"] for number in ("0", "2", "3")]
    tool("--delete", "--group", group)
    assert [group] not in tool("--list")
