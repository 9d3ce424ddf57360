"""A producer's load: its rate, its values, its end, its repeatability."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_checker.history import HistoryEvent, sends_of
from highwater_client.producer import MOST_BURSTS, Producer
from highwater_client.settings import ProducerSettings
from highwater_core.errors import ErrorCode
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.messages import ProduceRequest

NEVER = "never answers"


def start(brokers: Any, seed: int = 1, process: str = "p0", **settings: Any) -> tuple[Any, Any]:
    for partition in range(settings.get("partition_count", 1)):
        assert brokers.partitions["t", partition].leader == 0
    runtime, transport = brokers.client(process)
    producer = Producer(
        runtime,
        transport,
        brokers.bootstrap,
        ProducerSettings("t", **settings),
        SeededRng(seed, process),
        process=process,
    )
    return producer, runtime.scope("load").spawn("Producer", producer.run())


async def load(brokers: Any, seed: int, for_ms: int, **settings: Any) -> list[HistoryEvent]:
    producer, task = start(brokers, seed, **settings)
    clock = brokers.runtimes[0]
    await clock.sleep(for_ms)
    producer.stop()
    while not task.is_done():
        await clock.sleep(1)
    history: list[HistoryEvent] = producer.history
    return history


@pytest.mark.parametrize(("rate", "for_s"), [(1, 60), (20, 15), (300, 2)])
def test_records_come_at_the_rate(rate: int, for_s: int, brokers: Any, run: Any) -> None:
    async def story() -> None:
        history = await load(brokers, 1, for_s * 1_000, rate_per_s=rate)
        sent = len(sends_of(history).acknowledged)
        assert 0.8 * rate * for_s <= sent <= 1.25 * rate * for_s

    run(story())


def test_values_are_unique_and_go_to_every_partition(brokers: Any, run: Any) -> None:
    async def story() -> None:
        history = await load(brokers, 1, 5_000, rate_per_s=40, partition_count=3)
        acknowledged = sends_of(history).acknowledged
        values = [send.value for send in acknowledged]
        assert values[0] == "p0-000000"
        assert len(set(values)) == len(values) > 100
        for partition in range(3):
            log = brokers.partitions["t", partition].values
            assert sorted(log) == sorted(s.value for s in acknowledged if s.partition == partition)
            assert len(log) > 20

    run(story())


def test_every_record_has_its_outcome_once_the_producer_has_ended(brokers: Any, run: Any) -> None:
    async def story() -> None:
        brokers.script[0, ProduceRequest].extend([NEVER, ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
        history = await load(brokers, 1, 2_000, request_timeout_ms=300, max_in_flight=3)
        invoked = [event.operation_id for event in history if event.type == "invoke"]
        ended = [event.operation_id for event in history if event.type != "invoke"]
        assert len(invoked) > 20
        assert sorted(ended) == invoked

    run(story())


class LateRuntime:
    """Its clock goes on by a millisecond at every look: a machine that cannot keep the rate."""

    def __init__(self) -> None:
        self.looks = self.waits = 0
        self.is_stopped = False

    def now_ns(self) -> int:
        self.looks += 1
        assert self.looks < 50 * MOST_BURSTS, "nothing else ever runs"
        return self.looks * 1_000_000

    def is_set(self) -> bool:
        return self.is_stopped

    async def wait(self, timeout_ms: int) -> bool:
        self.waits += 1
        self.is_stopped = self.waits == 3
        return self.is_stopped


class Sends:
    def __init__(self) -> None:
        self.count = 0

    def send(self, topic: str, partition: int, value: str, *, key: str) -> None:
        self.count += 1

    async def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_producer_that_cannot_keep_its_rate_lets_others_run(brokers: Any, run: Any) -> None:
    late, sends = LateRuntime(), Sends()

    async def story() -> None:
        runtime, transport = brokers.client("p0")
        settings = ProducerSettings("t", rate_per_s=1_000_000)
        producer: Any = Producer(
            runtime, transport, brokers.bootstrap, settings, SeededRng(1, "p0")
        )
        producer._runtime = producer._stopping = late
        producer._sender = sends
        await producer.run()

    run(story())
    assert late.waits == 3
    assert sends.count >= 2 * MOST_BURSTS


def test_one_seed_gives_one_load(brokers: Any, run: Any) -> None:
    async def story() -> None:
        plans = []
        for seed, process in ((1, "a"), (1, "a"), (2, "a")):
            producer, task = start(brokers, seed, process, rate_per_s=30, partition_count=3)
            started_ns = brokers.kernel.now_ns()
            await brokers.runtimes[0].sleep(3_000)
            task.cancel()
            brokers.kernel._runtimes[process].kill()
            invoked = [event for event in producer.history if event.type == "invoke"]
            plans.append([(e.time_ns - started_ns, e.partition, e.value) for e in invoked])
        assert plans[0] == plans[1]
        assert plans[0] != plans[2]

    run(story())
