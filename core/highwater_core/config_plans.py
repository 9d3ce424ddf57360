"""Decides a configuration's values after the changes that a client asks for. Pure.

A controller alters configurations, or under preset v2 the broker that a client asks: both decide
here.
Source: KIP-133, KIP-339; Kafka's ZkAdminManager.
"""

from __future__ import annotations

from collections.abc import Mapping

from highwater_core.admin_messages import AlteredConfig, ConfigOperation
from highwater_core.config_layers import ConfigOwner, parse_config_of
from highwater_core.errors import ErrorCode
from highwater_core.topic_configs import TOPIC_CONFIG_KEYS, BadTopicConfig
from highwater_core.topic_plans import Refused

_EMPTY_BY_DEFAULT = frozenset(name for name, key in TOPIC_CONFIG_KEYS.items() if not key.default)


def plan_config(
    owner: ConfigOwner, before: Mapping[str, str], altered: AlteredConfig
) -> dict[str, str]:
    """Return the owner's values after the changes, which are made in their order.

    Deviation: in Kafka a list that has lost its last entry stays set, and empty.

    Raises:
        Refused: a value is invalid, or the owner has no such key.
    """
    config = {} if altered.replaces_all else dict(before)
    for change in altered.changes:
        match change.operation:
            case ConfigOperation.SET:
                config[change.name] = change.value
            case ConfigOperation.DELETE:
                config.pop(change.name, None)
            case ConfigOperation.APPEND:
                entries = dict.fromkeys((*_entries(config, change.name), *_listed(change.value)))
                config[change.name] = ",".join(entries)
            case ConfigOperation.SUBTRACT:
                gone = dict.fromkeys(_listed(change.value))
                left = [each for each in _entries(config, change.name) if each not in gone]
                config[change.name] = ",".join(left)
                if not left and change.name in _EMPTY_BY_DEFAULT:
                    del config[change.name]
    try:
        parse_config_of(owner, config)
    except BadTopicConfig as fault:
        raise Refused(ErrorCode.INVALID_CONFIG, str(fault)) from None
    return config


def _entries(config: Mapping[str, str], name: str) -> list[str]:
    """Return the entries of the set list, or of its default; an unknown one has none."""
    key = TOPIC_CONFIG_KEYS.get(name)
    return _listed(config.get(name, key.default if key else ""))


def _listed(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]
