"""Committed offsets outlive their coordinator, and Apache Kafka's own tools read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from highwater.cluster.cluster import Cluster
from highwater.cluster.wire_client import ConnectionClosed, WireClient
from highwater.waiting import eventually
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.messages import FindCoordinatorRequest
from tests.integration.conftest import under_presets
from tests.support.kafka_commands import (
    CONSOLE_CONSUMER,
    OFFSETS_FORMATTER,
    KafkaCommands,
)

pytestmark = pytest.mark.docker

WITHIN_S = 120.0


def consumer_of(cluster: Cluster, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
        }
    )


def coordinator_of(cluster: Cluster, group: str, asked: int) -> int | None:
    """Return the group's coordinator by the answer of one broker; None while there is none."""
    try:
        with WireClient(cluster.external_endpoint(asked)) as client:
            (found,) = client.call(FindCoordinatorRequest((group,))).coordinators
    except (OSError, ConnectionClosed):
        return None
    return int(found.node_id) if found.error is ErrorCode.NONE else None


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    """Commit the offset of partition 0; return once the commit is acknowledged.

    A coordinator that others know of may not lead yet, or load; librdkafka tries for 0.2 s.
    """
    consumer = consumer_of(cluster, group)

    def is_committed() -> bool:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        return True

    try:
        eventually(is_committed, within=WITHIN_S, what="a commit", retry_on=KafkaException)
    finally:
        consumer.close()


def committed(cluster: Cluster, group: str, topic: str) -> int | None:
    """Return the group's committed offset of partition 0; None while no broker returns it."""
    consumer = consumer_of(cluster, group)
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=10.0)
    except KafkaException:
        return None
    finally:
        consumer.close()
    return int(found.offset)


# A preset changes nothing of a coordinator.
@pytest.mark.parametrize("brisk", under_presets("brisk", nightly=(Preset.V3,)), indirect=True)
def test_commits_survive_the_death_of_their_coordinator(
    brisk: Cluster, new_topic: Callable[..., str]
) -> None:
    topic, group = new_topic(brisk), "survivors"
    eventually(
        lambda: coordinator_of(brisk, group, 0) is not None, within=WITHIN_S, what="a coordinator"
    )
    for offset in (5, 3):  # a consumer may go back
        commit(brisk, group, topic, offset)
    killed = coordinator_of(brisk, group, 0)
    assert killed is not None
    brisk.kill(killed)
    other = next(broker for broker in range(3) if broker != killed)
    eventually(
        lambda: coordinator_of(brisk, group, other) not in (None, killed),
        within=WITHIN_S,
        what="another coordinator",
    )
    eventually(
        lambda: committed(brisk, group, topic) == 3, within=WITHIN_S, what="the committed offset"
    )
    commit(brisk, group, topic, 8)
    brisk.start_node(killed)
    brisk.wait_until_ready()
    told = eventually(  # the broker that is back may not know the coordinator yet
        lambda: committed(brisk, group, topic), within=WITHIN_S, what="a committed offset"
    )
    assert told == 8


def test_apache_kafkas_tools_read_groups_and_their_records(
    steady: Cluster, new_topic: Callable[..., str], kafka_commands: KafkaCommands
) -> None:
    topic, group = new_topic(steady), "readable"
    eventually(
        lambda: coordinator_of(steady, group, 0) is not None, within=WITHIN_S, what="a coordinator"
    )
    commit(steady, group, topic, 7)
    described = kafka_commands.of_groups(steady.bootstrap, "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert [row[:4] for row in rows] == [[group, topic, "0", "7"]]
    key = {"group": group, "topic": topic, "partition": 0}
    values = eventually(  # on a busy machine the consumer may end before it has begun to read
        lambda: values_of(key, steady, kafka_commands), within=WITHIN_S, what="its record"
    )
    assert [(value["offset"], value["metadata"]) for value in values] == [(7, "")]


def values_of(key: object, cluster: Cluster, kafka_commands: KafkaCommands) -> list[Any]:
    """Return the values of the key in `__consumer_offsets`, as the console consumer reads them."""
    printed = kafka_commands.run(
        CONSOLE_CONSUMER, cluster.bootstrap, "--topic", "__consumer_offsets", "--from-beginning",
        "--timeout-ms", "10000", "--consumer-property", "exclude.internal.topics=false",
        "--formatter", OFFSETS_FORMATTER,
    )  # fmt: skip
    decoder, records = json.JSONDecoder(), []
    while (start := printed.find("{")) >= 0:
        record, end = decoder.raw_decode(printed[start:])
        records.append(record)
        printed = printed[start + end :]
    return [each["value"]["data"] for each in records if each["key"]["data"] == key]
