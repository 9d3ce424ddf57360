"""Converts Produce and Fetch between their values and kio's entities, for every version."""

from __future__ import annotations

from typing import Any

from highwater_core.ids import NO_TOPIC_ID, BrokerEpoch, LeaderEpoch, NodeId, Offset
from highwater_wire.kafka.entities import (
    NO_THROTTLE,
    Schema,
    by_topic,
    make,
    read_error,
    read_ms,
    read_topic_id,
    rows,
    write_ms,
    write_topic_id,
)
from highwater_wire.kafka.messages import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from highwater_wire.kafka.text import fitting
from highwater_wire.kafka.versions import FETCH_BY_TOPIC_ID_VERSION

# ---------------------------------------------------------------- Produce


def read_produce_request(entity: Any, _version: int) -> ProduceRequest:
    return ProduceRequest(
        acks=entity.acks,
        timeout_ms=read_ms(entity.timeout),
        partitions=tuple(
            [
                ProducePartition(topic.name, item.index, item.records)
                for topic in rows(entity.topic_data)
                for item in rows(topic.partition_data)
            ]
        ),
        transactional_id=entity.transactional_id,
    )


def write_produce_request(value: ProduceRequest, schema: Schema) -> Any:
    types = schema.types
    return types.ProduceRequest(
        transactional_id=value.transactional_id,
        acks=value.acks,
        timeout=write_ms(value.timeout_ms),
        topic_data=tuple(
            types.TopicProduceData(
                name=topic,
                partition_data=tuple(
                    types.PartitionProduceData(index=item.partition, records=item.records)
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, lambda item: item.topic).items()
        ),
    )


def read_produce_response(entity: Any, _request: ProduceRequest) -> ProduceResponse:
    return ProduceResponse(
        tuple(
            ProducePartitionResult(
                topic=topic.name,
                partition=item.index,
                error=read_error(item.error_code),
                base_offset=Offset(item.base_offset),
                log_start_offset=Offset(getattr(item, "log_start_offset", -1)),
            )
            for topic in rows(entity.responses)
            for item in rows(topic.partition_responses)
        )
    )


def write_produce_response(value: ProduceResponse, schema: Schema) -> Any:
    types = schema.types
    return types.ProduceResponse(
        responses=tuple(
            types.TopicProduceResponse(
                name=fitting(topic),
                partition_responses=tuple(
                    make(
                        types.PartitionProduceResponse,
                        index=item.partition,
                        error_code=item.error,
                        base_offset=item.base_offset,
                        log_append_time=None,
                        log_start_offset=item.log_start_offset,
                        record_errors=(),
                        error_message=None,
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, lambda item: item.topic).items()
        ),
        throttle_time=NO_THROTTLE,
    )


# ---------------------------------------------------------------- Fetch


def read_fetch_request(entity: Any, version: int) -> FetchRequest:
    """Return the request; sessions (KIP-227) are not kept, so their fields are not read."""
    state = getattr(entity, "replica_state", None)
    by_id = version >= FETCH_BY_TOPIC_ID_VERSION
    return FetchRequest(
        replica_id=NodeId(entity.replica_id if state is None else state.replica_id),
        max_wait_ms=read_ms(entity.max_wait),
        min_bytes=entity.min_bytes,
        max_bytes=entity.max_bytes,
        partitions=tuple(
            FetchPartition(
                topic="" if by_id else topic.topic,
                partition=item.partition,
                fetch_offset=Offset(item.fetch_offset),
                max_bytes=item.partition_max_bytes,
                current_leader_epoch=LeaderEpoch(getattr(item, "current_leader_epoch", -1)),
                log_start_offset=Offset(getattr(item, "log_start_offset", -1)),
                topic_id=read_topic_id(topic.topic_id) if by_id else NO_TOPIC_ID,
            )
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        ),
        replica_epoch=BrokerEpoch(-1 if state is None else state.replica_epoch),
    )


def write_fetch_request(value: FetchRequest, schema: Schema) -> Any:
    types = schema.types
    values: dict[str, Any] = {"replica_id": value.replica_id}
    if hasattr(types, "ReplicaState"):
        values["replica_state"] = types.ReplicaState(
            replica_id=value.replica_id, replica_epoch=value.replica_epoch
        )
    groups = by_topic(value.partitions, lambda item: item.topic_id + item.topic)
    return make(
        types.FetchRequest,
        **values,
        max_wait=write_ms(value.max_wait_ms),
        min_bytes=value.min_bytes,
        max_bytes=value.max_bytes,
        isolation_level=0,
        topics=tuple(
            make(
                types.FetchTopic,
                topic=items[0].topic,
                topic_id=write_topic_id(items[0].topic_id),
                partitions=tuple(
                    make(
                        types.FetchPartition,
                        partition=item.partition,
                        current_leader_epoch=item.current_leader_epoch,
                        fetch_offset=item.fetch_offset,
                        log_start_offset=item.log_start_offset,
                        partition_max_bytes=item.max_bytes,
                    )
                    for item in items
                ),
            )
            for items in groups.values()
        ),
        forgotten_topics_data=(),
    )


def read_fetch_response(entity: Any, request: FetchRequest) -> FetchResponse:
    """Return the response, with the request's topic names where the frame has only ids."""
    names = {item.topic_id: item.topic for item in request.partitions}
    results: list[FetchPartitionResult] = []
    for topic in rows(entity.responses):
        wire_id = getattr(topic, "topic_id", None)
        topic_id = read_topic_id(wire_id)
        name = names.get(topic_id, "") if wire_id is not None else getattr(topic, "topic", "")
        results.extend(
            FetchPartitionResult(
                topic=name,
                partition=item.partition_index,
                error=read_error(item.error_code),
                high_watermark=Offset(item.high_watermark),
                log_start_offset=Offset(getattr(item, "log_start_offset", -1)),
                records=item.records or b"",
                topic_id=topic_id,
            )
            for item in rows(topic.partitions)
        )
    error = getattr(entity, "error_code", None)
    if error is None:
        return FetchResponse(tuple(results))
    return FetchResponse(tuple(results), read_error(error))


def write_fetch_response(value: FetchResponse, schema: Schema) -> Any:
    """Return the entity; there are no transactions, so all committed records are stable."""
    types = schema.types
    groups = by_topic(value.partitions, lambda item: item.topic_id + item.topic)
    return make(
        types.FetchResponse,
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        responses=tuple(
            make(
                types.FetchableTopicResponse,
                topic=items[0].topic,
                topic_id=write_topic_id(items[0].topic_id),
                partitions=tuple(
                    make(
                        types.PartitionData,
                        partition_index=item.partition,
                        error_code=item.error,
                        high_watermark=item.high_watermark,
                        last_stable_offset=item.high_watermark,
                        log_start_offset=item.log_start_offset,
                        aborted_transactions=None,
                        records=item.records,
                    )
                    for item in items
                ),
            )
            for items in groups.values()
        ),
    )
