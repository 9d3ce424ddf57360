"""Converts ListOffsets and OffsetForLeaderEpoch between their values and kio's entities."""

from __future__ import annotations

from typing import Any

from highwater_core.ids import LeaderEpoch, NodeId, Offset
from highwater_wire.kafka.entities import NO_THROTTLE, Schema, by_topic, make, read_error, rows
from highwater_wire.kafka.messages import (
    CONSUMER,
    EpochEndOffset,
    EpochPartition,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from highwater_wire.kafka.text import fitting

# ---------------------------------------------------------------- ListOffsets


def read_list_offsets_request(entity: Any, version: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=NodeId(entity.replica_id),
        partitions=tuple(
            ListOffsetsPartition(
                topic=topic.name,
                partition=item.partition_index,
                timestamp=item.timestamp,
                current_leader_epoch=LeaderEpoch(getattr(item, "current_leader_epoch", -1)),
            )
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        ),
        request_version=version,
    )


def write_list_offsets_request(value: ListOffsetsRequest, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.ListOffsetsRequest,
        replica_id=value.replica_id,
        isolation_level=0,
        topics=tuple(
            types.ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    make(
                        types.ListOffsetsPartition,
                        partition_index=item.partition,
                        current_leader_epoch=item.current_leader_epoch,
                        timestamp=item.timestamp,
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, lambda item: item.topic).items()
        ),
    )


def read_list_offsets_response(entity: Any, _request: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        tuple(
            ListOffsetsResult(
                topic=topic.name,
                partition=item.partition_index,
                error=read_error(item.error_code),
                timestamp=item.timestamp,
                offset=Offset(item.offset),
                leader_epoch=LeaderEpoch(getattr(item, "leader_epoch", -1)),
            )
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        )
    )


def write_list_offsets_response(value: ListOffsetsResponse, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.ListOffsetsResponse,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            types.ListOffsetsTopicResponse(
                name=fitting(topic),
                partitions=tuple(
                    make(
                        types.ListOffsetsPartitionResponse,
                        partition_index=item.partition,
                        error_code=item.error,
                        timestamp=item.timestamp,
                        offset=item.offset,
                        leader_epoch=item.leader_epoch,
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, lambda item: item.topic).items()
        ),
    )


# ---------------------------------------------------------------- OffsetForLeaderEpoch


def read_epoch_request(entity: Any, _version: int) -> OffsetForLeaderEpochRequest:
    """Return the request; version 2 has no replica id, so it counts as a client's."""
    return OffsetForLeaderEpochRequest(
        replica_id=NodeId(getattr(entity, "replica_id", CONSUMER)),
        partitions=tuple(
            EpochPartition(
                topic=topic.topic,
                partition=item.partition,
                leader_epoch=LeaderEpoch(item.leader_epoch),
                current_leader_epoch=LeaderEpoch(item.current_leader_epoch),
            )
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        ),
    )


def write_epoch_request(value: OffsetForLeaderEpochRequest, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.OffsetForLeaderEpochRequest,
        replica_id=value.replica_id,
        topics=tuple(
            types.OffsetForLeaderTopic(
                topic=topic,
                partitions=tuple(
                    types.OffsetForLeaderPartition(
                        partition=item.partition,
                        current_leader_epoch=item.current_leader_epoch,
                        leader_epoch=item.leader_epoch,
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, lambda item: item.topic).items()
        ),
    )


def read_epoch_response(
    entity: Any, _request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        tuple(
            EpochEndOffset(
                topic=topic.topic,
                partition=item.partition,
                error=read_error(item.error_code),
                leader_epoch=LeaderEpoch(item.leader_epoch),
                end_offset=Offset(item.end_offset),
            )
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        )
    )


def write_epoch_response(value: OffsetForLeaderEpochResponse, schema: Schema) -> Any:
    types = schema.types
    return types.OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            types.OffsetForLeaderTopicResult(
                topic=fitting(topic),
                partitions=tuple(
                    types.EpochEndOffset(
                        error_code=item.error,
                        partition=item.partition,
                        leader_epoch=item.leader_epoch,
                        end_offset=item.end_offset,
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, lambda item: item.topic).items()
        ),
    )
