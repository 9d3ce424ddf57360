"""Requests and responses about configurations, as values: those of messages.py, like them.

Source: KIP-133 (DescribeConfigs, AlterConfigs), KIP-226 (sources and synonyms), KIP-339
(IncrementalAlterConfigs).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from highwater_core.errors import ErrorCode


class ConfigResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """names None asks for every key."""

    resource_type: int
    resource_name: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest:
    """include_synonyms: each value is told with those that would be in force without it."""

    resources: tuple[ConfigResource, ...]
    include_synonyms: bool = False


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value that the configuration has somewhere, by its name there.

    source is one of highwater_core.config_layers.ConfigSource, or what another server says.
    """

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """The value in force and its source; synonyms begin with it, where they were asked for."""

    name: str
    value: str | None
    source: int
    read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()


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
    """All that a resource is to set: (name, value), in request order."""

    resource_type: int
    resource_name: str
    configs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest:
    """Whatever else a resource sets, it sets no longer."""

    resources: tuple[ReplacedConfig, ...]
    validate_only: bool = False


class ConfigOperationType(IntEnum):
    """What IncrementalAlterConfigs does to one configuration."""

    SET = 0
    DELETE = 1
    APPEND = 2
    """Of lists only."""
    SUBTRACT = 3
    """Of lists only."""


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """operation is one of ConfigOperationType, or what a client made up."""

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
    """What is not named stays as it is."""

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
