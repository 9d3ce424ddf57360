"""Readers that go away: in the middle of an answer, of catching up, of a long wait.

Each function does its deed once, within seconds; the caller repeats it. If a broker is down it
raises OSError, which proves nothing.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import ExitStack

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.hostile.target import Target
from highwater.cluster.wire_client import record_batch
from highwater_core.ids import NodeId, Offset
from highwater_wire.kafka.messages import (
    CONSUMER,
    LATEST_TIMESTAMP,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
)

_LONGEST_MS = 2**31 - 1
_SIZES = (41_000, 300_000, 1 << 20)
"""Bytes of fetches: all large enough to be sent from the file."""

_READ_FOR_EVER = """
import sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "x", "log_level": 0,
                     "enable.auto.commit": False, "auto.offset.reset": "earliest"})
consumer.assign([TopicPartition(sys.argv[2], p, 0) for p in range(int(sys.argv[3]))])
print("reads", flush=True)
while True:
    consumer.consume(500, 1.0)
"""


def _fetch(topic: str, partition: int, max_bytes: int, max_wait_ms: int = 500) -> FetchRequest:
    min_bytes = 1 if max_wait_ms <= 500 else _LONGEST_MS
    item = FetchPartition(topic, partition, Offset(0), max_bytes)
    return FetchRequest(NodeId(CONSUMER), max_wait_ms, min_bytes, max_bytes, (item,))


def leave_pipelined_fetches(target: Target, rng: random.Random) -> None:
    """Ask for many large answers at once, then close or reset while they are sent."""
    partition = rng.randrange(target.partition_count)
    client = target.leader_of(partition, rng)
    fetch = _fetch(target.topic, partition, rng.choice(_SIZES))
    client.ask([fetch] * rng.randint(2, 20))
    time.sleep(rng.choice((0.0, 0.0005, 0.001, 0.002, 0.02)))
    if rng.random() < 0.5:
        client.reset()
    else:
        client.close()


def leave_a_half_read_answer(target: Target, rng: random.Random) -> None:
    """Read the beginning of a large answer, let the rest wait, then leave."""
    partition = rng.randrange(target.partition_count)
    client = target.leader_of(partition, rng)
    client.ask([_fetch(target.topic, partition, 8 << 20)] * 3)
    client.receive_some(rng.randint(1, 100_000))
    time.sleep(rng.random() * 0.3)
    client.reset()


def leave_long_waits(target: Target, rng: random.Random) -> None:
    """Send sixty fetches that would wait for weeks, and leave."""
    partition = rng.randrange(target.partition_count)
    with target.leader_of(partition, rng) as client:
        client.ask([_fetch(target.topic, partition, 1 << 20, _LONGEST_MS)] * 60)


def wait_in_a_crowd(target: Target, rng: random.Random) -> None:
    """Let three thousand fetches wait for the same records, which then come, and leave."""
    partition = rng.randrange(target.partition_count)
    latest = ListOffsetsPartition(target.topic, partition, LATEST_TIMESTAMP)
    with ExitStack() as open_ones:
        clients = [open_ones.enter_context(target.leader_of(partition, rng)) for _ in range(50)]
        (end,) = clients[0].call(ListOffsetsRequest(NodeId(CONSUMER), (latest,))).partitions
        item = FetchPartition(target.topic, partition, end.offset, 1 << 20)
        fetch = FetchRequest(NodeId(CONSUMER), _LONGEST_MS, 10_000, 1 << 20, (item,))
        for client in clients:
            client.ask([fetch] * 64)
        time.sleep(0.5)
        with target.leader_of(partition, rng) as producer:
            producer.produce(target.topic, partition, record_batch([b"v" * 1_000] * 10))


def consume_and_leave(target: Target, rng: random.Random) -> None:
    """A stock consumer that begins to catch up and is closed."""
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.assign(
            [TopicPartition(target.topic, number, 0) for number in range(target.partition_count)]
        )
        for _ in range(rng.randint(1, 4)):
            consumer.consume(200, rng.random() * 0.2)
    except KafkaException as error:
        raise OSError(str(error)) from error
    finally:
        consumer.close()


def be_killed_while_reading(target: Target, rng: random.Random) -> None:
    """A stock consumer's process that SIGKILL ends in the middle of catching up."""
    arguments = [target.bootstrap, target.topic, str(target.partition_count)]
    process = subprocess.Popen(
        [sys.executable, "-c", _READ_FOR_EVER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        process.stdout.readline()  # type: ignore[union-attr]
        time.sleep(rng.random())
        process.kill()
