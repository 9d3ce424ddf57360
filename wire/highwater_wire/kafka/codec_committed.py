"""Converts OffsetCommit, OffsetFetch and OffsetDelete between their values and kio's entities."""

from __future__ import annotations

from typing import Any

from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset, TopicPartition
from highwater_wire.kafka.committed_messages import (
    NO_RETENTION_MS,
    CommittedPartition,
    FetchedGroup,
    FetchedOffset,
    GroupToFetch,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetToCommit,
)
from highwater_wire.kafka.entities import (
    NO_THROTTLE,
    Schema,
    by_topic,
    make,
    read_error,
    read_ms,
    rows,
    write_ms,
)
from highwater_wire.kafka.text import fitting

_MANY_GROUPS_VERSION = 8
_ALL_PARTITIONS_VERSION = 2
_GROUP_ERROR_VERSION = 2

# ---------------------------------------------------------------- OffsetCommit


def read_commit_request(entity: Any, version: int) -> OffsetCommitRequest:
    retention = getattr(entity, "retention_time", None)
    return OffsetCommitRequest(
        group_id=entity.group_id,
        partitions=tuple(
            OffsetToCommit(
                topic=topic.name,
                partition=item.partition_index,
                offset=Offset(item.committed_offset),
                leader_epoch=LeaderEpoch(getattr(item, "committed_leader_epoch", -1)),
                metadata=item.committed_metadata,
            )
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        ),
        generation=entity.generation_id_or_member_epoch,
        member_id=entity.member_id,
        group_instance_id=getattr(entity, "group_instance_id", None),
        retention_ms=NO_RETENTION_MS if retention is None else read_ms(retention),
        request_version=version,
    )


def write_commit_request(value: OffsetCommitRequest, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.OffsetCommitRequest,
        group_id=value.group_id,
        generation_id_or_member_epoch=value.generation,
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
        retention_time=write_ms(value.retention_ms),
        topics=tuple(
            types.OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    make(
                        types.OffsetCommitRequestPartition,
                        partition_index=item.partition,
                        committed_offset=item.offset,
                        committed_leader_epoch=item.leader_epoch,
                        committed_metadata=item.metadata,
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, lambda item: item.topic).items()
        ),
    )


def read_commit_response(entity: Any, _request: OffsetCommitRequest) -> OffsetCommitResponse:
    return OffsetCommitResponse(_read_results(entity))


def write_commit_response(value: OffsetCommitResponse, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.OffsetCommitResponse,
        throttle_time=NO_THROTTLE,
        topics=_write_results(
            value.partitions, types.OffsetCommitResponseTopic, types.OffsetCommitResponsePartition
        ),
    )


# ---------------------------------------------------------------- OffsetFetch


def read_offset_fetch_request(entity: Any, version: int) -> OffsetFetchRequest:
    groups = rows(entity.groups) if version >= _MANY_GROUPS_VERSION else (entity,)
    return OffsetFetchRequest(
        tuple(GroupToFetch(group.group_id, _read_wanted(group.topics)) for group in groups),
        getattr(entity, "require_stable", False),
    )


def _read_wanted(topics: Any) -> tuple[TopicPartition, ...] | None:
    if topics is None:
        return None
    return tuple(
        TopicPartition(topic.name, number)
        for topic in topics
        for number in rows(topic.partition_indexes)
    )


def write_offset_fetch_request(value: OffsetFetchRequest, schema: Schema) -> Any:
    types = schema.types
    if schema.version >= _MANY_GROUPS_VERSION:
        groups = tuple(
            make(
                types.OffsetFetchRequestGroup,
                group_id=group.group_id,
                topics=_write_wanted(group, types.OffsetFetchRequestTopics),
            )
            for group in value.groups
        )
        return types.OffsetFetchRequest(groups=groups, require_stable=value.require_stable)
    (group,) = value.groups
    return make(
        types.OffsetFetchRequest,
        group_id=group.group_id,
        topics=_write_wanted(group, types.OffsetFetchRequestTopic),
        require_stable=value.require_stable,
    )


def _write_wanted(group: GroupToFetch, topic_type: Any) -> Any:
    if group.partitions is None:
        return None
    return tuple(
        topic_type(name=topic, partition_indexes=tuple(item.partition for item in items))
        for topic, items in by_topic(group.partitions, lambda item: item.topic).items()
    )


def read_offset_fetch_response(entity: Any, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if hasattr(entity, "groups"):
        groups = rows(entity.groups)
        return OffsetFetchResponse(tuple(_read_fetched(group.group_id, group) for group in groups))
    return OffsetFetchResponse((_read_fetched(request.groups[0].group_id, entity),))


def _read_fetched(group_id: str, entity: Any) -> FetchedGroup:
    code = getattr(entity, "error_code", None)
    return FetchedGroup(
        group_id,
        ErrorCode.NONE if code is None else read_error(code),
        tuple(
            FetchedOffset(
                topic=topic.name,
                partition=item.partition_index,
                offset=Offset(item.committed_offset),
                leader_epoch=LeaderEpoch(getattr(item, "committed_leader_epoch", -1)),
                metadata=item.metadata,
                error=read_error(item.error_code),
            )
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        ),
    )


def write_offset_fetch_response(value: OffsetFetchResponse, schema: Schema) -> Any:
    types = schema.types
    if schema.version >= _MANY_GROUPS_VERSION:
        groups = tuple(
            types.OffsetFetchResponseGroup(
                group_id=fitting(group.group_id),
                topics=_write_fetched(
                    group, types.OffsetFetchResponseTopics, types.OffsetFetchResponsePartitions
                ),
                error_code=group.error,
            )
            for group in value.groups
        )
        return types.OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=groups)
    (group,) = value.groups
    return make(
        types.OffsetFetchResponse,
        throttle_time=NO_THROTTLE,
        topics=_write_fetched(
            group, types.OffsetFetchResponseTopic, types.OffsetFetchResponsePartition
        ),
        error_code=group.error,
    )


def _write_fetched(group: FetchedGroup, topic_type: Any, partition_type: Any) -> Any:
    return tuple(
        topic_type(
            name=fitting(topic),
            partitions=tuple(
                make(
                    partition_type,
                    partition_index=item.partition,
                    committed_offset=item.offset,
                    committed_leader_epoch=item.leader_epoch,
                    metadata=fitting(item.metadata),
                    error_code=item.error,
                )
                for item in items
            ),
        )
        for topic, items in by_topic(group.partitions, lambda item: item.topic).items()
    )


# ---------------------------------------------------------------- OffsetDelete


def read_offset_delete_request(entity: Any, _version: int) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        entity.group_id,
        tuple(
            TopicPartition(topic.name, item.partition_index)
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        ),
    )


def write_offset_delete_request(value: OffsetDeleteRequest, schema: Schema) -> Any:
    types = schema.types
    return types.OffsetDeleteRequest(
        group_id=value.group_id,
        topics=tuple(
            types.OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(
                    types.OffsetDeleteRequestPartition(partition_index=item.partition)
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, lambda item: item.topic).items()
        ),
    )


def read_offset_delete_response(entity: Any, _request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(read_error(entity.error_code), _read_results(entity))


def write_offset_delete_response(value: OffsetDeleteResponse, schema: Schema) -> Any:
    types = schema.types
    return types.OffsetDeleteResponse(
        error_code=value.error,
        throttle_time=NO_THROTTLE,
        topics=_write_results(
            value.partitions, types.OffsetDeleteResponseTopic, types.OffsetDeleteResponsePartition
        ),
    )


# ---------------------------------------------------------------- both


def _read_results(entity: Any) -> tuple[CommittedPartition, ...]:
    return tuple(
        CommittedPartition(topic.name, item.partition_index, read_error(item.error_code))
        for topic in rows(entity.topics)
        for item in rows(topic.partitions)
    )


def _write_results(
    results: tuple[CommittedPartition, ...], topic_type: Any, partition_type: Any
) -> Any:
    return tuple(
        topic_type(
            name=fitting(topic),
            partitions=tuple(
                partition_type(partition_index=item.partition, error_code=item.error)
                for item in items
            ),
        )
        for topic, items in by_topic(results, lambda item: item.topic).items()
    )
