"""Describes and alters configurations of a running cluster, by requests to brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.cluster.asking import ask_any
from highwater.cluster.cluster import Cluster
from highwater.errors import HarnessError
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import ConfigOwner
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_wire.kafka.config_messages import (
    AlteredResource,
    ConfigAlteration,
    ConfigEntry,
    ConfigResource,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from highwater_wire.kafka.messages import KafkaRequest

TIMEOUT_S = 35.0


class ConfigRefused(HarnessError):
    """The configuration was not described or altered; the message says why."""


def describe_configs(cluster: Cluster, owner: ConfigOwner) -> tuple[ConfigEntry, ...]:
    """Return the configurations in force, sorted by name, each with its synonyms.

    Raises:
        ConfigRefused: no broker described them.
    """
    resource = ConfigResource(int(owner.entity), owner.name)
    brokers = cluster.topology.broker_ids
    if owner.entity is ConfigEntity.BROKER and owner.name:  # a broker describes only itself
        brokers = tuple(each for each in brokers if each == NodeId(int(owner.name)))
        if not brokers:
            raise ConfigRefused(f"the cluster has no broker {owner.name}")
    request = DescribeConfigsRequest((resource,), include_synonyms=True)
    result = _ask(cluster, brokers, request)
    entries: tuple[ConfigEntry, ...] = result.entries
    return entries


def alter_configs(
    cluster: Cluster,
    owner: ConfigOwner,
    alterations: tuple[ConfigAlteration, ...],
    *,
    validate_only: bool = False,
) -> None:
    """Set or delete configurations; the others stay.

    Raises:
        ConfigRefused: no configuration was altered, or the outcome is unknown.
    """
    resource = AlteredResource(int(owner.entity), owner.name, alterations)
    request = IncrementalAlterConfigsRequest((resource,), validate_only)
    _ask(cluster, cluster.topology.broker_ids, request)


def _ask(cluster: Cluster, brokers: Sequence[NodeId], request: KafkaRequest) -> Any:
    """Return the one resource's result, from the first of the brokers that answers."""
    (result,) = ask_any(cluster, request, TIMEOUT_S, brokers).resources
    if result.error is not ErrorCode.NONE:
        raise ConfigRefused(f"{result.error.name}: {result.message or 'refused'}")
    return result
