"""Stock clients work with Highwater: librdkafka (confluent-kafka), kafka-python and kcat."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager

import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from highwater.cluster.cluster import Cluster
from highwater.cluster.engine import Reach, connect_engine, engine_facts
from tests.support.metadata import await_known

pytestmark = pytest.mark.docker

WITHIN_S = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def produce_all(cluster: Cluster, topic: str, values: list[bytes], **settings: object) -> list[int]:
    """Produce the values to partition 0 with acks=all, and return their offsets."""
    offsets: list[int] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        if error is not None:
            failures.append(error)
        else:
            offsets.append(message.offset())  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **settings})
    for value in values:
        producer.produce(topic, value=value, key=b"k", partition=0, on_delivery=delivered)
    assert producer.flush(WITHIN_S) == 0
    assert failures == []
    return offsets


def consume_all(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    """Return the first values of partition 0; read without a group's offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, WITHIN_S)
    finally:
        consumer.close()
    assert [message.error() for message in messages] == [None] * count
    return [message.value() for message in messages]


@pytest.fixture
def admin(steady: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": steady.bootstrap})


@pytest.mark.parametrize("codec", CODECS)
def test_what_librdkafka_produces_it_consumes(
    steady: Cluster, new_topic: Callable[..., str], codec: str
) -> None:
    name = new_topic(steady)
    values = [f"value-{number}-".encode() * 20 for number in range(200)]

    offsets = produce_all(steady, name, values, **{"compression.type": codec, "linger.ms": 50})

    assert offsets == list(range(200))
    assert consume_all(steady, name, 200) == values


def test_a_client_that_sends_to_many_partitions_in_one_request_is_served(
    steady: Cluster,
    new_topic: Callable[..., str],
    nobody_restarts: Callable[[Cluster], AbstractContextManager[None]],
) -> None:
    """kafka-python and Java send batches of many partitions in one request, librdkafka of one."""
    partitions, rounds = 90, 3
    name = new_topic(steady, partition_count=partitions, replication_factor=3)
    with nobody_restarts(steady):
        producer = kafka.KafkaProducer(
            bootstrap_servers=steady.bootstrap.split(","),
            acks="all",
            enable_idempotence=False,
            linger_ms=30_000,  # every record waits for the flush
            request_timeout_ms=20_000,
        )
        sent = [
            (number, producer.send(name, f"{turn}".encode(), partition=number))
            for turn in range(rounds)
            for number in range(partitions)
        ]
        producer.flush(WITHIN_S)
        offsets = sorted((number, one.get(WITHIN_S).offset) for number, one in sent)
        batches = producer.metrics()["producer-metrics"]
        producer.close()
    assert offsets == [(number, turn) for number in range(partitions) for turn in range(rounds)]
    assert batches["records-per-request-avg"] > 16, "else it did not ask what this test is about"


def test_librdkafka_learns_the_offsets_at_both_ends_and_by_time(
    steady: Cluster, new_topic: Callable[..., str], admin: AdminClient
) -> None:
    name = new_topic(steady)
    partition = TopicPartition(name, 0)
    produce_all(steady, name, [b"a", b"b", b"c"])

    def asked(spec: OffsetSpec) -> int:
        (future,) = admin.list_offsets({partition: spec}).values()
        return int(future.result(WITHIN_S).offset)

    assert asked(OffsetSpec.earliest()) == 0
    assert asked(OffsetSpec.latest()) == 3
    assert asked(OffsetSpec.for_timestamp(1)) == 0
    consumer = Consumer({"bootstrap.servers": steady.bootstrap, "group.id": "unused"})
    try:
        assert consumer.get_watermark_offsets(partition, WITHIN_S) == (0, 3)
    finally:
        consumer.close()


def test_an_admin_client_creates_describes_and_deletes_topics(
    steady: Cluster, admin: AdminClient
) -> None:
    new = NewTopic("by-admin", 3, 2, config={"min.insync.replicas": "2", "retention.ms": "60000"})
    (created,) = admin.create_topics([new], operation_timeout=WITHIN_S).values()
    created.result(WITHIN_S)
    await_known(steady, "by-admin", 3)

    metadata = admin.list_topics("by-admin", timeout=WITHIN_S)
    assert sorted(metadata.brokers) == [0, 1, 2]
    partitions = metadata.topics["by-admin"].partitions
    assert sorted(partitions) == [0, 1, 2]
    for partition in partitions.values():
        assert len(partition.replicas) == 2
        assert sorted(partition.isrs) == sorted(partition.replicas)
        assert partition.leader in partition.replicas

    resource = ConfigResource(ResourceType.TOPIC, "by-admin")
    (described,) = admin.describe_configs([resource]).values()
    entries = described.result(WITHIN_S)
    assert entries["min.insync.replicas"].value == "2"
    assert entries["retention.ms"].value == "60000"
    assert not entries["retention.ms"].is_default
    assert entries["cleanup.policy"].value == "delete"
    assert entries["cleanup.policy"].is_default

    (again,) = admin.create_topics([new]).values()
    with pytest.raises(KafkaException) as refused:
        again.result(WITHIN_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS

    (deleted,) = admin.delete_topics(["by-admin"], operation_timeout=WITHIN_S).values()
    deleted.result(WITHIN_S)
    await_known(steady, "by-admin", 0)
    assert "by-admin" not in admin.list_topics(timeout=WITHIN_S).topics


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("bad name", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("too-wide", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("bad-config", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
    ],
    ids=["name", "replication factor", "configuration"],
)
def test_an_admin_client_is_told_why_a_topic_is_refused(
    admin: AdminClient, new: NewTopic, code: int
) -> None:
    (created,) = admin.create_topics([new]).values()
    with pytest.raises(KafkaException) as refused:
        created.result(WITHIN_S)
    assert refused.value.args[0].code() == code


# ---------------------------------------------------------------- kcat


@pytest.fixture
def kcat() -> Callable[..., str]:
    """A function that runs kcat and returns its output."""
    program = shutil.which("kcat")
    if program is None:
        missing = "kcat is not installed: run scripts/test-tools"
        if os.environ.get("HIGHWATER_REQUIRE_DOCKER") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)

    def run(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [program, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_kcat_lists_the_cluster_by_the_addresses_of_the_listener_that_it_asked(
    steady: Cluster, new_topic: Callable[..., str], kcat: Callable[..., str]
) -> None:
    name = new_topic(steady)
    outside = json.loads(kcat("-b", steady.bootstrap, "-L", "-J"))
    assert {broker["id"]: broker["name"] for broker in outside["brokers"]} == {
        broker: str(steady.external_endpoint(broker)) for broker in (0, 1, 2)
    }
    (topic,) = [found for found in outside["topics"] if found["topic"] == name]
    (partition,) = topic["partitions"]
    assert partition["leader"] == 0
    assert [replica["id"] for replica in partition["replicas"]] == [0, 1, 2]
    assert sorted(replica["id"] for replica in partition["isrs"]) == [0, 1, 2]


@pytest.mark.parametrize("codec", CODECS)
def test_what_kcat_produces_it_consumes(
    steady: Cluster, new_topic: Callable[..., str], kcat: Callable[..., str], codec: str
) -> None:
    name = new_topic(steady)
    lines = "".join(f"line {number} of kcat\n" for number in range(100))

    kcat("-b", steady.bootstrap, "-P", "-t", name, "-p", "0", "-z", codec, stdin=lines)
    read = kcat("-b", steady.bootstrap, "-C", "-t", name, "-o", "beginning", "-e", "-q")

    assert read == lines


def test_kcat_produces_and_consumes_inside_the_network(
    steady: Cluster, new_topic: Callable[..., str], kcat: Callable[..., str]
) -> None:
    if engine_facts(connect_engine()).reach is not Reach.DIRECT:
        pytest.skip("this machine cannot reach the containers' own addresses")
    name = new_topic(steady)
    inside = json.loads(kcat("-b", steady.internal_bootstrap, "-L", "-J"))
    assert {broker["id"]: broker["name"] for broker in inside["brokers"]} == {
        broker: f"{steady.address(broker)}:9092" for broker in (0, 1, 2)
    }

    kcat("-b", steady.internal_bootstrap, "-P", "-t", name, "-p", "0", stdin="inside\n")
    read = kcat("-b", steady.internal_bootstrap, "-C", "-t", name, "-o", "beginning", "-e", "-q")

    assert read == "inside\n"
