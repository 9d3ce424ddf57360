"""Configurations that are altered without a controller (preset v2)."""

from __future__ import annotations

import pytest

from highwater_broker.first_design import config_requests
from highwater_core.admin_messages import ConfigEntity, ConfigOperation
from highwater_core.config_layers import EVERY_BROKER, ConfigOwner
from highwater_core.config_znodes import config_path, decode_config
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.znodes import CONFIG_CHANGES
from highwater_wire.kafka.config_messages import AlteredResource, ConfigAlteration
from tests.support.first_design_cluster import AT, WITHIN_MS, Cluster

MINIMUM = "min.insync.replicas"
TOPIC = ConfigOwner(ConfigEntity.TOPIC, "t")


async def alter(
    c: Cluster,
    owner: ConfigOwner,
    name: str,
    value: str | None = None,
    operation: ConfigOperation = ConfigOperation.SET,
) -> ErrorCode:
    change = ConfigAlteration(name, operation, value)
    resource = AlteredResource(owner.entity, owner.name, (change,))
    (result,) = await c.client.alter_configs((resource,), WITHIN_MS)
    return result.error


def stored(c: Cluster, owner: ConfigOwner) -> dict[str, str]:
    found = c.world.zookeeper.data(config_path(owner))
    return decode_config(found[0], owner) if found else {}


def announced(c: Cluster) -> int:
    path = f"{CONFIG_CHANGES}/"
    return sum(each.startswith(path) for each in c.world.zookeeper.dump())


def minima(c: Cluster) -> set[int]:
    hosted = [c.world.hosted(broker, AT) for broker in c.world.brokers]
    return {each.min_insync_replicas for each in hosted if each is not None}


def test_a_topics_and_the_brokers_values_are_altered_and_all_brokers_know_them() -> None:
    async def story(c: Cluster) -> None:
        assert await alter(c, EVERY_BROKER, MINIMUM, "2") is ErrorCode.NONE
        await c.until(lambda: minima(c) == {2}, "the brokers' value is in force")
        assert await alter(c, TOPIC, MINIMUM, "3") is ErrorCode.NONE
        await c.until(lambda: minima(c) == {3}, "the topic's value is in force")
        gone = await alter(c, TOPIC, MINIMUM, operation=ConfigOperation.DELETE)
        assert gone is ErrorCode.NONE
        await c.until(lambda: minima(c) == {2}, "the topic's value is gone")
        assert stored(c, TOPIC) == {}
        assert await c.send("a") == "NONE"

    cluster = Cluster()
    cluster.run(story)
    where = [each.detail["where"] for each in cluster.told(EventKind.CONFIG_ALTERED)]
    assert where == [config_path(EVERY_BROKER), config_path(TOPIC), config_path(TOPIC)]


def test_what_cannot_be_altered_is_refused() -> None:
    async def story(c: Cluster) -> None:
        nowhere = ConfigOwner(ConfigEntity.TOPIC, "nowhere")
        nobody = ConfigOwner(ConfigEntity.BROKER, "9")
        assert await alter(c, TOPIC, MINIMUM, "none") is ErrorCode.INVALID_CONFIG
        assert await alter(c, TOPIC, "no.such.key", "1") is ErrorCode.INVALID_CONFIG
        refused = await alter(c, nowhere, MINIMUM, "1")
        assert refused is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(c, nobody, MINIMUM, "1") is not ErrorCode.NONE
        assert announced(c) == 0
        assert stored(c, TOPIC) == {}

    Cluster().run(story)


def test_a_malformed_configuration_is_told_and_may_be_overwritten() -> None:
    async def story(c: Cluster) -> None:
        await c.hand.set(config_path(TOPIC), b"garbage")
        assert await alter(c, TOPIC, MINIMUM, "2") is ErrorCode.NONE
        assert stored(c, TOPIC) == {MINIMUM: "2"}
        await c.until(lambda: minima(c) == {2}, "the value is in force")

    cluster = Cluster()
    cluster.run(story)
    assert [each.detail["where"] for each in cluster.told(EventKind.BAD_INPUT_MET)]


def test_the_oldest_announcements_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_requests, "KEPT_MAX", 3)

    async def story(c: Cluster) -> None:
        for number in range(6):
            assert await alter(c, TOPIC, "retention.ms", str(90_000 + number)) is ErrorCode.NONE
        assert announced(c) == 3
        assert stored(c, TOPIC) == {"retention.ms": "90005"}

    Cluster().run(story)


def test_a_deleted_topic_takes_its_configuration_along() -> None:
    async def story(c: Cluster) -> None:
        assert await alter(c, TOPIC, MINIMUM, "2") is ErrorCode.NONE
        assert await c.client.delete_topic("t", WITHIN_MS) is ErrorCode.NONE
        assert c.world.zookeeper.data(config_path(TOPIC)) is None
        refused = await alter(c, TOPIC, MINIMUM, "2")
        assert refused is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert c.world.zookeeper.data(config_path(TOPIC)) is None

    Cluster().run(story)
