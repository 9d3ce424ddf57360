"""Converts CreatePartitions, ElectLeaders and the reassignment APIs: values to kio, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from highwater_core.admin_messages import (
    ElectionType,
    OngoingReassignment,
    PartitionResult,
    ReassignmentItem,
    TopicResult,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    PartitionsToCreate,
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


class _OfPartition(Protocol):
    @property
    def topic_partition(self) -> TopicPartition: ...


def _topic(item: _OfPartition) -> str:
    return item.topic_partition.topic


def _numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    groups = by_topic(partitions, lambda item: item.topic)
    return {topic: tuple(item.partition for item in items) for topic, items in groups.items()}


# ---------------------------------------------------------------- CreatePartitions


def read_create_partitions_request(entity: Any, _version: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=tuple(
            PartitionsToCreate(
                topic=topic.name,
                total_count=topic.count,
                assignments=(
                    None
                    if topic.assignments is None
                    else tuple(rows(item.broker_ids) for item in topic.assignments)
                ),
            )
            for topic in rows(entity.topics)
        ),
        timeout_ms=read_ms(entity.timeout),
        validate_only=entity.validate_only,
    )


def write_create_partitions_request(value: CreatePartitionsRequest, schema: Schema) -> Any:
    types = schema.types
    return types.CreatePartitionsRequest(
        topics=tuple(
            types.CreatePartitionsTopic(
                name=topic.topic,
                count=topic.total_count,
                assignments=(
                    None
                    if topic.assignments is None
                    else tuple(
                        types.CreatePartitionsAssignment(broker_ids=replicas)
                        for replicas in topic.assignments
                    )
                ),
            )
            for topic in value.topics
        ),
        timeout=write_ms(value.timeout_ms),
        validate_only=value.validate_only,
    )


def read_create_partitions_response(
    entity: Any, _request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        tuple(
            TopicResult(topic.name, read_error(topic.error_code), topic.error_message or "")
            for topic in rows(entity.results)
        )
    )


def write_create_partitions_response(value: CreatePartitionsResponse, schema: Schema) -> Any:
    types = schema.types
    return types.CreatePartitionsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            types.CreatePartitionsTopicResult(
                name=fitting(topic.name),
                error_code=topic.error,
                error_message=fitting(topic.message or None),
            )
            for topic in value.topics
        ),
    )


# ---------------------------------------------------------------- ElectLeaders


def read_elect_leaders_request(entity: Any, _version: int) -> ElectLeadersRequest:
    named = entity.topic_partitions
    return ElectLeadersRequest(
        election_type=getattr(entity, "election_type", ElectionType.PREFERRED.value),
        partitions=(
            None
            if named is None
            else tuple(
                TopicPartition(topic.topic, number)
                for topic in named
                for number in rows(topic.partitions)
            )
        ),
        timeout_ms=read_ms(entity.timeout),
    )


def write_elect_leaders_request(value: ElectLeadersRequest, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.ElectLeadersRequest,
        election_type=value.election_type,
        topic_partitions=(
            None
            if value.partitions is None
            else tuple(
                types.TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in _numbers_by_topic(value.partitions).items()
            )
        ),
        timeout=write_ms(value.timeout_ms),
    )


def read_elect_leaders_response(entity: Any, _request: ElectLeadersRequest) -> ElectLeadersResponse:
    code = getattr(entity, "error_code", None)
    return ElectLeadersResponse(
        error=ErrorCode.NONE if code is None else read_error(code),
        partitions=tuple(
            PartitionResult(
                TopicPartition(topic.topic, item.partition_id),
                read_error(item.error_code),
                item.error_message or "",
            )
            for topic in rows(entity.replica_election_results)
            for item in rows(topic.partition_result)
        ),
    )


def write_elect_leaders_response(value: ElectLeadersResponse, schema: Schema) -> Any:
    types = schema.types
    return make(
        types.ElectLeadersResponse,
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        replica_election_results=tuple(
            types.ReplicaElectionResult(
                topic=fitting(topic),
                partition_result=tuple(
                    types.PartitionResult(
                        partition_id=item.topic_partition.partition,
                        error_code=item.error,
                        error_message=fitting(item.message or None),
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, _topic).items()
        ),
    )


# ---------------------------------------------------------------- AlterPartitionReassignments


def read_alter_reassignments_request(
    entity: Any, _version: int
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        partitions=tuple(
            ReassignmentItem(TopicPartition(topic.name, item.partition_index), item.replicas)
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        ),
        timeout_ms=read_ms(entity.timeout),
    )


def write_alter_reassignments_request(
    value: AlterPartitionReassignmentsRequest, schema: Schema
) -> Any:
    types = schema.types
    return types.AlterPartitionReassignmentsRequest(
        timeout=write_ms(value.timeout_ms),
        topics=tuple(
            types.ReassignableTopic(
                name=topic,
                partitions=tuple(
                    types.ReassignablePartition(
                        partition_index=item.topic_partition.partition, replicas=item.replicas
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, _topic).items()
        ),
    )


def read_alter_reassignments_response(
    entity: Any, _request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error=read_error(entity.error_code),
        message=entity.error_message,
        partitions=tuple(
            PartitionResult(
                TopicPartition(topic.name, item.partition_index),
                read_error(item.error_code),
                item.error_message or "",
            )
            for topic in rows(entity.responses)
            for item in rows(topic.partitions)
        ),
    )


def write_alter_reassignments_response(
    value: AlterPartitionReassignmentsResponse, schema: Schema
) -> Any:
    types = schema.types
    return types.AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        error_message=fitting(value.message),
        responses=tuple(
            types.ReassignableTopicResponse(
                name=fitting(topic),
                partitions=tuple(
                    types.ReassignablePartitionResponse(
                        partition_index=item.topic_partition.partition,
                        error_code=item.error,
                        error_message=fitting(item.message or None),
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, _topic).items()
        ),
    )


# ---------------------------------------------------------------- ListPartitionReassignments


def read_list_reassignments_request(
    entity: Any, _version: int
) -> ListPartitionReassignmentsRequest:
    named = entity.topics
    return ListPartitionReassignmentsRequest(
        partitions=(
            None
            if named is None
            else tuple(
                TopicPartition(topic.name, number)
                for topic in named
                for number in rows(topic.partition_indexes)
            )
        ),
        timeout_ms=read_ms(entity.timeout),
    )


def write_list_reassignments_request(
    value: ListPartitionReassignmentsRequest, schema: Schema
) -> Any:
    types = schema.types
    return types.ListPartitionReassignmentsRequest(
        timeout=write_ms(value.timeout_ms),
        topics=(
            None
            if value.partitions is None
            else tuple(
                types.ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in _numbers_by_topic(value.partitions).items()
            )
        ),
    )


def read_list_reassignments_response(
    entity: Any, _request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error=read_error(entity.error_code),
        message=entity.error_message,
        partitions=tuple(
            OngoingReassignment(
                TopicPartition(topic.name, item.partition_index),
                rows(item.replicas),
                rows(item.adding_replicas),
                rows(item.removing_replicas),
            )
            for topic in rows(entity.topics)
            for item in rows(topic.partitions)
        ),
    )


def write_list_reassignments_response(
    value: ListPartitionReassignmentsResponse, schema: Schema
) -> Any:
    types = schema.types
    return types.ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        error_message=fitting(value.message),
        topics=tuple(
            types.OngoingTopicReassignment(
                name=fitting(topic),
                partitions=tuple(
                    types.OngoingPartitionReassignment(
                        partition_index=item.topic_partition.partition,
                        replicas=item.replicas,
                        adding_replicas=item.adding,
                        removing_replicas=item.removing,
                    )
                    for item in items
                ),
            )
            for topic, items in by_topic(value.partitions, _topic).items()
        ),
    )
