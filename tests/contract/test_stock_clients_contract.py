"""What stock clients make of what is not supported: they fail at once, with an error that says so.

And of a broker that was started and knows nothing yet: they find the way back to it.

A listener on 127.0.0.1 with the broker's own handlers; librdkafka and kafka-python as they come.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import kafka
import kafka.errors
import pytest

from highwater.faults.links.client_probe import asks
from highwater.waiting import eventually
from highwater_adapters.asyncio_runtime import AsyncioRuntime
from highwater_adapters.tcp_server import KafkaListener, ListenerSpec
from highwater_broker.kafka_api.dispatcher import KafkaApi
from highwater_broker.kafka_api.metadata import WAIT_TO_KNOW_MS
from highwater_broker.kafka_api.seams import KafkaApiSettings, Listener
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.purgatory import Purgatory
from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.messages import BrokerEndpoints, PartitionMetadata, UpdateMetadataRequest
from highwater_wire.kafka.messages import MetadataRequest
from highwater_wire.kafka.versions import VERSION_PROFILE
from tests.support.hosted import Hosted

BOUND_S = 30
"""For a client that would wait for ever; those that fail at once take a part of a second."""
NODE = NodeId(0)


class SilentTrace:
    def emit(self, kind: Any, **fields: Any) -> None:
        pass


class OnePartition:
    """How many `__consumer_offsets` has."""

    count = 1

    async def learn(self) -> int:
        return self.count


def metadata_of(ports: Sequence[int]) -> UpdateMetadataRequest:
    """Return what a controller tells of brokers there, the last of which leads all there is."""
    nodes = [NodeId(number) for number in range(len(ports))]
    endpoints = [Endpoint("127.0.0.1", port) for port in ports]
    last, epoch = nodes[-1], PartitionEpoch(0)
    partitions = tuple(
        PartitionMetadata(TopicPartition(topic, 0), last, LeaderEpoch(0), (last,), (last,), epoch)
        for topic in ("t", OFFSETS_TOPIC)
    )
    return UpdateMetadataRequest(
        controller_id=NodeId(1000),
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(1),
        live_brokers=tuple(
            BrokerEndpoints(node, BrokerEpoch(1), at, at, at, at)
            for node, at in zip(nodes, endpoints, strict=True)
        ),
        partitions=partitions,
    )


class Broker:
    """A broker's handlers behind a listener, on a thread of its own.

    It knows nothing until it hears. asked: how often it was asked for Metadata.
    """

    def __init__(self) -> None:
        self.port = 0
        self.asked = 0
        self._metadata = MetadataCache()
        self.bugs: list[tuple[str, BaseException]] = []
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        assert self._started.wait(BOUND_S)

    async def _run(self) -> None:
        runtime = AsyncioRuntime(lambda task, error: self.bugs.append((task, error)))
        api = KafkaApi(
            KafkaApiSettings(NODE, "test", VERSION_PROFILE.api_version_ranges()),
            cast(Any, SimpleNamespace(runtime=runtime, trace=SilentTrace())),
            cast(Any, Hosted()),
            self._metadata,
            Purgatory(runtime),
            cast(Any, None),
            cast(Any, None),
            cast(Any, None),
            cast(Any, OnePartition()),
        )

        async def handle(request: Any, _context: Any) -> Any:
            self.asked += isinstance(request, MetadataRequest)
            return await api.handle(request, Listener.EXTERNAL)

        spec = ListenerSpec(Listener.EXTERNAL, 0, handle, host="127.0.0.1")
        listener = KafkaListener(spec, cast(Any, SilentTrace()), runtime.fail)
        await listener.start()
        self.port = listener.port
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await self._stopped.wait()
        await listener.stop()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def hear_of(self, *ports: int) -> None:
        """Have a controller tell it of the brokers there."""
        update = metadata_of(ports)
        self._loop.call_soon_threadsafe(lambda: self._metadata.update(update))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(BOUND_S)
        assert not self.bugs


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = Broker()
    started.hear_of(started.port)
    yield started
    started.stop()


# ---------------------------------------------------------------- librdkafka


def test_librdkafkas_group_member_is_told_at_once(broker: Broker) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
    consumer.subscribe(["t"])
    message = consumer.poll(BOUND_S)
    assert message is not None
    assert message.error().code() == confluent_kafka.KafkaError._UNSUPPORTED_FEATURE
    assert "JoinGroup failed" in message.error().str()
    consumer.close()


def test_librdkafkas_consumer_of_a_group_that_it_does_not_join_is_told_nothing(
    broker: Broker,
) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.address, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    assert consumer.poll(3.0) is None
    consumer.close()


def test_librdkafkas_transactional_producer_fails_at_once(broker: Broker) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "transactional.id": "x"}
    )
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        producer.init_transactions(BOUND_S)
    error = raised.value.args[0]
    assert error.code() == confluent_kafka.KafkaError._UNSUPPORTED_FEATURE
    assert error.fatal()


def poll(producer: Any) -> None:
    for _ in range(BOUND_S):
        producer.poll(1)


def test_librdkafkas_idempotent_producer_fails_at_once(broker: Broker) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "enable.idempotence": True}
    )
    producer.produce("t", b"v")
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        poll(producer)
    error = raised.value.args[0]
    assert error.code() == confluent_kafka.KafkaError._UNSUPPORTED_FEATURE
    assert error.fatal()


# ---------------------------------------------------------------- kafka-python


def test_kafka_pythons_group_member_fails_at_once(broker: Broker) -> None:
    consumer = kafka.KafkaConsumer("t", bootstrap_servers=broker.address, group_id="g")
    with pytest.raises(kafka.errors.IncompatibleBrokerVersion, match="JoinGroup"):
        consumer.poll(timeout_ms=BOUND_S * 1000)
    consumer.close(autocommit=False)


def test_kafka_pythons_transactional_producer_fails_at_once(broker: Broker) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.address, transactional_id="x", max_block_ms=BOUND_S * 1000
    )
    with pytest.raises(kafka.errors.KafkaError, match="UnsupportedVersion"):
        producer.init_transactions()
    producer.close(timeout=0)


def test_kafka_pythons_idempotent_producer_fails_at_once(broker: Broker) -> None:
    with pytest.raises(kafka.errors.IncompatibleBrokerVersion, match="InitProducerId"):
        kafka.KafkaProducer(
            bootstrap_servers=broker.address,
            enable_idempotence=True,
            max_block_ms=BOUND_S * 1000,
        ).send("t", b"v").get(timeout=BOUND_S)


# ---------------------------------------------------------------- a broker that knows nothing yet


def test_librdkafka_goes_on_after_it_has_asked_a_broker_that_knows_nothing_yet() -> None:
    """One of two was started again; the client asks it, and then needs the other.

    librdkafka forgets all brokers that an answer leaves out: with "no brokers" it has lost its way
    for good.
    """
    knowing, ignorant = Broker(), Broker()
    ports = knowing.port, ignorant.port
    knowing.hear_of(*ports)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": knowing.address,
            "topic.metadata.refresh.interval.ms": 50,
            "topic.metadata.refresh.fast.interval.ms": 10,
            "log_level": 0,
        }
    )
    try:
        producer.produce("t", b"x", partition=0)
        eventually(lambda: producer.poll(0.1) or ignorant.asked, within=BOUND_S, what="it is asked")
        time.sleep(2 * WAIT_TO_KNOW_MS / 1000)  # whatever it is told, it has heard
        ignorant.hear_of(*ports)
        assert len(producer.list_topics("t", timeout=BOUND_S).brokers) == 2
    finally:
        producer.purge()
        knowing.stop()
        ignorant.stop()


def test_a_broker_that_knows_nothing_yet_is_reached_by_the_probe_of_the_clients_plane() -> None:
    ignorant = Broker()
    try:
        assert asks(Endpoint("127.0.0.1", ignorant.port))
    finally:
        ignorant.stop()
