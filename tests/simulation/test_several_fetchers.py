"""Several fetchers for a leader: they copy every record, also while their number changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_broker import fetcher, fetcher_registry
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import REPLICA_FETCHERS
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_simulator import liveness
from highwater_simulator.replicas_on_disk import read_replica
from highwater_wire.kafka.config_messages import (
    AlteredResource,
    ConfigAlteration,
    ConfigOperationType,
)
from tests.support.presets import each_preset
from tests.support.verification import values_of, verify

Cluster = Any
"""conftest.Cluster."""
TOPIC, PARTITIONS = "spread", 6
KEYS = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
WITHIN_MS = 30_000


def fetchers(c: Cluster, broker: int) -> int:
    snapshot = c.world.snapshot(broker)
    assert snapshot is not None
    names = (task.name for task in snapshot.tasks)
    return sum(name.startswith("ReplicaFetcherThread-") for name in names)


def leaders_beside(c: Cluster, broker: int) -> int:
    return len({c.leader(key) for key in KEYS} - {broker})


async def spread(c: Cluster, broker: str, count: int) -> None:
    change = ConfigAlteration(REPLICA_FETCHERS, ConfigOperationType.SET, str(count))
    resource = AlteredResource(int(ConfigEntity.BROKER), broker, (change,))
    (result,) = await c.client.alter_configs((resource,), WITHIN_MS)
    assert result.error is ErrorCode.NONE, result.message


async def write(c: Cluster, rounds: int) -> None:
    for _ in range(rounds):
        for key in KEYS:
            sent = await c.client.send(TOPIC, key.partition, f"r-{c.sent:05}", WITHIN_MS)
            assert sent.type == "ok"
            c.sent += 1


async def settle(c: Cluster) -> None:
    await c.world.eventually(
        lambda: all(c.world.is_replicated(key, c.world.brokers) for key in KEYS), WITHIN_MS, "ISRs"
    )


async def start(c: Cluster) -> None:
    c.world.start_all()
    assert await c.client.create_topic(TOPIC, PARTITIONS, 3, WITHIN_MS) is ErrorCode.NONE
    await settle(c)


def verified(c: Cluster, story: Callable[[], Any]) -> None:
    """Run the story; then every record is on every replica once, in the order of its sends."""
    c.world.run(story(), 900_000)
    for key in KEYS:
        assert verify(c.world, c.client.history, key, c.world.brokers) == []
        values = [value for _, value in values_of(read_replica(c.world, 0, key))]
        assert values == sorted(values)
        assert len(values) == c.sent // PARTITIONS


@pytest.fixture(params=each_preset())
def make(request: pytest.FixtureRequest, make_cluster: Callable[..., Cluster]) -> Any:
    return lambda **settings: make_cluster(preset=request.param, broker_settings=settings)


def test_a_broker_with_several_fetchers_spreads_its_followed_partitions(make: Any) -> None:
    c = make(num_replica_fetchers=2)

    async def story() -> None:
        await start(c)
        for broker in c.world.brokers:
            assert fetchers(c, broker) == 2 * leaders_beside(c, broker)
        await write(c, 5)
        await settle(c)

    verified(c, story)


def test_their_number_changes_under_load_without_a_loss_or_another_order(make: Any) -> None:
    c = make()

    async def story() -> None:
        await start(c)
        for count in (4, 2, 3, 1, 8, 1):
            await spread(c, "", count)
            await write(c, 4)
        await spread(c, "0", 2)
        await write(c, 4)
        assert [fetchers(c, broker) // leaders_beside(c, broker) for broker in (0, 1, 2)] == [
            2, 1, 1,
        ]  # fmt: skip
        await settle(c)

    verified(c, story)


def test_a_leader_that_dies_is_replaced_for_all_fetchers(make: Any) -> None:
    c = make(num_replica_fetchers=3)

    async def story() -> None:
        await start(c)
        await write(c, 3)
        dead = c.leader(KEYS[0])
        c.world.kill(dead)
        await write(c, 3)
        c.world.start(dead)
        await write(c, 3)
        await settle(c)

    verified(c, story)


def test_fetchers_that_have_no_room_for_all_partitions_get_others_beside_them(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher_registry, "MAX_FOLLOWED", 1)
    monkeypatch.setattr(fetcher, "MAX_ASKED", 1)
    c = make()

    async def story() -> None:
        await start(c)
        followed = PARTITIONS - sum(c.leader(key) == 0 for key in KEYS)
        assert fetchers(c, 0) == followed > leaders_beside(c, 0)
        await write(c, 3)
        dead = c.leader(KEYS[0])
        c.world.kill(dead)
        await write(c, 3)
        c.world.start(dead)
        await settle(c)
        await spread(c, "", 2)
        await write(c, 3)
        await settle(c)
        for broker in c.world.brokers:
            assert not list(liveness._fetchers(broker, c.world.snapshot(broker)))

    verified(c, story)
