"""highwater_client on sockets: a real cluster loses a leader, and the history stays true."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from highwater.cluster.cluster import Cluster
from highwater_adapters.asyncio_runtime import AsyncioRuntime
from highwater_adapters.random_source import RandomSource
from highwater_adapters.tcp_transport import TcpTransport
from highwater_checker.history import HistoryEvent, sends_of
from highwater_client.admin import Admin
from highwater_client.consumer import Consumer
from highwater_client.producer import Producer
from highwater_client.settings import ConsumerSettings, ProducerSettings
from highwater_core.errors import ErrorCode

pytestmark = pytest.mark.docker

TOPIC = "t"
PARTITIONS = 2
WITHIN_MS = 60_000


class Load:
    """Producers of each acks and a consumer, each on a connection of its own."""

    def __init__(self, cluster: Cluster, runtime: AsyncioRuntime) -> None:
        self.runtime = runtime
        self.bootstrap = [cluster.external_endpoint(i) for i in cluster.topology.broker_ids]
        self.transports = [TcpTransport(f"client-{n}") for n in range(5)]
        self.admin = Admin(runtime, self.transports[4], self.bootstrap)
        self.producers = {
            acks: Producer(
                runtime,
                self.transports[number],
                self.bootstrap,
                ProducerSettings(
                    TOPIC,
                    PARTITIONS,
                    rate_per_s=100,
                    acks=acks,
                    max_in_flight=5,
                    batch_max_records=5,
                    linger_ms=2,
                    request_timeout_ms=1_000,
                    delivery_timeout_ms=20_000,
                ),
                RandomSource(),
                process=f"p{number}",
            )
            for number, acks in enumerate((-1, 1, 0))
        }
        self.consumer = Consumer(
            runtime,
            self.transports[3],
            self.bootstrap,
            ConsumerSettings(TOPIC, tuple(range(PARTITIONS))),
        )
        self.scope = runtime.scope("load")

    def start(self) -> None:
        for producer in self.producers.values():
            self.scope.spawn("Producer", producer.run())
        self.scope.spawn("Consumer", self.consumer.run())

    async def end(self) -> None:
        """Stop writing, wait for every outcome, read to the end, stop reading."""
        for producer in self.producers.values():
            producer.stop()
        while len(self.scope.tasks()) > 1:
            await self.runtime.sleep(20)
        assert await self.consumer.caught_up(WITHIN_MS)
        self.consumer.stop()
        while self.scope.tasks():
            await self.runtime.sleep(5)

    def close(self) -> None:
        self.scope.cancel()
        for transport in self.transports:
            transport.close()

    def records(self, acks: int, kind: str) -> list[HistoryEvent]:
        return [event for event in self.producers[acks].history if event.type == kind]


@pytest.mark.highwater(brokers=3, session_timeout_ms=2_000)
def test_own_client_drives_a_real_cluster_through_a_leaders_death(
    highwater_cluster: Cluster,
) -> None:
    bugs: list[tuple[str, BaseException]] = []

    async def story() -> None:
        runtime = AsyncioRuntime(lambda name, error: bugs.append((name, error)))
        load = Load(highwater_cluster, runtime)
        try:
            created = await load.admin.create_topic(TOPIC, PARTITIONS, 3, WITHIN_MS)
            assert created is ErrorCode.NONE
            load.start()
            await written(load, 100)
            while (leader := await leader_of(load)) == -1:  # a broker that is asked may be slow
                await runtime.sleep(50)
            await asyncio.to_thread(highwater_cluster.kill, leader)
            while await leader_of(load) in (leader, -1):
                await runtime.sleep(50)
            await written(load, len(load.records(-1, "ok")) + 100)
            await asyncio.to_thread(highwater_cluster.start_node, leader)
            await load.end()
        finally:
            load.close()
        check_histories(load)

    asyncio.run(asyncio.wait_for(story(), 150))
    assert bugs == []


async def written(load: Load, count: int) -> None:
    """Wait until count records are acknowledged with acks=all."""
    while len(load.records(-1, "ok")) < count:
        await load.runtime.sleep(20)


async def leader_of(load: Load) -> int:
    response = await load.admin.metadata((TOPIC,))
    if response is None or not response.topics[0].partitions:
        return -1
    return int(response.topics[0].partitions[0].leader)


def check_histories(load: Load) -> None:
    """Compare the producers' histories with the records that the consumer read."""
    polled: dict[tuple[int, int], Any] = {}
    for event in load.consumer.history:
        if event.function == "poll" and event.type == "ok":
            key = event.partition, event.offset
            assert polled.setdefault(key, event.value) == event.value
    read = set(polled.values())
    for send in sends_of(load.producers[-1].history).acknowledged:
        assert polled[send.partition, send.offset] == send.value
    for acks, producer in load.producers.items():
        invoked = [event.value for event in producer.history if event.type == "invoke"]
        ended = [event.value for event in producer.history if event.type != "invoke"]
        assert sorted(invoked) == sorted(ended)
        assert not {event.value for event in load.records(acks, "fail")} & read
        assert len(read & set(invoked)) > 100
    assert load.records(0, "ok") == []
    assert len(load.records(1, "ok")) > 100
