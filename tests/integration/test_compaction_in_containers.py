"""Stock clients read a compacted topic: the newest record of each key, with every codec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import Topology
from highwater.run_folder import new_run_id
from highwater.waiting import eventually
from tests.support.metadata import await_known

pytestmark = pytest.mark.docker

WITHIN_S = 60.0
SETTINGS = {
    "segment_bytes": 20_000,
    "log_cleaner_backoff_ms": 500,
    "log_flush_interval_ms": 500,
    "replica_lag_time_max_ms": 60_000,
}
KEYS, ROUNDS = 50, 40
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_BY_KAFKA_PYTHON = ("none", "gzip")
"""Codecs that kafka-python reads without further libraries."""
Found = dict[bytes | None, bytes | None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    topology = Topology(session_timeout_ms=6_000, broker_settings=SETTINGS)
    with Cluster(topology, new_run_id("test")) as running:
        yield running.start()


def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def make(cluster: Cluster, topic: str, **configs: str) -> None:
    new = NewTopic(topic, 1, 3, config={"cleanup.policy": "compact", **configs})
    client = admin(cluster)
    for created in client.create_topics([new], request_timeout=WITHIN_S).values():
        created.result(WITHIN_S)
    await_known(cluster, topic)


def produce(
    cluster: Cluster,
    topic: str,
    records: Sequence[tuple[str | None, str | None]],
    **settings: object,
) -> list[KafkaError]:
    """Produce the records; return the error of each refused one."""
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        if error is not None:
            refused.append(error)

    batches = {"batch.num.messages": 15, "linger.ms": 5}  # none is larger than a segment
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", **batches, **settings}
    )
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0, on_delivery=delivered)
    assert producer.flush(WITHIN_S) == 0
    return refused


def end_of(cluster: Cluster, topic: str) -> int:
    at = TopicPartition(topic, 0)
    client = admin(cluster)
    found = client.list_offsets({at: OffsetSpec.latest()})
    return int(found[at].result(WITHIN_S).offset)


def read_by_librdkafka(cluster: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return the records of partition 0 up to its end, as the broker reports it."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes | None, bytes | None]] = []
    try:
        while True:
            message = consumer.poll(WITHIN_S)
            assert message is not None, f"no end after {len(found)} records"
            if message.error() is None:
                found.append((message.key(), message.value()))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return found
    finally:
        consumer.close()


def read_by_kafka_python(cluster: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap, group_id=None, enable_auto_commit=False
    )
    at = kafka.TopicPartition(topic, 0)
    consumer.assign([at])
    consumer.seek_to_beginning(at)
    end = consumer.end_offsets([at])[at]
    found: list[tuple[bytes | None, bytes | None]] = []
    try:
        while consumer.position(at) < end:
            for records in consumer.poll(1_000).values():
                found += [(record.key, record.value) for record in records]
    finally:
        consumer.close()
    return found


def noise(number: int) -> str:
    """Return characters that no codec compresses well."""
    return sha256(b"%d" % number).hexdigest()


FILLERS = [("filler", "".join(map(noise, range(each, each + 16)))) for each in range(0, 640, 16)]
"""Records with so many bytes that more segments begin."""


def load(topic: str) -> tuple[list[tuple[str | None, str | None]], Found]:
    """Return rounds of records with the same keys, last tombstones of some, and the values left."""
    records: list[tuple[str | None, str | None]] = [
        (f"key-{key}", f"{topic} round {number} {noise(number * KEYS + key)}")
        for number in range(ROUNDS)
        for key in range(KEYS)
    ]
    records += [(f"key-{key}", None) for key in range(5)]
    left: Found = {key.encode(): value.encode() for key, value in records if key and value}
    for key in range(5):
        del left[f"key-{key}".encode()]
    return [*records, *FILLERS], {**left, b"filler": FILLERS[-1][1].encode()}


def values_of(found: list[tuple[bytes | None, bytes | None]]) -> Found:
    """Return the newest value of each key that has one."""
    return {key: value for key, value in dict(found).items() if value is not None}


@pytest.mark.parametrize("codec", CODECS)
def test_stock_clients_read_the_newest_record_of_each_key(cluster: Cluster, codec: str) -> None:
    topic = f"compacted-{codec}"
    make(cluster, topic, **{"min.cleanable.dirty.ratio": "0.05", "delete.retention.ms": "0"})
    records, left = load(topic)
    settings = {"compression.type": codec}
    assert produce(cluster, topic, records, **settings) == []
    assert values_of(read_by_librdkafka(cluster, topic)) == left

    def is_compacted() -> int:
        again = produce(cluster, topic, FILLERS, **settings)
        assert again == []
        count = len(read_by_librdkafka(cluster, topic))
        return count if count < KEYS * ROUNDS // 4 else 0

    eventually(is_compacted, within=WITHIN_S, what="the log is compacted")
    assert values_of(read_by_librdkafka(cluster, topic)) == left
    if codec in READ_BY_KAFKA_PYTHON:
        assert values_of(read_by_kafka_python(cluster, topic)) == left


def test_a_leader_that_dies_leaves_a_compacted_log_that_others_serve(cluster: Cluster) -> None:
    topic = "compacted-and-moved"
    make(cluster, topic, **{"min.cleanable.dirty.ratio": "0.05"})
    records, left = load(topic)
    assert produce(cluster, topic, records) == []
    client = admin(cluster)
    leader = client.list_topics(topic, WITHIN_S).topics[topic].partitions[0].leader
    cluster.kill(leader)
    cluster.start_node(leader)
    assert produce(cluster, topic, FILLERS) == []
    assert values_of(read_by_librdkafka(cluster, topic)) == left


def test_a_record_without_a_key_is_refused(cluster: Cluster) -> None:
    make(cluster, "keyed")
    (refused,) = produce(cluster, "keyed", [(None, "value")])
    assert refused.name() == "INVALID_RECORD"
    assert end_of(cluster, "keyed") == 0


def test_the_settings_are_told_and_changed(cluster: Cluster) -> None:
    make(cluster, "told", **{"delete.retention.ms": "1234"})
    resource = ConfigResource(ResourceType.TOPIC, "told")
    client = admin(cluster)
    entries = client.describe_configs([resource])[resource].result(WITHIN_S)
    told = {name: entries[name].value for name in entries}
    assert told["cleanup.policy"] == "compact"
    assert told["delete.retention.ms"] == "1234"
    assert told["min.cleanable.dirty.ratio"] == "0.5"
    assert told["min.compaction.lag.ms"] == "0"
