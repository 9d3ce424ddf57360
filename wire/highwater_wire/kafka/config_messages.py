"""Requests and responses about configurations, as values like those of messages.py.

Source: KIP-133 (DescribeConfigs, AlterConfigs), KIP-226 (sources and synonyms), KIP-339
(IncrementalAlterConfigs).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from highwater_core.errors import ErrorCode

UNKNOWN_TYPE = 0
"""The type of a configuration that is not told."""


class ConfigResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """names: None for every key."""

    resource_type: int
    resource_name: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest:
    """include_synonyms: return each value with the ones that would be in force without it.
    include_documentation: return what each key means (from version 3 on)."""

    resources: tuple[ConfigResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value of the configuration at one source, with its name there.

    source is one of highwater_core.config_layers.ConfigSource, or another server's number.
    """

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """The value in force and its source; synonyms, where requested, begin with it.

    type is one of highwater_core.topic_configs.ConfigType, or UNKNOWN_TYPE; versions below 3 have
    neither it nor documentation (KIP-569).
    """

    name: str
    value: str | None
    source: int
    read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: int = UNKNOWN_TYPE
    documentation: str | None = None


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    error: ErrorCode
    message: str | None
    resource_type: int
    resource_name: str
    entries: tuple[ConfigEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeConfigsResponse:
    resources: tuple[DescribedConfig, ...]


# ---------------------------------------------------------------- altering


@dataclass(frozen=True, slots=True)
class ReplacedConfig:
    """All new values of a resource: (name, value), in request order."""

    resource_type: int
    resource_name: str
    configs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest:
    """All other values of a resource are removed."""

    resources: tuple[ReplacedConfig, ...]
    validate_only: bool = False


class ConfigOperationType(IntEnum):
    """An operation of IncrementalAlterConfigs on one configuration."""

    SET = 0
    DELETE = 1
    APPEND = 2
    """Of lists only."""
    SUBTRACT = 3
    """Of lists only."""


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """operation is one of ConfigOperationType, or an invalid number of a client."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class AlteredResource:
    resource_type: int
    resource_name: str
    alterations: tuple[ConfigAlteration, ...]


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigsRequest:
    """Other configurations stay as they are."""

    resources: tuple[AlteredResource, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlteredConfigResult:
    error: ErrorCode
    message: str | None
    resource_type: int
    resource_name: str


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse:
    """One result for each resource."""

    resources: tuple[AlteredConfigResult, ...]


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigsResponse:
    """One result for each resource."""

    resources: tuple[AlteredConfigResult, ...]
