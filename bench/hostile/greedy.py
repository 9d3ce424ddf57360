"""Requests that cost a broker far more than their sender: long, repeated, forged, unfinished."""

from __future__ import annotations

import functools
import random
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

from bench.hostile.target import Target
from highwater.cluster.wire_client import ConnectionClosed, WireClient, frame_of, record_batch
from highwater_checker.kafka_python import MemoryRecordsBuilder
from highwater_core.ids import NodeId, Offset
from highwater_wire.kafka.compression import packed
from highwater_wire.kafka.config_messages import (
    ConfigResource,
    ConfigResourceType,
    DescribeConfigsRequest,
)
from highwater_wire.kafka.messages import (
    CONSUMER,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchPartition,
    FetchRequest,
    KafkaRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
    TopicToCreate,
)
from highwater_wire.kafka.record_batch import (
    HEADER_BYTES,
    build_batch,
    encode_batch,
    parse_header,
)

_CRAWLERS, _IDLERS = 30, 300
_MIB = 1 << 20
_LATEST = 2**63 - 1
_WRITTEN_MS = time.time_ns() // 1_000_000
"""Retention would let go of older records while a deed lasts."""
_GZIP = 1
_KEYS_MAX = 150_000
"""A compacted topic takes so many compressed records in a batch."""


def _answered(client: WireClient, request: KafkaRequest) -> None:
    """Send the request; an answer and a closed connection are both sound."""
    with client:
        try:
            client.call(request)
        except ConnectionClosed:
            return


def _answered_frame(client: WireClient, frame: bytes) -> None:
    """Send a ready frame likewise: encoding a large one each time would hold other threads up."""
    with client:
        client.send(frame)
        try:
            client.receive_frame()
        except ConnectionClosed:
            return


def crawl(target: Target, rng: random.Random) -> None:
    """Announce 100 MiB on many connections, and send a byte now and then."""
    with ExitStack() as open_ones:
        clients = [open_ones.enter_context(target.any_broker(rng)) for _ in range(_CRAWLERS)]
        for client in clients:
            client.send(struct.pack(">i", 100 * _MIB))
        for _ in range(4):
            for client in clients:
                client.send(b"\0")
            time.sleep(0.5)


def stay_idle(target: Target, rng: random.Random) -> None:
    """Open many connections and say nothing."""
    with ExitStack() as open_ones:
        for _ in range(_IDLERS):
            open_ones.enter_context(target.any_broker(rng))
        time.sleep(2.0)


def name_one_partition_often(target: Target, rng: random.Random) -> None:
    """One Fetch that names one partition 40,000 times."""
    partition = rng.randrange(target.partition_count)
    _answered_frame(target.leader_of(partition, rng), _long_fetch(target.topic, partition))


def describe_one_broker_often(target: Target, rng: random.Random) -> None:
    """One DescribeConfigs that names its broker 80,000 times."""
    _answered_frame(target.any_broker(rng), _long_describe_configs())


def ask_for_many_topics(target: Target, rng: random.Random) -> None:
    """Metadata of 50,000 names, most of them unknown."""
    _answered_frame(target.any_broker(rng), _long_metadata(target.topic))


def pipeline_large_requests(target: Target, rng: random.Random) -> None:
    """Sixty-four requests, each as large as one may be, on one connection at once.

    Answers are read meanwhile: a broker takes no more requests from a client that does not read.
    """
    frames = _largest_frames(target.topic, rng.randrange(3)) * 64
    with ThreadPoolExecutor(1) as sender, target.any_broker(rng) as client:
        sent = sender.submit(client.send, frames)
        try:
            for _ in range(64):
                client.receive_frame()
            sent.result()
        except ConnectionClosed:
            return


@functools.cache
def _largest_frames(topic: str, kind: int) -> bytes:
    names = [f"unknown-{number}" for number in range(11_000)]
    if kind == 0:
        return frame_of(MetadataRequest((topic, *names)))
    if kind == 1:
        asked = tuple(ListOffsetsPartition(topic, number, -1) for number in range(11_000))
        return frame_of(ListOffsetsRequest(NodeId(CONSUMER), asked))
    items = tuple(FetchPartition(topic, number, Offset(0), _MIB) for number in range(11_000))
    return frame_of(FetchRequest(NodeId(CONSUMER), 0, 1, _MIB, items))


@functools.cache
def _long_fetch(topic: str, partition: int) -> bytes:
    item = FetchPartition(topic, partition, Offset(0), _MIB)
    return frame_of(FetchRequest(NodeId(CONSUMER), 500, 1, 50 * _MIB, (item,) * 40_000))


@functools.cache
def _long_describe_configs() -> bytes:
    resource = ConfigResource(ConfigResourceType.BROKER, "", None)
    return frame_of(DescribeConfigsRequest((resource,) * 80_000))


@functools.cache
def _long_metadata(topic: str) -> bytes:
    names = tuple(f"unknown-{number}" for number in range(49_999))
    return frame_of(MetadataRequest((topic, *names)))


def say_long_words(target: Target, rng: random.Random) -> None:
    """Names and values that outgrow the strings of an answer."""
    word = rng.choice(("n", "é", "\U0001f600")) * rng.choice((3_000, 8_000))
    resource = ConfigResource(ConfigResourceType.TOPIC, word, None)
    _answered(target.any_broker(rng), DescribeConfigsRequest((resource,)))
    topic = TopicToCreate("long-words", 1, 1, (), (("min.insync.replicas", word),))
    _answered(target.any_broker(rng), CreateTopicsRequest((topic,), 5_000))
    unknown = tuple(NodeId(number) for number in range(100, 9_100))
    topic = TopicToCreate("long-lists", -1, -1, ((0, unknown),), ())
    _answered(target.any_broker(rng), CreateTopicsRequest((topic,), 5_000))


def make_odd_topics(target: Target, rng: random.Random) -> None:
    """A topic with the longest name, and one that takes no record; made and deleted."""
    names = (f"odd{rng.randrange(100)}-" + "x" * 243)[:249], f"empty{rng.randrange(100)}"
    configs = (), (("max.message.bytes", "0"),)
    for name, config in zip(names, configs, strict=True):
        topic = TopicToCreate(name, 3, 3, (), config)
        _answered(target.any_broker(rng), CreateTopicsRequest((topic,), 8_000))
        _answered(target.any_broker(rng), DeleteTopicsRequest((name,), 8_000))


def roll_small_segments(target: Target, rng: random.Random) -> None:
    """A topic of small segments, a hundred of each of its ten partitions; deleted again."""
    small = replace(target, topic=f"small{rng.randrange(100)}", partition_count=10)
    topic = TopicToCreate(small.topic, 10, 1, (), (("segment.bytes", "100"),))
    _answered(target.any_broker(rng), CreateTopicsRequest((topic,), 8_000))
    try:
        for partition in range(small.partition_count):
            item = ProducePartition(small.topic, partition, record_batch([b"v"]))
            with small.leader_of(partition, rng) as client:
                client.ask([ProduceRequest(1, 5_000, (item,))] * 100)
                for _ in range(100):
                    client.receive_frame()
    finally:
        _answered(target.any_broker(rng), DeleteTopicsRequest((small.topic,), 8_000))


def produce_many_keys(target: Target, rng: random.Random) -> None:
    """To a compacted topic, the most records that a compressed batch may have, and one more."""
    keyed = replace(target, topic=f"keyed{rng.randrange(100)}", partition_count=8)
    topic = TopicToCreate(keyed.topic, 8, 1, (), (("cleanup.policy", "compact"),))
    _answered(target.any_broker(rng), CreateTopicsRequest((topic,), 8_000))
    try:
        for count in (_KEYS_MAX, _KEYS_MAX + 1):
            items = tuple(
                ProducePartition(keyed.topic, partition, _many_keys(count))
                for partition in range(keyed.partition_count)
            )
            _answered(keyed.any_broker(rng), ProduceRequest(1, 20_000, items))
    finally:
        _answered(target.any_broker(rng), DeleteTopicsRequest((keyed.topic,), 8_000))


@functools.cache
def _many_keys(count: int) -> bytes:
    """Return a gzip batch of so many records with a key, of about one byte each."""
    batch = build_batch([(b"", None, _WRITTEN_MS)] * count)
    header = parse_header(batch)._replace(attributes=_GZIP)
    return encode_batch(header, packed(_GZIP, batch[HEADER_BYTES:]))


def produce_in_a_crowd(target: Target, rng: random.Random) -> None:
    """Three thousand produces of all partitions at once, which wait for followers together."""
    items = tuple(
        ProducePartition(target.topic, partition, record_batch([b"v"]))
        for partition in range(target.partition_count)
    )
    crowd = [ProduceRequest(-1, 10_000, items)] * 64
    with ExitStack() as open_ones:
        clients = [open_ones.enter_context(target.any_broker(rng)) for _ in range(50)]
        for client in clients:
            client.ask(crowd)
        for client in clients:
            for _ in crowd:
                client.receive_frame()


# ---------------------------------------------------------------- forged batches


def _batch(*, timestamp_ms: int, values: int = 1) -> bytes:
    return record_batch([b"v" * 20] * values, timestamp_ms=timestamp_ms)


def _forged(records: bytes, count: int) -> bytes:
    """Return a gzip batch that claims so many records, with a right CRC."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=1, batch_size=_MIB)
    builder.append(timestamp=_WRITTEN_MS, key=None, value=records)
    builder.close()
    batch = bytearray(builder.buffer())
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">I", batch, 17, _crc(bytes(batch[21:])))
    return bytes(batch)


def _crc(data: bytes) -> int:
    from crc32c import crc32c

    return int(crc32c(data))


def _produce(target: Target, rng: random.Random, *batches: bytes) -> None:
    partition = rng.randrange(target.partition_count)
    items = tuple(ProducePartition(target.topic, partition, batch) for batch in batches)
    _answered(target.leader_of(partition, rng), ProduceRequest(-1, 5_000, items))


def send_several_batches(target: Target, rng: random.Random) -> None:
    """Several batches for one partition: in one entry, and in several."""
    batch = _batch(timestamp_ms=_WRITTEN_MS)
    _produce(target, rng, batch * rng.choice((2, 4)))
    _produce(target, rng, *[batch] * rng.choice((2, 50)))


def send_forged_counts(target: Target, rng: random.Random) -> None:
    """A batch of 5 KB that claims as many records as there can be, again and again."""
    batch = _forged(b"z" * 5_000, 2**31 - 1)
    for _ in range(3):
        _produce(target, rng, batch)


def send_forged_times(target: Target, rng: random.Random) -> None:
    """Records at the ends of time; then questions by time, many at once."""
    for timestamp_ms in (_LATEST, _LATEST - 1, 2**62, 0):
        _produce(target, rng, _batch(timestamp_ms=timestamp_ms, values=100))
    partition = rng.randrange(target.partition_count)
    asked = [
        ListOffsetsRequest(
            NodeId(CONSUMER), (ListOffsetsPartition(target.topic, partition, timestamp),)
        )
        for timestamp in (_LATEST, 2**62 - 1, 0, _WRITTEN_MS + 1)
    ]
    with target.leader_of(partition, rng) as client:
        client.ask(asked * 16)
        try:
            for _ in range(64):
                client.receive_frame()
        except ConnectionClosed:
            return


def send_garbage(target: Target, rng: random.Random) -> None:
    """Bytes that are no request."""
    with target.any_broker(rng) as client:
        client.send(rng.randbytes(rng.choice((1, 5, 100, 5_000))))
        if rng.random() < 0.5:
            client.reset()


Deed = Callable[[Target, random.Random], None]
