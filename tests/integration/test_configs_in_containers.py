"""Configurations act while a cluster runs, set by librdkafka's AdminClient and by our commands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from highwater.cluster.cluster import Cluster
from highwater.cluster.configs import alter_configs, describe_configs
from highwater.cluster.settling import await_full_isr, await_look, leaders_of
from highwater.cluster.wire_client import WireClient, record_batch
from highwater.waiting import eventually
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config import Preset
from highwater_core.config_layers import EVERY_BROKER, ConfigOwner, ConfigSource
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.config_messages import ConfigAlteration, ConfigOperationType
from tests.integration.conftest import under_presets

pytestmark = [
    pytest.mark.docker,
    # A preset changes nothing of configurations.
    pytest.mark.parametrize("brisk", under_presets("brisk", nightly=(Preset.V3,)), indirect=True),
]

WITHIN_S = 60.0
MINIMUM = "min.insync.replicas"
SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE


def alter(admin: AdminClient, kind: ResourceType, name: str, operation: object, text: str) -> None:
    entry = ConfigEntry(MINIMUM, text, incremental_operation=operation)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(WITHIN_S)


def alter_every_broker(cluster: Cluster, name: str, text: str | None) -> None:
    """Set or delete the default of all brokers; librdkafka takes no resource without a name."""
    kind = ConfigOperationType.DELETE if text is None else ConfigOperationType.SET
    alter_configs(cluster, EVERY_BROKER, (ConfigAlteration(name, kind, text),))


def described(admin: AdminClient, kind: ResourceType, name: str) -> tuple[str, int]:
    """Return min.insync.replicas in force, and its source."""
    (told,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    entry = told.result(WITHIN_S)[MINIMUM]
    return entry.value, entry.source


def await_described(admin: AdminClient, kind: ResourceType, name: str, *told: object) -> None:
    """Return once a broker reports this value and source; each reads the change a moment later."""
    eventually(lambda: described(admin, kind, name) == told, within=WITHIN_S)


def outcome(cluster: Cluster, topic: str) -> ErrorCode:
    with WireClient(cluster.external_endpoint(0)) as client:
        error: ErrorCode = client.produce(topic, 0, record_batch([b"x"])).error
    return error


def eventually_answers(cluster: Cluster, topic: str, error: ErrorCode) -> None:
    eventually(lambda: outcome(cluster, topic) is error, within=WITHIN_S)


def test_min_insync_replicas_acts_as_soon_as_it_is_altered(
    brisk: Cluster, new_topic: Callable[..., str]
) -> None:
    name = new_topic(brisk)
    admin = AdminClient({"bootstrap.servers": brisk.bootstrap})
    brisk.kill(2)
    try:
        await_look(
            brisk,
            "broker 2 out of the ISR",
            lambda look: [set(each.isr) for each in leaders_of(look, name).values()] == [{0, 1}],
        )
        assert outcome(brisk, name) is ErrorCode.NONE

        alter(admin, ResourceType.TOPIC, name, SET, "3")
        await_described(admin, ResourceType.TOPIC, name, "3", 1)
        eventually_answers(brisk, name, ErrorCode.NOT_ENOUGH_REPLICAS)

        resource = ConfigResource(ResourceType.TOPIC, name, set_config={MINIMUM: "2"})
        with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
            (replaced,) = admin.alter_configs([resource]).values()
        replaced.result(WITHIN_S)
        eventually_answers(brisk, name, ErrorCode.NONE)

        alter(admin, ResourceType.TOPIC, name, DELETE, "")
        alter_every_broker(brisk, MINIMUM, "3")
        eventually_answers(brisk, name, ErrorCode.NOT_ENOUGH_REPLICAS)
        await_described(admin, ResourceType.TOPIC, name, "3", 3)

        alter(admin, ResourceType.BROKER, "0", SET, "1")
        eventually_answers(brisk, name, ErrorCode.NONE)
        await_described(admin, ResourceType.BROKER, "0", "1", 2)
    finally:
        alter(admin, ResourceType.BROKER, "0", DELETE, "")
        alter_every_broker(brisk, MINIMUM, None)
        brisk.start_node(2)
    await_full_isr(brisk, name)


def test_what_cannot_be_set_is_refused_by_name(
    brisk: Cluster, new_topic: Callable[..., str]
) -> None:
    admin = AdminClient({"bootstrap.servers": brisk.bootstrap})
    with pytest.raises(KafkaException) as refused:
        alter(admin, ResourceType.TOPIC, new_topic(brisk), SET, "none")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    with pytest.raises(KafkaException) as refused:
        alter(admin, ResourceType.TOPIC, "no-such-topic", SET, "1")
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def sources(cluster: Cluster, owner: ConfigOwner) -> list[tuple[str | None, int]]:
    """Return the values of retention.ms with their sources, the one in force first."""
    (entry,) = (each for each in describe_configs(cluster, owner) if each.name == "retention.ms")
    return [(each.value, each.source) for each in entry.synonyms]


def test_commands_tell_where_each_value_was_set(
    brisk: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = ConfigOwner(ConfigEntity.TOPIC, new_topic(brisk))
    change = ConfigAlteration("retention.ms", ConfigOperationType.SET, "86400000")
    alter_configs(brisk, topic, (change,))
    alter_every_broker(brisk, "log.retention.ms", "90000000")
    eventually(
        lambda: (
            sources(brisk, topic)[:2]
            == [
                ("86400000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
                ("90000000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            ]
        ),
        within=WITHIN_S,
    )
    alter_every_broker(brisk, "log.retention.ms", None)
