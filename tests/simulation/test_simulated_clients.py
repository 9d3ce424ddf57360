"""Producers and consumers under load while leaders die: their histories stay true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_checker.history import Acknowledged, sends_of
from highwater_checker.segments import ReplicaLog
from highwater_client.consumer import Consumer
from highwater_client.producer import Producer
from highwater_client.settings import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from highwater_client.settings import ConsumerSettings as Reads
from highwater_client.settings import ProducerSettings as Writes
from highwater_core.ids import TopicPartition
from highwater_simulator.replicas_on_disk import read_replica
from tests.support.failover_story import ORDERS, full_isr
from tests.support.verification import find_bad_epochs, find_differences, values_of

Cluster = Any
MakeCluster = Callable[..., Cluster]


class Load:
    """A producer and a consumer on ORDERS, until the story ends them."""

    def __init__(self, cluster: Cluster, **settings: Any) -> None:
        world = cluster.world
        self.world = world
        self.acknowledged: list[tuple[Any, ...]] = []
        self.batches: list[tuple[Any, ...]] = []
        self.writer, self.reader = world.client("producer-0"), world.client("consumer-0")
        self.producer = Producer(
            self.writer.runtime,
            self.writer.transport,
            self.writer.bootstrap,
            Writes(ORDERS.topic, **{"rate_per_s": 40, "metadata_max_age_ms": 1_000, **settings}),
            world.rng.stream("client/producer-0"),
            on_acknowledged=lambda *batch: self.acknowledged.append(batch),
        )
        self.consumer = Consumer(
            self.reader.runtime,
            self.reader.transport,
            self.reader.bootstrap,
            Reads(ORDERS.topic, (0,)),
            on_read=lambda *batch: self.batches.append(batch),
        )
        self.writing = self.writer.runtime.scope("load").spawn("Producer", self.producer.run())
        self.reader.runtime.scope("load").spawn("Consumer", self.consumer.run())

    async def end(self) -> None:
        """Stop writing, wait for every outcome, read to the end."""
        self.producer.stop()
        await self.world.eventually(self.writing.is_done, 20_000, "every outcome")
        await full_isr(self.world)
        assert await self.consumer.caught_up(20_000)
        self.consumer.stop()

    def values(self, kind: str) -> list[str]:
        return [event.value for event in self.producer.history if event.type == kind]

    def read(self) -> dict[int, str]:
        polled = [event for event in self.consumer.history if event.function == "poll"]
        assert [event.error for event in polled if event.error] == []
        return {event.offset: event.value for event in polled}


async def kill_leaders(cluster: Cluster, times: int) -> None:
    """Kill one leader after another, each back before the next is killed."""
    for _ in range(times):
        await cluster.world.sleep(1_000)
        leader = cluster.leader()
        cluster.world.kill(leader)
        await cluster.world.eventually(
            lambda dead=leader: cluster.leader() not in (dead, -1), 20_000, "a new leader"
        )
        await cluster.world.sleep(1_000)
        cluster.world.start(leader)
        await cluster.full_isr()


def replicas(cluster: Cluster) -> list[ReplicaLog]:
    return [read_replica(cluster.world, i, ORDERS) for i in cluster.world.brokers]


def log_of(cluster: Cluster) -> dict[int, str]:
    """Return the records of the replicas, which must be equal."""
    logs = replicas(cluster)
    assert find_differences(logs) == []
    assert find_bad_epochs(cluster.world, ORDERS) == []
    return {offset: value.decode() for offset, value in values_of(logs[0])}


def check_history(load: Load, log: dict[int, str]) -> None:
    """Compare the clients' histories with the replicas' records."""
    in_log = list(log.values())
    ended = [*load.values("ok"), *load.values("info"), *load.values("fail")]
    assert sorted(ended) == sorted(load.values("invoke"))
    assert not set(load.values("fail")) & set(in_log)
    assert set(in_log) <= {*load.values("ok"), *load.values("info")}
    assert load.read() == log


def misplaced(sends: tuple[Acknowledged, ...], log: dict[int, str]) -> list[Acknowledged]:
    return [send for send in sends if log.get(send.offset) != send.value]


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> Cluster:
    return make_cluster(seed=3)


def run(cluster: Cluster, story: Any) -> None:
    cluster.world.run(story, 900_000)


@pytest.mark.parametrize(
    ("kills", "settings"),
    [
        (1, {"max_in_flight": 1}),
        (2, {"max_in_flight": 5, "batch_max_records": 3, "linger_ms": 3}),
        (1, {"max_in_flight": 5, "request_timeout_ms": 200, "retries": False}),
    ],
    ids=["one-in-flight", "batches-in-flight", "no-retries"],
)
def test_with_acks_all_every_acknowledged_record_survives_leader_kills(
    kills: int, settings: dict[str, Any], cluster: Cluster
) -> None:
    async def story() -> None:
        await cluster.begin(records=0)
        load = Load(cluster, acks=ACKS_ALL, **settings)
        await kill_leaders(cluster, kills)
        await load.end()
        log = log_of(cluster)
        acknowledged = sends_of(load.producer.history).acknowledged
        assert len(acknowledged) > 60
        assert misplaced(acknowledged, log) == []
        check_history(load, log)

    run(cluster, story())


def test_with_acks_1_records_of_a_dead_leader_alone_are_acknowledged_and_lost(
    cluster: Cluster,
) -> None:
    """The history shows the loss: no lost record ended as failed."""

    async def story() -> None:
        await cluster.begin(records=0)
        await cluster.world.sleep(6_000)
        load = Load(cluster, acks=ACKS_LEADER, max_in_flight=5)
        await cluster.world.sleep(2_000)
        leader = cluster.leader()
        for other in cluster.world.brokers:
            if other != leader:
                cluster.world.cut(f"broker-{leader}", f"broker-{other}", "replication")
        await cluster.world.sleep(500)
        cluster.world.kill(leader)
        cluster.world.heal_all()
        await cluster.world.eventually(
            lambda: cluster.leader() not in (leader, -1), 20_000, "a new leader"
        )
        cluster.world.start(leader)
        await load.end()
        log = log_of(cluster)
        lost = misplaced(sends_of(load.producer.history).acknowledged, log)
        assert lost
        assert not set(load.values("fail")) & set(log.values())
        assert load.read() == log

    run(cluster, story())


def test_with_acks_0_nothing_is_known_and_most_is_there(cluster: Cluster) -> None:
    async def story() -> None:
        await cluster.begin(records=0)
        load = Load(cluster, acks=ACKS_NONE, max_in_flight=5)
        await kill_leaders(cluster, 1)
        await cluster.world.sleep(2_000)
        await load.end()
        log = log_of(cluster)
        assert load.values("ok") == []
        assert load.acknowledged == []
        assert len(log) > 100
        check_history(load, log)

    run(cluster, story())


def test_answers_that_are_lost_leave_outcomes_open_or_records_twice(cluster: Cluster) -> None:
    """The leader is cut off from its client only, and keeps its session."""

    async def story() -> None:
        await cluster.begin(records=0)
        load = Load(cluster, max_in_flight=5, request_timeout_ms=300, delivery_timeout_ms=2_000)
        await cluster.world.sleep(1_000)
        for length_ms in (1_500, 4_000):
            host = f"broker-{cluster.leader()}"
            cluster.world.network.cut(host, "producer-0", "client")
            await cluster.world.sleep(length_ms)
            cluster.world.heal_all()
            await cluster.world.sleep(1_000)
        await load.end()
        log = log_of(cluster)
        assert load.values("info")
        assert len(set(log.values())) < len(log)  # retried after an append whose answer was lost
        assert misplaced(sends_of(load.producer.history).acknowledged, log) == []
        check_history(load, log)

    run(cluster, story())


def test_batches_are_reported_as_they_lie_in_the_log(cluster: Cluster) -> None:
    async def story() -> None:
        await cluster.begin(records=0)
        load = Load(cluster, batch_max_records=3, linger_ms=5)
        await cluster.world.sleep(2_000)
        await load.end()
        lying = [(batch.base_offset, batch.next_offset) for batch in replicas(cluster)[0].batches]
        read = [(base, end) for _, _, base, end, *_ in load.batches]
        crcs = {base: crc for _, _, base, _, crc, *_ in load.batches}
        told = {base: crc for _, _, base, crc, *_ in load.acknowledged}
        assert read == lying
        assert told == crcs
        assert max(end - base for base, end in lying) > 1

    run(cluster, story())


def test_one_seed_gives_one_history(make_cluster: MakeCluster) -> None:
    histories = []
    for seed in (5, 5, 6):
        cluster = make_cluster(seed=seed)

        async def story(cluster: Cluster = cluster) -> None:
            await cluster.begin(records=0)
            load = Load(cluster, rate_per_s=20, max_in_flight=3)
            await kill_leaders(cluster, 1)
            await load.end()
            histories.append((load.producer.history, load.consumer.history))

        run(cluster, story())
    assert histories[0] == histories[1]
    assert histories[0] != histories[2]


def test_every_partition_is_written_and_read(cluster: Cluster) -> None:
    async def story() -> None:
        world = cluster.world
        await cluster.begin(records=0)
        assert (await cluster.client.create_topic("many", 6, 3, 20_000)).name == "NONE"
        await world.sleep(2_000)
        writer, reader = world.client("p1"), world.client("c1")
        producer = Producer(
            writer.runtime, writer.transport, writer.bootstrap,
            Writes("many", 6, rate_per_s=60), world.rng.stream("p1"), process="p1",
        )  # fmt: skip
        consumer = Consumer(
            reader.runtime, reader.transport, reader.bootstrap, Reads("many", tuple(range(6)))
        )
        writing = writer.runtime.scope("load").spawn("Producer", producer.run())
        reader.runtime.scope("load").spawn("Consumer", consumer.run())
        await world.sleep(3_000)
        producer.stop()
        await world.eventually(writing.is_done, 20_000, "every outcome")
        await world.sleep(100)
        assert await consumer.caught_up(5_000)
        polled = {(TopicPartition(e.topic, e.partition), e.offset): e.value
                  for e in consumer.history}  # fmt: skip
        sent = sends_of(producer.history).acknowledged
        assert polled == {(TopicPartition(s.topic, s.partition), s.offset): s.value for s in sent}
        assert len({send.partition for send in sent}) == 6

    run(cluster, story())


def test_a_produce_costs_no_more_events_than_24(cluster: Cluster) -> None:
    """Three brokers, one partition, acks=all; the client's share stays small."""

    async def story() -> None:
        world = cluster.world
        await cluster.begin(records=0)
        before = world.kernel.event_count
        await world.sleep(4_000)
        idle = world.kernel.event_count - before
        writer = world.client("p1")
        producer = Producer(
            writer.runtime, writer.transport, writer.bootstrap,
            Writes(ORDERS.topic, rate_per_s=50), world.rng.stream("p1"),
        )  # fmt: skip
        before = world.kernel.event_count
        writer.runtime.scope("load").spawn("Producer", producer.run())
        await world.sleep(4_000)
        busy = world.kernel.event_count - before
        acknowledged = len(sends_of(producer.history).acknowledged)
        assert acknowledged > 150
        assert (busy - idle) / acknowledged < 24

    run(cluster, story())
