"""Converts DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: values to kio, and back."""

from __future__ import annotations

from typing import Any

from highwater_wire.kafka.config_messages import (
    UNKNOWN_TYPE,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfigResult,
    AlteredResource,
    ConfigAlteration,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ReplacedConfig,
)
from highwater_wire.kafka.entities import NO_THROTTLE, Schema, make, read_error, rows
from highwater_wire.kafka.text import fitting

# ---------------------------------------------------------------- DescribeConfigs


def read_describe_configs_request(entity: Any, _version: int) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        tuple(
            ConfigResource(item.resource_type, item.resource_name, item.configuration_keys)
            for item in rows(entity.resources)
        ),
        entity.include_synonyms,
        getattr(entity, "include_documentation", False),
    )


def write_describe_configs_request(value: DescribeConfigsRequest, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.DescribeConfigsRequest,
        resources=tuple(
            types.DescribeConfigsResource(
                resource_type=item.resource_type,
                resource_name=item.resource_name,
                configuration_keys=item.names,
            )
            for item in value.resources
        ),
        include_synonyms=value.include_synonyms,
        include_documentation=value.include_documentation,
    )


def read_describe_configs_response(
    entity: Any, _request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        tuple(
            DescribedConfig(
                error=read_error(item.error_code),
                message=item.error_message,
                resource_type=item.resource_type,
                resource_name=item.resource_name,
                entries=tuple(_read_entry(entry) for entry in rows(item.configs)),
            )
            for item in rows(entity.results)
        )
    )


def _read_entry(entity: Any) -> ConfigEntry:
    return ConfigEntry(
        name=entity.name,
        value=entity.value,
        source=entity.config_source,
        read_only=entity.read_only,
        synonyms=tuple(
            ConfigSynonym(each.name, each.value, each.source) for each in rows(entity.synonyms)
        ),
        type=getattr(entity, "config_type", UNKNOWN_TYPE),
        documentation=getattr(entity, "documentation", None),
    )


def write_describe_configs_response(value: DescribeConfigsResponse, schema: Schema) -> Any:
    types = schema.types
    return types.DescribeConfigsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            types.DescribeConfigsResult(
                error_code=item.error,
                error_message=fitting(item.message),
                resource_type=item.resource_type,
                resource_name=fitting(item.resource_name),
                configs=tuple(_write_entry(entry, schema) for entry in item.entries),
            )
            for item in value.resources
        ),
    )


def _write_entry(value: ConfigEntry, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.DescribeConfigsResourceResult,
        name=fitting(value.name),
        value=fitting(value.value),
        read_only=value.read_only,
        config_source=value.source,
        is_sensitive=False,
        synonyms=tuple(
            types.DescribeConfigsSynonym(
                name=fitting(each.name), value=fitting(each.value), source=each.source
            )
            for each in value.synonyms
        ),
        config_type=value.type,
        documentation=fitting(value.documentation),
    )


# ---------------------------------------------------------------- AlterConfigs


def read_alter_configs_request(entity: Any, _version: int) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        tuple(
            ReplacedConfig(
                item.resource_type,
                item.resource_name,
                tuple((each.name, each.value) for each in rows(item.configs)),
            )
            for item in rows(entity.resources)
        ),
        entity.validate_only,
    )


def write_alter_configs_request(value: AlterConfigsRequest, schema: Schema) -> Any:
    types = schema.types
    return types.AlterConfigsRequest(
        resources=tuple(
            types.AlterConfigsResource(
                resource_type=item.resource_type,
                resource_name=item.resource_name,
                configs=tuple(
                    types.AlterableConfig(name=name, value=text) for name, text in item.configs
                ),
            )
            for item in value.resources
        ),
        validate_only=value.validate_only,
    )


def read_alter_configs_response(entity: Any, _request: AlterConfigsRequest) -> AlterConfigsResponse:
    return AlterConfigsResponse(_read_results(entity))


def write_alter_configs_response(value: AlterConfigsResponse, schema: Schema) -> Any:
    types = schema.types
    return types.AlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=_write_results(types.AlterConfigsResourceResponse, value.resources),
    )


# ---------------------------------------------------------------- IncrementalAlterConfigs


def read_incremental_request(entity: Any, _version: int) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        tuple(
            AlteredResource(
                item.resource_type,
                item.resource_name,
                tuple(
                    ConfigAlteration(each.name, each.config_operation, each.value)
                    for each in rows(item.configs)
                ),
            )
            for item in rows(entity.resources)
        ),
        entity.validate_only,
    )


def write_incremental_request(value: IncrementalAlterConfigsRequest, schema: Schema) -> Any:
    types = schema.types
    return types.IncrementalAlterConfigsRequest(
        resources=tuple(
            types.AlterConfigsResource(
                resource_type=item.resource_type,
                resource_name=item.resource_name,
                configs=tuple(
                    types.AlterableConfig(
                        name=each.name, config_operation=each.operation, value=each.value
                    )
                    for each in item.alterations
                ),
            )
            for item in value.resources
        ),
        validate_only=value.validate_only,
    )


def read_incremental_response(
    entity: Any, _request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(_read_results(entity))


def write_incremental_response(value: IncrementalAlterConfigsResponse, schema: Schema) -> Any:
    types = schema.types
    return types.IncrementalAlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=_write_results(types.AlterConfigsResourceResponse, value.resources),
    )


# ---------------------------------------------------------------- both


def _read_results(entity: Any) -> tuple[AlteredConfigResult, ...]:
    return tuple(
        AlteredConfigResult(
            error=read_error(item.error_code),
            message=item.error_message,
            resource_type=item.resource_type,
            resource_name=item.resource_name,
        )
        for item in rows(entity.responses)
    )


def _write_results(result_type: Any, results: tuple[AlteredConfigResult, ...]) -> Any:
    return tuple(
        result_type(
            error_code=item.error,
            error_message=fitting(item.message),
            resource_type=item.resource_type,
            resource_name=fitting(item.resource_name),
        )
        for item in results
    )
