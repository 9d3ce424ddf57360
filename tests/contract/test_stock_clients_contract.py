"""What stock clients make of what is not supported: they fail at once, with an error that says so.

And of a broker that was started and knows nothing yet: they find the way back to it.

A listener on 127.0.0.1 with the broker's own handlers; librdkafka and kafka-python as they come.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.errors
import pytest
from kafka.admin import KafkaAdminClient

from highwater.faults.links.client_probe import asks
from highwater.waiting import eventually
from highwater_adapters.asyncio_runtime import AsyncioRuntime
from highwater_adapters.tcp_server import KafkaListener, ListenerSpec
from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.coordinator.settings import GroupSettings
from highwater_broker.kafka_api.api_settings import KafkaApiSettings
from highwater_broker.kafka_api.dispatcher import KafkaApi
from highwater_broker.kafka_api.listeners import Listener
from highwater_broker.kafka_api.until_known import WAIT_TO_KNOW_MS
from highwater_broker.log_folders import FolderContent
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.partition_context import AppendOutcome
from highwater_broker.purgatory import Purgatory
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    ProducerId,
    TopicPartition,
)
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.messages import BrokerEndpoints, PartitionMetadata, UpdateMetadataRequest
from highwater_core.ports import CallFailed, DiskSpace
from highwater_simulator.files import Disk, SimulatedFileSystem
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.messages import HangUp, MetadataRequest, ProduceRequest
from highwater_wire.kafka.versions import VERSION_PROFILE
from tests.support.groups import LogInMemory
from tests.support.hosted import Hosted, HostedPartition, Surroundings

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


class NoController:
    """What a broker knows of the controller while none is elected."""

    async def call(self, request: Any, response_type: Any, timeout_ms: int) -> Any:
        raise CallFailed("no controller is elected", sent=False)


class TwoFolders:
    """A broker's log folders, without replicas: one of them has failed."""

    def contents(self) -> tuple[FolderContent, ...]:
        sound = FolderContent("d0", False, (), DiskSpace(1000, 300))
        return (sound, FolderContent("d1", True, (), None))


def metadata_of(ports: Sequence[int]) -> UpdateMetadataRequest:
    """Return what a controller tells of brokers there, the last of which leads all there is."""
    nodes = [NodeId(number) for number in range(len(ports))]
    endpoints = [Endpoint("127.0.0.1", port) for port in ports]
    last, epoch = nodes[-1], PartitionEpoch(0)
    partitions = tuple(
        PartitionMetadata(
            TopicPartition(topic, number), last, LeaderEpoch(0), (last,), (last,), epoch
        )
        for topic, number in (("t", 0), ("t", 1), (OFFSETS_TOPIC, 0))
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


def groups_in_memory(runtime: AsyncioRuntime) -> GroupCoordinator:
    """Return a coordinator of groups whose log is in memory."""
    log = LogInMemory(runtime)
    ports = SimpleNamespace(runtime=runtime, trace=SilentTrace(), rng=SeededRng(1))
    settings = GroupSettings(initial_rebalance_delay_ms=100)
    groups = GroupCoordinator(settings, cast(Any, ports), log, log, lambda _: 0)
    groups.start()
    return groups


class Counted:
    """Producer ids from 0 on."""

    def __init__(self) -> None:
        self._ids = itertools.count()

    async def next_id(self) -> ProducerId | None:
        return ProducerId(next(self._ids))


class AtOnce(HostedPartition):
    """A partition whose records are committed as they are appended."""

    def append(self, records: Any, acks: int, now_ms: int, look: Any = None) -> AppendOutcome:
        outcome = super().append(records, acks, now_ms, look)
        self.commit(self.log_end_offset)
        return outcome


class Broker:
    """A broker's handlers behind a listener, on a thread of its own.

    It knows and hosts nothing until it hears, and hosts t-0 then.
    asked: how often it was asked for Metadata.
    loses: so many answers to Produce are lost, once the records are appended.
    """

    def __init__(self) -> None:
        self.port = 0
        self.asked = 0
        self.loses = 0
        self._metadata = MetadataCache()
        self.bugs: list[tuple[str, BaseException]] = []
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        assert self._started.wait(BOUND_S)

    async def _run(self) -> None:
        runtime = AsyncioRuntime(lambda task, error: self.bugs.append((task, error)))
        purgatory, key = Purgatory(runtime), TopicPartition("t", 0)
        surroundings = Surroundings(cast(Any, runtime), SilentTrace(), purgatory.check)
        alive = cast(Any, SimpleNamespace(is_alive=True))
        surroundings.files = SimulatedFileSystem(alive, Disk(SeededRng(1)))
        self.partition = AtOnce(key, surroundings)
        self._hosted = Hosted()
        api = KafkaApi(
            KafkaApiSettings(NODE, "test", VERSION_PROFILE.api_version_ranges()),
            cast(Any, SimpleNamespace(runtime=runtime, trace=SilentTrace())),
            cast(Any, self._hosted),
            self._metadata,
            purgatory,
            NoController(),
            cast(Any, None),
            Counted(),
            cast(Any, OnePartition()),
            groups_in_memory(runtime),
            TwoFolders(),
        )

        async def handle(request: Any, _context: Any) -> Any:
            self.asked += isinstance(request, MetadataRequest)
            answer = await api.handle(request, Listener.EXTERNAL)
            if isinstance(request, ProduceRequest) and self.loses:
                self.loses -= 1
                return HangUp("the answer is lost")
            return answer

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
        update, partition = metadata_of(ports), self.partition

        def hear() -> None:
            self._hosted[partition.topic_partition] = partition
            self._metadata.update(update)

        self._loop.call_soon_threadsafe(hear)

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


def numbers_of(consumer: Any) -> list[int]:
    return sorted(each.partition for each in consumer.assignment())


def share(*consumers: Any) -> list[list[int]]:
    """Poll all of them until both partitions are assigned, and each member has one."""

    def is_shared() -> bool:
        for consumer in consumers:
            consumer.poll(0.1)
        held = sorted(number for each in consumers for number in numbers_of(each))
        return held == [0, 1] and all(map(numbers_of, consumers))

    eventually(is_shared, within=BOUND_S, what="the partitions are shared")
    return [numbers_of(each) for each in consumers]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_librdkafkas_members_share_partitions_and_offsets(
    broker: Broker, strategy: str, static: bool
) -> None:
    """By the eager protocol and the cooperative one (KIP-429): a coordinator sees no difference."""

    def member(name: str) -> Any:
        settings = {
            "bootstrap.servers": broker.address,
            "group.id": f"librdkafka-{strategy}-{static}",
            "partition.assignment.strategy": strategy,
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 200,
        }
        consumer = confluent_kafka.Consumer(
            {**settings, **({"group.instance.id": name} if static else {})}
        )
        consumer.subscribe(["t"])
        return consumer

    first = member("first")
    eventually(
        lambda: first.poll(0.1) or numbers_of(first) == [0, 1], within=BOUND_S, what="it has all"
    )
    offsets = [confluent_kafka.TopicPartition("t", number, 7 + number) for number in (0, 1)]
    assert [each.error for each in first.commit(offsets=offsets, asynchronous=False)] == [None] * 2
    second = member("second")
    share(first, second)
    ((held,),) = [numbers_of(second)]
    wanted = [confluent_kafka.TopicPartition("t", held)]
    assert [each.offset for each in second.committed(wanted, timeout=BOUND_S)] == [7 + held]
    first.close()
    if not static:  # a static member is expected back
        eventually(
            lambda: second.poll(0.1) or numbers_of(second) == [0, 1],
            within=BOUND_S,
            what="it has what the other gave up",
        )
    second.close()


def test_librdkafkas_consumer_of_a_group_that_it_does_not_join_commits(broker: Broker) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.address, "group.id": "alone", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    wanted = confluent_kafka.TopicPartition("t", 0, 5, metadata="note")
    consumer.commit(offsets=[wanted], asynchronous=False)
    (found,) = consumer.committed([confluent_kafka.TopicPartition("t", 0)], timeout=BOUND_S)
    assert (found.offset, found.metadata) == (5, "note")
    consumer.close()


def test_librdkafkas_admin_lists_describes_and_deletes_groups(broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.address, "group.id": "administered"}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe(["t"])
    eventually(
        lambda: consumer.poll(0.1) or numbers_of(consumer) == [0, 1], within=BOUND_S, what="member"
    )
    consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 3)], asynchronous=False)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.address})
    stable = confluent_kafka.ConsumerGroupState.STABLE
    listed = admin.list_consumer_groups(states={stable}).result(BOUND_S)
    assert "administered" in [each.group_id for each in listed.valid]
    (described,) = admin.describe_consumer_groups(["administered"]).values()
    group = described.result(BOUND_S)
    assert (group.state, group.partition_assignor) == (stable, "range")
    ((member,),) = [group.members]
    assert sorted(each.partition for each in member.assignment.topic_partitions) == [0, 1]
    assert member.client_id == "rdkafka"
    (refused,) = admin.delete_consumer_groups(["administered"]).values()
    with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
        refused.result(BOUND_S)
    consumer.close()
    asked = confluent_kafka.ConsumerGroupTopicPartitions("administered")
    (offsets,) = admin.list_consumer_group_offsets([asked]).values()
    found = offsets.result(BOUND_S).topic_partitions
    assert [(each.topic, each.partition, each.offset) for each in found] == [("t", 0, 3)]
    (deleted,) = admin.delete_consumer_groups(["administered"]).values()
    deleted.result(BOUND_S)
    listed = admin.list_consumer_groups().result(BOUND_S)
    assert "administered" not in [each.group_id for each in listed.valid]


def test_librdkafkas_transactional_producer_fails_at_once(broker: Broker) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "transactional.id": "x"}
    )
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        producer.init_transactions(BOUND_S)
    error = raised.value.args[0]
    assert error.code() == confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert error.fatal()


VALUES = [f"{number:03}".encode() for number in range(40)]


@pytest.fixture
def forgetful(broker: Broker) -> Iterator[Broker]:
    """The broker, which loses the next four answers; the records written next are VALUES."""
    before = len(broker.partition.values)
    broker.loses = 4
    yield broker
    assert (broker.loses, broker.partition.values[before:]) == (0, VALUES)


def test_librdkafkas_idempotent_producer_writes_each_record_once(forgetful: Broker) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": forgetful.address,
            "enable.idempotence": True,
            "batch.num.messages": 3,
            "reconnect.backoff.ms": 10,
            "retry.backoff.ms": 10,
        }
    )
    told: list[Any] = []
    for value in VALUES:
        producer.produce("t", value, partition=0, on_delivery=lambda *each: told.append(each))
    assert producer.flush(BOUND_S) == 0
    assert [error for error, _ in told if error is not None] == []
    offsets = [message.offset() for _, message in told]
    assert [offset - offsets[0] for offset in offsets] == list(range(len(VALUES)))


# ---------------------------------------------------------------- kafka-python


@contextmanager
def polled(consumer: Any) -> Iterator[None]:
    """Poll the consumer in a thread of its own for the length of the block."""
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            consumer.poll(timeout_ms=100)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(BOUND_S)


class Members:
    """Consumers that are closed at the end of a failed test, too: else their threads live on."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    def add(self, consumer: Any) -> Any:
        self._open.append(consumer)
        return consumer

    def close(self, consumer: Any) -> None:
        self._open.remove(consumer)
        consumer.close(autocommit=False)


@contextmanager
def closing_each() -> Iterator[Members]:
    members = Members()
    try:
        yield members
    finally:
        for consumer in list(members._open):
            members.close(consumer)


def test_kafka_pythons_members_share_partitions_and_offsets(broker: Broker) -> None:
    def member() -> Any:
        return kafka.KafkaConsumer(
            "t",
            bootstrap_servers=broker.address,
            group_id="kafka-python",
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=200,
        )

    def holds(count: int, *consumers: Any) -> bool:
        for consumer in consumers:
            consumer.poll(timeout_ms=100)
        held = [each.partition for consumer in consumers for each in consumer.assignment()]
        return sorted(held) == [0, 1] and all(
            len(consumer.assignment()) == count for consumer in consumers
        )

    with closing_each() as members:
        first = members.add(member())
        eventually(lambda: holds(2, first), within=BOUND_S, what="it has all")
        at = kafka.structs.OffsetAndMetadata
        first.commit({kafka.TopicPartition("t", 0): at(7, "note", -1)})
        second = members.add(member())
        # Each polls in a thread of its own, as in applications: while one waits for the group's
        # next generation in poll, the other must come and join it.
        with polled(first), polled(second):
            eventually(
                lambda: [len(each.assignment()) for each in (first, second)] == [1, 1],
                within=BOUND_S,
                what="the partitions are shared",
            )
        assert second.committed(kafka.TopicPartition("t", 0)) == 7
        members.close(first)
        eventually(lambda: holds(2, second), within=BOUND_S, what="it has what the other gave up")


def test_kafka_pythons_transactional_producer_fails_at_once(broker: Broker) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.address, transactional_id="x", max_block_ms=BOUND_S * 1000
    )
    with pytest.raises(kafka.errors.KafkaError, match="TransactionalIdAuthorizationFailed"):
        producer.init_transactions()
    producer.close(timeout=0)


def test_kafka_pythons_default_producer_writes_each_record_once(forgetful: Broker) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=forgetful.address,
        batch_size=100,
        reconnect_backoff_ms=10,
        retry_backoff_ms=10,
        max_block_ms=BOUND_S * 1000,
    )
    futures = [producer.send("t", value, partition=0) for value in VALUES]
    offsets = [future.get(timeout=BOUND_S).offset for future in futures]
    assert [offset - offsets[0] for offset in offsets] == list(range(len(VALUES)))
    producer.close()


# ---------------------------------------------------------------- a broker that knows nothing yet


def test_kafka_pythons_admin_is_told_the_log_folders(broker: Broker) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        (told,) = admin.describe_log_dirs()
    assert [
        (each["log_dir"], each["error_code"], each["total_bytes"], each["usable_bytes"])
        for each in told["log_dirs"]
    ] == [("/d0", 0, 1000, 300), ("/d1", int(ErrorCode.KAFKA_STORAGE_ERROR), -1, -1)]


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


def test_librdkafka_waits_for_a_leader_that_was_started_again() -> None:
    """A topic that the leader does not know would be its last word on offsets."""
    knowing, leader = Broker(), Broker()
    ports = knowing.port, leader.port
    knowing.hear_of(*ports)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": knowing.address, "group.id": "none", "log_level": 0}
    )
    later = threading.Timer(2 * WAIT_TO_KNOW_MS / 1000, leader.hear_of, ports)
    later.start()
    try:
        partition = confluent_kafka.TopicPartition("t", 0)
        assert consumer.get_watermark_offsets(partition, timeout=BOUND_S) == (0, 0)
    finally:
        later.join()
        consumer.close()
        knowing.stop()
        leader.stop()


def test_a_broker_that_knows_nothing_yet_is_reached_by_the_probe_of_the_clients_plane() -> None:
    ignorant = Broker()
    try:
        assert asks(Endpoint("127.0.0.1", ignorant.port))
    finally:
        ignorant.stop()
