"""Configurations in ZooKeeper, and how a change of one is announced: Kafka's paths and JSON.

A configuration is written first and announced after, or both in one transaction, so that a reader
of the announcement finds the change.
Source: docs/explanation/replication.md, "ZooKeeper's tree"; Kafka's ZkData (ConfigEntityZNode,
ConfigEntityChangeNotificationZNode, version 2).
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import EVERY_BROKER, ConfigOwner, parse_config_of
from highwater_core.topic_configs import BadTopicConfig
from highwater_core.topic_names import find_name_fault
from highwater_core.znodes import (
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    MalformedZnode,
    TopicConfigZnode,
    decode,
    encode,
    is_id,
    topic_config_path,
)

CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES}/config_change_"
"""The path prefix of the sequential znodes."""
_EVERY = "<default>"
_TOPICS, _BROKERS = "topics", "brokers"


@dataclass(frozen=True, slots=True)
class ConfigChangeZnode:
    """/config/changes/config_change_N: the owner of the written configuration."""

    entity_path: str
    version: int = 2


def config_path(owner: ConfigOwner) -> str:
    if owner.entity is ConfigEntity.TOPIC:
        return topic_config_path(owner.name)
    return f"{BROKER_CONFIGS}/{owner.name or _EVERY}"


def owner_of_broker_config(name: str) -> ConfigOwner:
    """Return the owner of the configuration in that child of /config/brokers.

    Raises:
        MalformedZnode: the name is no broker's.
    """
    if name == _EVERY:
        return EVERY_BROKER
    if not is_id(name):
        raise MalformedZnode(f"{BROKER_CONFIGS}/{name[:300]}: it is no broker's")
    return ConfigOwner(ConfigEntity.BROKER, name)


def encode_config(config: dict[str, str]) -> bytes:
    return encode(TopicConfigZnode(config=dict(sorted(config.items()))))


def decode_config(data: bytes, owner: ConfigOwner) -> dict[str, str]:
    """Return the owner's set values, all of them valid.

    Raises:
        MalformedZnode: not the documented JSON, an unknown key or an invalid value.
    """
    path = config_path(owner)
    config = decode(TopicConfigZnode, data, path).config
    try:
        parse_config_of(owner, config)
    except BadTopicConfig as fault:
        raise MalformedZnode(f"{path}: {fault}") from fault
    return config


def encode_config_change(owner: ConfigOwner) -> bytes:
    kind = _TOPICS if owner.entity is ConfigEntity.TOPIC else _BROKERS
    return encode(ConfigChangeZnode(entity_path=f"{kind}/{owner.name or _EVERY}"))


def decode_config_change(data: bytes, path: str) -> ConfigOwner:
    """Return the owner of the written configuration.

    Raises:
        MalformedZnode: not the documented JSON, or an unknown kind of owner.
    """
    entity_path = decode(ConfigChangeZnode, data, path).entity_path
    kind, _, name = entity_path.partition("/")
    if kind == _TOPICS:
        fault = find_name_fault(name)
        if fault:
            raise MalformedZnode(f"{path}: {fault}")
        return ConfigOwner(ConfigEntity.TOPIC, name)
    if kind == _BROKERS:
        return owner_of_broker_config(name)
    raise MalformedZnode(f"{path}: {entity_path[:300]!r} is neither a topic nor a broker")
