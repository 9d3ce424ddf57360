"""Converts DescribeLogDirs: values to kio, and back."""

from __future__ import annotations

from typing import Any

from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_wire.kafka.entities import NO_THROTTLE, Schema, by_topic, make, read_error, rows
from highwater_wire.kafka.log_dir_messages import (
    UNKNOWN_BYTES,
    DescribedLogDir,
    DescribedReplica,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from highwater_wire.kafka.text import fitting


def read_request(entity: Any, _version: int) -> DescribeLogDirsRequest:
    if entity.topics is None:
        return DescribeLogDirsRequest(None)
    return DescribeLogDirsRequest(
        tuple(
            TopicPartition(topic.topic, number)
            for topic in entity.topics
            for number in rows(topic.partitions)
        )
    )


def write_request(value: DescribeLogDirsRequest, schema: Schema) -> Any:
    types = schema.types
    if value.partitions is None:
        return types.DescribeLogDirsRequest(topics=None)
    groups = by_topic(value.partitions, lambda each: each.topic)
    return types.DescribeLogDirsRequest(
        topics=tuple(
            types.DescribableLogDirTopic(
                topic=topic, partitions=tuple(each.partition for each in named)
            )
            for topic, named in groups.items()
        )
    )


def read_response(entity: Any, _request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        error=read_error(getattr(entity, "error_code", ErrorCode.NONE)),
        folders=tuple(
            DescribedLogDir(
                error=read_error(folder.error_code),
                path=folder.log_dir,
                replicas=tuple(
                    DescribedReplica(
                        TopicPartition(topic.name, each.partition_index),
                        size_bytes=each.partition_size,
                        offset_lag=each.offset_lag,
                        is_future=each.is_future_key,
                    )
                    for topic in rows(folder.topics)
                    for each in rows(topic.partitions)
                ),
                total_bytes=getattr(folder, "total_bytes", UNKNOWN_BYTES),
                usable_bytes=getattr(folder, "usable_bytes", UNKNOWN_BYTES),
            )
            for folder in rows(entity.results)
        ),
    )


def write_response(value: DescribeLogDirsResponse, schema: Schema) -> Any:
    return make(
        schema.types.DescribeLogDirsResponse,
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        results=tuple(_write_folder(folder, schema) for folder in value.folders),
    )


def _write_folder(folder: DescribedLogDir, schema: Schema) -> Any:
    types = schema.types
    groups = by_topic(folder.replicas, lambda each: each.topic_partition.topic)
    return make(
        types.DescribeLogDirsResult,
        error_code=folder.error,
        log_dir=fitting(folder.path),
        topics=tuple(
            types.DescribeLogDirsTopic(
                name=fitting(topic),
                partitions=tuple(
                    types.DescribeLogDirsPartition(
                        partition_index=each.topic_partition.partition,
                        partition_size=each.size_bytes,
                        offset_lag=each.offset_lag,
                        is_future_key=each.is_future,
                    )
                    for each in replicas
                ),
            )
            for topic, replicas in groups.items()
        ),
        total_bytes=folder.total_bytes,
        usable_bytes=folder.usable_bytes,
    )
