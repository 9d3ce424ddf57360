"""The source of a configuration's value: the topic, the broker, all brokers, or the default. Pure.

A topic's own value goes before its broker's, a broker's before that of all brokers, and a value
that was set at run time before one from the node's start.
Source: KIP-226 (dynamic broker configuration, sources and synonyms). Deviation:
unclean.leader.election.enable cannot be set for one broker: controllers use it, and they are no
brokers here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from highwater_core.admin_messages import ConfigEntity
from highwater_core.topic_configs import (
    CLEANUP_POLICY,
    TOPIC_CONFIG_KEYS,
    ConfigType,
    ConfigValue,
    TopicConfigKey,
    parse_config,
)

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
LEADER_THROTTLED_RATE = "leader.replication.throttled.rate"
FOLLOWER_THROTTLED_RATE = "follower.replication.throttled.rate"
UNLIMITED_RATE = 2**63 - 1
REPLICA_FETCHERS = "num.replica.fetchers"


class ConfigSource(IntEnum):
    """Where a value was set; the numbers are those of DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    """For this topic."""
    DYNAMIC_BROKER_CONFIG = 2
    """For this broker, while it ran."""
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    """For every broker, while they ran."""
    STATIC_BROKER_CONFIG = 4
    """For this broker, when it was started."""
    DEFAULT_CONFIG = 5
    """The default: it was not set."""


@dataclass(frozen=True, order=True, slots=True)
class ConfigOwner:
    """The owner of a configuration: a topic by its name, a broker by its id, all brokers by ""."""

    entity: ConfigEntity
    name: str


EVERY_BROKER = ConfigOwner(ConfigEntity.BROKER, "")

_BROKERS_OWN: Mapping[str, TopicConfigKey] = {
    key.name: key
    for key in (
        TopicConfigKey(
            FOLLOWER_THROTTLED_RATE,
            ConfigType.LONG,
            str(UNLIMITED_RATE),
            "How many bytes a second this broker's throttled replicas fetch from their leaders.",
        ),
        TopicConfigKey(
            LEADER_THROTTLED_RATE,
            ConfigType.LONG,
            str(UNLIMITED_RATE),
            "How many bytes a second this broker sends to followers of throttled replicas.",
        ),
        TopicConfigKey(
            REPLICA_FETCHERS,
            ConfigType.INT,
            "1",
            "How many fetchers this broker has for each leader that it follows.",
            minimum=1,
            maximum=64,
        ),
    )
}
"""Configurations of brokers alone."""
CONFIG_KEYS: Mapping[str, TopicConfigKey] = {**TOPIC_CONFIG_KEYS, **_BROKERS_OWN}
"""All configurations, by topics' names for them."""

BROKER_NAMES: Mapping[str, str] = {
    CLEANUP_POLICY: "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "max.message.bytes": "message.max.bytes",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    MIN_INSYNC_REPLICAS: MIN_INSYNC_REPLICAS,
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    UNCLEAN_ELECTION: UNCLEAN_ELECTION,
    **{name: name for name in _BROKERS_OWN},
}
"""Brokers' names of configurations, by the topics' names where there is one."""

EVERY_BROKER_KEYS: Mapping[str, TopicConfigKey] = {
    name: replace(CONFIG_KEYS[topic_name], name=name)
    for topic_name, name in sorted(BROKER_NAMES.items(), key=lambda item: item[1])
}
"""Configurations that can be set for all brokers at run time, by name, in alphabetical order."""

BROKER_KEYS: Mapping[str, TopicConfigKey] = {
    name: key for name, key in EVERY_BROKER_KEYS.items() if name != UNCLEAN_ELECTION
}
"""Configurations that can be set for one broker at run time."""


def keys_of(owner: ConfigOwner) -> Mapping[str, TopicConfigKey]:
    """Return the configurations that can be set for the owner, by name."""
    if owner.entity is ConfigEntity.TOPIC:
        return TOPIC_CONFIG_KEYS
    return EVERY_BROKER_KEYS if owner == EVERY_BROKER else BROKER_KEYS


def parse_config_of(owner: ConfigOwner, config: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return the set values.

    Raises:
        BadTopicConfig: the owner has no such key, or a value is invalid.
    """
    return parse_config(config, keys_of(owner))


@dataclass(frozen=True, slots=True)
class SetValue:
    """One value of a configuration, with the name that it has at its source."""

    name: str
    text: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigLayers:
    """The values for a topic, the broker and all brokers, and those of the broker's start.

    started_with: by topics' names where there is one, without values that equal the defaults.
    """

    topic: Mapping[str, str]
    broker: Mapping[str, str]
    every_broker: Mapping[str, str]
    started_with: Mapping[str, str]

    def values(self, name: str) -> tuple[SetValue, ...]:
        """Return all values of the configuration of that name, a topic's or one of brokers alone.

        The first is in force.
        """
        source = ConfigSource
        broker_name = BROKER_NAMES.get(name, name)
        layers = (
            (name, self.topic.get(name), source.DYNAMIC_TOPIC_CONFIG),
            (broker_name, self.broker.get(broker_name), source.DYNAMIC_BROKER_CONFIG),
            (broker_name, self.every_broker.get(broker_name), source.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (broker_name, self.started_with.get(name), source.STATIC_BROKER_CONFIG),
            (broker_name, CONFIG_KEYS[name].default, source.DEFAULT_CONFIG),
        )
        return tuple(SetValue(*layer) for layer in layers if layer[1] is not None)  # type: ignore[arg-type]

    def value(self, name: str) -> ConfigValue:
        """Return the value that is in force."""
        return CONFIG_KEYS[name].parse(self.values(name)[0].text)
