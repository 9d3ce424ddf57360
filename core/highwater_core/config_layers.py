"""Where a configuration's value comes from: a topic's, a broker's, every broker's, or none. Pure.

A topic's own value goes before that of the broker which hosts it, a broker's before every
broker's, and what was set while a cluster runs before what a node was started with.
Source: KIP-226 (dynamic broker configuration, sources and synonyms). Deviation:
unclean.leader.election.enable cannot be set for one broker. The controller decides by it, and
no broker is one.
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
    """Nowhere."""


@dataclass(frozen=True, order=True, slots=True)
class ConfigOwner:
    """Whose configuration it is: a topic's by its name, a broker's by its id; "" is every's."""

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
"""What brokers have a value for and topics have not."""
_KEYS: Mapping[str, TopicConfigKey] = {**TOPIC_CONFIG_KEYS, **_BROKERS_OWN}

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
"""What brokers have a value for, by topics' name for it, where they have one, and what brokers call
it."""

EVERY_BROKER_KEYS: Mapping[str, TopicConfigKey] = {
    name: replace(_KEYS[topic_name], name=name)
    for topic_name, name in sorted(BROKER_NAMES.items(), key=lambda item: item[1])
}
"""What can be set for every broker while they run, by name, in alphabetical order."""

BROKER_KEYS: Mapping[str, TopicConfigKey] = {
    name: key for name, key in EVERY_BROKER_KEYS.items() if name != UNCLEAN_ELECTION
}
"""What can be set for one broker while it runs."""


def keys_of(owner: ConfigOwner) -> Mapping[str, TopicConfigKey]:
    """Return what can be set for the owner, by name."""
    if owner.entity is ConfigEntity.TOPIC:
        return TOPIC_CONFIG_KEYS
    return EVERY_BROKER_KEYS if owner == EVERY_BROKER else BROKER_KEYS


def parse_config_of(owner: ConfigOwner, config: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return the values that are set.

    Raises:
        BadTopicConfig: a key is not the owner's, or its value does not fit.
    """
    return parse_config(config, keys_of(owner))


@dataclass(frozen=True, slots=True)
class SetValue:
    """One value that a configuration has been given, by the name that it has there."""

    name: str
    text: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigLayers:
    """What is set for a topic, the broker and every broker, and with what the broker started.

    started_with has topics' names where they have one, and only what differs from the defaults.
    """

    topic: Mapping[str, str]
    broker: Mapping[str, str]
    every_broker: Mapping[str, str]
    started_with: Mapping[str, str]

    def values(self, name: str) -> tuple[SetValue, ...]:
        """Return all values of a topic's configuration, or one of brokers alone, by its name.

        The first is in force.
        """
        source = ConfigSource
        broker_name = BROKER_NAMES.get(name, name)
        layers = (
            (name, self.topic.get(name), source.DYNAMIC_TOPIC_CONFIG),
            (broker_name, self.broker.get(broker_name), source.DYNAMIC_BROKER_CONFIG),
            (broker_name, self.every_broker.get(broker_name), source.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (broker_name, self.started_with.get(name), source.STATIC_BROKER_CONFIG),
            (broker_name, _KEYS[name].default, source.DEFAULT_CONFIG),
        )
        return tuple(SetValue(*layer) for layer in layers if layer[1] is not None)  # type: ignore[arg-type]

    def value(self, name: str) -> ConfigValue:
        """Return the value that is in force."""
        return _KEYS[name].parse(self.values(name)[0].text)
