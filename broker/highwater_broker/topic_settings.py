"""The values in force for each topic on this broker: of the topic, the brokers, or defaults.

Source: docs/explanation/replication.md, "ZooKeeper's tree"; KIP-226.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater_broker.config_reader import ConfigReader
from highwater_broker.current_session import CurrentSession
from highwater_broker.log.log_config import LOG_CONFIG_KEYS, LogConfig
from highwater_broker.logic.replication_quota import throttled_on
from highwater_broker.replication_quotas import Throttling
from highwater_broker.settings import BrokerSettings
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import (
    EVERY_BROKER,
    MIN_INSYNC_REPLICAS,
    ConfigLayers,
    ConfigOwner,
)
from highwater_core.ids import TopicPartition
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime
from highwater_core.topic_configs import FOLLOWER_THROTTLED_REPLICAS, LEADER_THROTTLED_REPLICAS

INDEX_INTERVAL = "index.interval.bytes"
LEAST_INDEX_INTERVAL_BYTES = 1024
MIN_INSYNC_REPLICAS_UNKNOWN = 2**31 - 1
"""More than there are: with too low a minimum, records would be committed that electable replicas
do not have."""


class TopicSettings:
    """Values by topic. Until ZooKeeper has been read, the values of the broker's start serve.

    on_change is called with the topic whose values may have changed, None for all topics.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        runtime: Runtime,
        trace: Trace,
        session: CurrentSession,
        on_change: Callable[[str | None], None],
    ) -> None:
        self._started_with = settings.topic_settings() | settings.own_settings()
        self._broker_id = settings.broker_id
        self._broker = ConfigOwner(ConfigEntity.BROKER, str(settings.node_id))
        self._on_change = on_change
        self._reader = ConfigReader(
            runtime, trace, session, self._changed, (self._broker, EVERY_BROKER)
        )
        self.on_event = self._reader.on_event
        self.run = self._reader.run

    def _changed(self, owner: ConfigOwner) -> None:
        self._on_change(owner.name if owner.entity is ConfigEntity.TOPIC else None)

    # ------------------------------------------------------------ values

    def is_known(self, topic: str) -> bool:
        """Return whether all configurations for the topic were read."""
        owners = (_topic(topic), self._broker, EVERY_BROKER)
        return all(self._reader.get(owner) is not None for owner in owners)

    def min_insync_replicas(self, topic: str) -> int:
        """Return the topic's min.insync.replicas; while unknown, MIN_INSYNC_REPLICAS_UNKNOWN."""
        if not self.is_known(topic):
            return MIN_INSYNC_REPLICAS_UNKNOWN
        return int(self._layers(topic).value(MIN_INSYNC_REPLICAS))

    def log_config(self, topic: str) -> LogConfig:
        """Return the values for the topic's logs.

        Deviation: a topic's index interval counts as LEAST_INDEX_INTERVAL_BYTES at least: indexes
        are kept in memory, and clients choose it.
        """
        layers = self._layers(topic)
        values: dict[str, Any] = {
            field: layers.value(key.name) for field, key in LOG_CONFIG_KEYS.items()
        }
        if INDEX_INTERVAL in layers.topic:
            field = INDEX_INTERVAL.replace(".", "_")
            values[field] = max(values[field], LEAST_INDEX_INTERVAL_BYTES)
        return LogConfig(**values)

    def throttling(self, key: TopicPartition) -> Throttling:
        """Return which traffic of this broker's replica is throttled by the topic."""
        layers = self._layers(key.topic)

        def is_listed(name: str) -> bool:
            return key.partition in throttled_on(self._broker_id, layers.values(name)[0].text)

        return Throttling(
            is_listed(LEADER_THROTTLED_REPLICAS), is_listed(FOLLOWER_THROTTLED_REPLICAS)
        )

    def of_brokers(self, name: str) -> int:
        """Return this broker's value of a number that topics do not have."""
        return int(self._layers(None).value(name))

    def _layers(self, topic: str | None) -> ConfigLayers:
        return ConfigLayers(
            topic={} if topic is None else self._reader.get(_topic(topic)) or {},
            broker=self._reader.get(self._broker) or {},
            every_broker=self._reader.get(EVERY_BROKER) or {},
            started_with=self._started_with,
        )

    async def topic_layers(self, topic: str) -> ConfigLayers | None:
        """Return all layers for the topic, None when they cannot be read at present."""
        owners = (_topic(topic), self._broker, EVERY_BROKER)
        are_known = [await self._reader.load(owner) for owner in owners]
        return self._layers(topic) if all(are_known) else None

    async def broker_layers(self) -> ConfigLayers | None:
        """Return the layers for a topic without own values, None when they cannot be read."""
        are_known = [await self._reader.load(owner) for owner in (self._broker, EVERY_BROKER)]
        return self._layers(None) if all(are_known) else None

    # ------------------------------------------------------------ keeping them current

    def forget(self, topic: str) -> None:
        self._reader.forget(_topic(topic))

    def reread(self, topic: str) -> None:
        """Forget the topic's configuration, if it was known, and read it again."""
        self._reader.reread(_topic(topic))

    async def load(self, topic: str) -> None:
        """Read the configurations for the topic now, unless they are known.

        If ZooKeeper does not answer, the values of the broker's start serve until it does.
        """
        await self.topic_layers(topic)


def _topic(name: str) -> ConfigOwner:
    return ConfigOwner(ConfigEntity.TOPIC, name)
