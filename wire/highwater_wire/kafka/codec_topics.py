"""Converts the APIs about topics, ApiVersions, Metadata and FindCoordinator: to kio, and back."""

from __future__ import annotations

from typing import Any

from highwater_core.ids import LeaderEpoch, NodeId
from highwater_wire.kafka.entities import (
    NO_THROTTLE,
    Schema,
    make,
    read_error,
    read_ms,
    rows,
    write_ms,
)
from highwater_wire.kafka.messages import (
    ApiVersionRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FoundCoordinator,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    TopicToCreate,
)
from highwater_wire.kafka.text import fitting

# ---------------------------------------------------------------- ApiVersions


def read_api_versions_request(entity: Any, _version: int) -> ApiVersionsRequest:
    return ApiVersionsRequest(
        getattr(entity, "client_software_name", None),
        getattr(entity, "client_software_version", None),
    )


def write_api_versions_request(value: ApiVersionsRequest, schema: Schema) -> Any:
    return make(
        schema.types.ApiVersionsRequest,
        client_software_name=value.client_software_name or "",
        client_software_version=value.client_software_version or "",
    )


def read_api_versions_response(entity: Any, _request: ApiVersionsRequest) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error=read_error(entity.error_code),
        api_keys=tuple(
            ApiVersionRange(item.api_key, item.min_version, item.max_version)
            for item in rows(entity.api_keys)
        ),
    )


def write_api_versions_response(value: ApiVersionsResponse, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.ApiVersionsResponse,
        error_code=value.error,
        api_keys=tuple(
            types.ApiVersion(
                api_key=item.api_key, min_version=item.min_version, max_version=item.max_version
            )
            for item in value.api_keys
        ),
        throttle_time=NO_THROTTLE,
    )


# ---------------------------------------------------------------- Metadata


def read_metadata_request(entity: Any, version: int) -> MetadataRequest:
    """Return the request. Before version 4 a client could not forbid the creation of topics."""
    if version == 0:
        names = tuple(topic.name for topic in rows(entity.topics)) or None
    elif entity.topics is None:
        names = None
    else:
        names = tuple(topic.name for topic in entity.topics)
    return MetadataRequest(names, getattr(entity, "allow_auto_topic_creation", True))


def write_metadata_request(value: MetadataRequest, schema: Schema) -> Any:
    types = schema.types
    names = value.topics
    if names is None and schema.version == 0:
        names = ()
    return make(
        types.MetadataRequest,
        topics=(
            None if names is None else tuple(types.MetadataRequestTopic(name=n) for n in names)
        ),
        allow_auto_topic_creation=value.allow_auto_topic_creation,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def read_metadata_response(entity: Any, _request: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(
            MetadataBroker(NodeId(broker.node_id), broker.host, broker.port)
            for broker in rows(entity.brokers)
        ),
        cluster_id=getattr(entity, "cluster_id", None),
        controller_id=NodeId(getattr(entity, "controller_id", -1)),
        topics=tuple(
            MetadataTopic(
                error=read_error(topic.error_code),
                name=topic.name,
                partitions=tuple(_read_metadata_partition(p) for p in rows(topic.partitions)),
                is_internal=getattr(topic, "is_internal", False),
            )
            for topic in rows(entity.topics)
        ),
    )


def _read_metadata_partition(entity: Any) -> MetadataPartition:
    return MetadataPartition(
        error=read_error(entity.error_code),
        partition=entity.partition_index,
        leader=NodeId(entity.leader_id),
        leader_epoch=LeaderEpoch(getattr(entity, "leader_epoch", -1)),
        replicas=rows(entity.replica_nodes),
        isr=rows(entity.isr_nodes),
        offline_replicas=rows(getattr(entity, "offline_replicas", ())),
    )


def write_metadata_response(value: MetadataResponse, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.MetadataResponse,
        throttle_time=NO_THROTTLE,
        brokers=tuple(
            make(
                types.MetadataResponseBroker,
                node_id=broker.broker_id,
                host=fitting(broker.host),
                port=broker.port,
            )
            for broker in value.brokers
        ),
        cluster_id=fitting(value.cluster_id),
        controller_id=value.controller_id,
        topics=tuple(
            make(
                types.MetadataResponseTopic,
                error_code=topic.error,
                name=fitting(topic.name),
                is_internal=topic.is_internal,
                partitions=tuple(_write_metadata_partition(p, schema) for p in topic.partitions),
            )
            for topic in value.topics
        ),
    )


def _write_metadata_partition(value: MetadataPartition, schema: Schema) -> Any:
    return make(
        schema.types.MetadataResponsePartition,
        error_code=value.error,
        partition_index=value.partition,
        leader_id=value.leader,
        leader_epoch=value.leader_epoch,
        replica_nodes=value.replicas,
        isr_nodes=value.isr,
        offline_replicas=value.offline_replicas,
    )


# ---------------------------------------------------------------- FindCoordinator

FIRST_VERSION_OF_MANY_KEYS = 4


def read_find_coordinator_request(entity: Any, version: int) -> FindCoordinatorRequest:
    if version >= FIRST_VERSION_OF_MANY_KEYS:
        return FindCoordinatorRequest(rows(entity.coordinator_keys), entity.key_type)
    return FindCoordinatorRequest((entity.key,), getattr(entity, "key_type", 0))


def write_find_coordinator_request(value: FindCoordinatorRequest, schema: Schema) -> Any:
    return make(
        schema.types.FindCoordinatorRequest,
        key=value.keys[0] if value.keys else "",
        coordinator_keys=value.keys,
        key_type=value.key_type,
    )


def read_find_coordinator_response(
    entity: Any, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    if hasattr(entity, "coordinators"):
        found = rows(entity.coordinators)
        return FindCoordinatorResponse(tuple(_read_found(each.key, each) for each in found))
    return FindCoordinatorResponse((_read_found(request.keys[0], entity),))


def _read_found(key: str, entity: Any) -> FoundCoordinator:
    return FoundCoordinator(
        key=key,
        error=read_error(entity.error_code),
        message=getattr(entity, "error_message", None),
        node_id=NodeId(entity.node_id),
        host=entity.host,
        port=entity.port,
    )


def write_find_coordinator_response(value: FindCoordinatorResponse, schema: Schema) -> Any:
    types = schema.types
    if schema.version >= FIRST_VERSION_OF_MANY_KEYS:
        found = tuple(types.Coordinator(**_written(each)) for each in value.coordinators)
        return make(types.FindCoordinatorResponse, throttle_time=NO_THROTTLE, coordinators=found)
    (only,) = value.coordinators
    return make(types.FindCoordinatorResponse, throttle_time=NO_THROTTLE, **_written(only))


def _written(found: FoundCoordinator) -> dict[str, Any]:
    return {
        "key": fitting(found.key),
        "error_code": found.error,
        "error_message": fitting(found.message),
        "node_id": found.node_id,
        "host": fitting(found.host),
        "port": found.port,
    }


# ---------------------------------------------------------------- CreateTopics


def read_create_topics_request(entity: Any, _version: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(
            TopicToCreate(
                name=topic.name,
                partition_count=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=tuple(
                    (item.partition_index, rows(item.broker_ids))
                    for item in rows(topic.assignments)
                ),
                configs=tuple((item.name, item.value) for item in rows(topic.configs)),
            )
            for topic in rows(entity.topics)
        ),
        timeout_ms=read_ms(entity.timeout),
        validate_only=entity.validate_only,
    )


def write_create_topics_request(value: CreateTopicsRequest, schema: Schema) -> Any:
    types = schema.types
    return types.CreateTopicsRequest(
        topics=tuple(
            types.CreatableTopic(
                name=topic.name,
                num_partitions=topic.partition_count,
                replication_factor=topic.replication_factor,
                assignments=tuple(
                    types.CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
                    for number, replicas in topic.assignments
                ),
                configs=tuple(
                    types.CreatableTopicConfig(name=name, value=text)
                    for name, text in topic.configs
                ),
            )
            for topic in value.topics
        ),
        timeout=write_ms(value.timeout_ms),
        validate_only=value.validate_only,
    )


def read_create_topics_response(entity: Any, _request: CreateTopicsRequest) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        tuple(
            CreatedTopic(topic.name, read_error(topic.error_code), topic.error_message)
            for topic in rows(entity.topics)
        )
    )


def write_create_topics_response(value: CreateTopicsResponse, schema: Schema) -> Any:
    types = schema.types
    return types.CreateTopicsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            types.CreatableTopicResult(
                name=fitting(topic.name),
                error_code=topic.error,
                error_message=fitting(topic.message),
            )
            for topic in value.topics
        ),
    )


# ---------------------------------------------------------------- DeleteTopics


def read_delete_topics_request(entity: Any, _version: int) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(rows(entity.topic_names), read_ms(entity.timeout))


def write_delete_topics_request(value: DeleteTopicsRequest, schema: Schema) -> Any:
    return schema.types.DeleteTopicsRequest(
        topic_names=value.names, timeout=write_ms(value.timeout_ms)
    )


def read_delete_topics_response(entity: Any, _request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        tuple(
            DeletedTopic(topic.name, read_error(topic.error_code))
            for topic in rows(entity.responses)
        )
    )


def write_delete_topics_response(value: DeleteTopicsResponse, schema: Schema) -> Any:
    types = schema.types
    return types.DeleteTopicsResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            types.DeletableTopicResult(name=fitting(topic.name), error_code=topic.error)
            for topic in value.topics
        ),
    )
