"""Converts clients' requests that brokers forward to the controller: core values to protobuf, back.

CreatePartitions, ElectLeaders, AlterReassignments, ListReassignments and AlterConfigs.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from highwater_core.admin_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfig,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
    ConfigResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListReassignmentsRequest,
    ListReassignmentsResponse,
    NewPartitions,
    OngoingReassignment,
    PartitionResult,
    ReassignmentItem,
)
from highwater_core.ids import TopicPartition
from highwater_wire.control_fields import (
    MalformedControlMessage,
    read_error,
    read_ids,
    read_partition,
    read_topic_result,
    require,
    write_partition,
    write_topic_result,
)
from highwater_wire.v1 import common_pb2
from highwater_wire.v1 import controller_control_pb2 as pb

Number = TypeVar("Number", bound=IntEnum)


def _read_number(kind: type[Number], number: int) -> Number:
    """Return the member of the enumeration that has the number."""
    try:
        return kind(number)
    except ValueError as error:
        raise MalformedControlMessage(f"{kind.__name__} {number}") from error


def _read_partitions(
    is_all: bool, partitions: Iterable[common_pb2.TopicPartition]
) -> tuple[TopicPartition, ...] | None:
    """Return the partitions that a request names, None where it means all."""
    named = tuple(read_partition(item) for item in partitions)
    require(not (is_all and named), "all partitions, and some of them named")
    return None if is_all else named


def _write_partitions(
    value: tuple[TopicPartition, ...] | None,
) -> list[common_pb2.TopicPartition]:
    return [write_partition(item) for item in value or ()]


def _read_results(results: Iterable[pb.PartitionResult]) -> tuple[PartitionResult, ...]:
    return tuple(
        PartitionResult(
            read_partition(result.topic_partition), read_error(result.error_code), result.message
        )
        for result in results
    )


def _write_results(value: Iterable[PartitionResult]) -> list[pb.PartitionResult]:
    return [
        pb.PartitionResult(
            topic_partition=write_partition(result.topic_partition),
            error_code=result.error,
            message=result.message,
        )
        for result in value
    ]


# ---------------------------------------------------------------- CreatePartitions


def write_create_partitions(value: CreatePartitionsRequest) -> pb.CreatePartitionsRequest:
    return pb.CreatePartitionsRequest(
        topics=[
            pb.NewPartitions(
                topic=item.topic,
                total_count=item.total_count,
                assignment=[pb.ReplicaList(replicas=replicas) for replicas in item.assignment],
            )
            for item in value.topics
        ],
        validate_only=value.validate_only,
        timeout_ms=value.timeout_ms,
    )


def read_create_partitions(message: pb.CreatePartitionsRequest) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=tuple(
            NewPartitions(
                topic=item.topic,
                total_count=item.total_count,
                assignment=tuple(read_ids(replicas.replicas) for replicas in item.assignment),
            )
            for item in message.topics
        ),
        validate_only=message.validate_only,
        timeout_ms=message.timeout_ms,
    )


def write_create_partitions_response(
    value: CreatePartitionsResponse,
) -> pb.CreatePartitionsResponse:
    return pb.CreatePartitionsResponse(
        error_code=value.error,
        results=[write_topic_result(result) for result in value.results],
    )


def read_create_partitions_response(
    message: pb.CreatePartitionsResponse,
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        error=read_error(message.error_code),
        results=tuple(read_topic_result(result) for result in message.results),
    )


# ---------------------------------------------------------------- ElectLeaders


def write_elect_leaders(value: ElectLeadersRequest) -> pb.ElectLeadersRequest:
    return pb.ElectLeadersRequest(
        election_type=value.election_type,
        all_partitions=value.partitions is None,
        partitions=_write_partitions(value.partitions),
        timeout_ms=value.timeout_ms,
    )


def read_elect_leaders(message: pb.ElectLeadersRequest) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        election_type=_read_number(ElectionType, message.election_type),
        partitions=_read_partitions(message.all_partitions, message.partitions),
        timeout_ms=message.timeout_ms,
    )


def write_elect_leaders_response(value: ElectLeadersResponse) -> pb.ElectLeadersResponse:
    return pb.ElectLeadersResponse(error_code=value.error, results=_write_results(value.results))


def read_elect_leaders_response(message: pb.ElectLeadersResponse) -> ElectLeadersResponse:
    return ElectLeadersResponse(read_error(message.error_code), _read_results(message.results))


# ---------------------------------------------------------------- reassignments


def write_alter_reassignments(value: AlterReassignmentsRequest) -> pb.AlterReassignmentsRequest:
    return pb.AlterReassignmentsRequest(
        partitions=[
            pb.ReassignmentItem(
                topic_partition=write_partition(item.topic_partition),
                is_cancelled=item.replicas is None,
                replicas=item.replicas or (),
            )
            for item in value.partitions
        ],
        timeout_ms=value.timeout_ms,
    )


def read_alter_reassignments(message: pb.AlterReassignmentsRequest) -> AlterReassignmentsRequest:
    return AlterReassignmentsRequest(
        partitions=tuple(_read_reassignment(item) for item in message.partitions),
        timeout_ms=message.timeout_ms,
    )


def _read_reassignment(message: pb.ReassignmentItem) -> ReassignmentItem:
    require(not (message.is_cancelled and message.replicas), "given up, and replicas named")
    return ReassignmentItem(
        topic_partition=read_partition(message.topic_partition),
        replicas=None if message.is_cancelled else read_ids(message.replicas),
    )


def write_alter_reassignments_response(
    value: AlterReassignmentsResponse,
) -> pb.AlterReassignmentsResponse:
    return pb.AlterReassignmentsResponse(
        error_code=value.error, results=_write_results(value.results)
    )


def read_alter_reassignments_response(
    message: pb.AlterReassignmentsResponse,
) -> AlterReassignmentsResponse:
    return AlterReassignmentsResponse(
        read_error(message.error_code), _read_results(message.results)
    )


def write_list_reassignments(value: ListReassignmentsRequest) -> pb.ListReassignmentsRequest:
    return pb.ListReassignmentsRequest(
        all_partitions=value.partitions is None,
        partitions=_write_partitions(value.partitions),
        timeout_ms=value.timeout_ms,
    )


def read_list_reassignments(message: pb.ListReassignmentsRequest) -> ListReassignmentsRequest:
    return ListReassignmentsRequest(
        partitions=_read_partitions(message.all_partitions, message.partitions),
        timeout_ms=message.timeout_ms,
    )


def write_list_reassignments_response(
    value: ListReassignmentsResponse,
) -> pb.ListReassignmentsResponse:
    return pb.ListReassignmentsResponse(
        error_code=value.error,
        reassignments=[
            pb.OngoingReassignment(
                topic_partition=write_partition(item.topic_partition),
                replicas=item.replicas,
                adding=item.adding,
                removing=item.removing,
            )
            for item in value.reassignments
        ],
    )


def read_list_reassignments_response(
    message: pb.ListReassignmentsResponse,
) -> ListReassignmentsResponse:
    return ListReassignmentsResponse(
        error=read_error(message.error_code),
        reassignments=tuple(
            OngoingReassignment(
                topic_partition=read_partition(item.topic_partition),
                replicas=read_ids(item.replicas),
                adding=read_ids(item.adding),
                removing=read_ids(item.removing),
            )
            for item in message.reassignments
        ),
    )


# ---------------------------------------------------------------- AlterConfigs


def write_alter_configs(value: AlterConfigsRequest) -> pb.AlterConfigsRequest:
    return pb.AlterConfigsRequest(
        configs=[_write_altered(item) for item in value.configs],
        validate_only=value.validate_only,
        timeout_ms=value.timeout_ms,
    )


def read_alter_configs(message: pb.AlterConfigsRequest) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        configs=tuple(_read_altered(item) for item in message.configs),
        validate_only=message.validate_only,
        timeout_ms=message.timeout_ms,
    )


def _write_altered(value: AlteredConfig) -> pb.AlteredConfig:
    return pb.AlteredConfig(
        entity=value.entity,
        name=value.name,
        changes=[
            pb.ConfigChange(name=change.name, operation=change.operation, value=change.value)
            for change in value.changes
        ],
        replaces_all=value.replaces_all,
    )


def _read_altered(message: pb.AlteredConfig) -> AlteredConfig:
    return AlteredConfig(
        entity=_read_number(ConfigEntity, message.entity),
        name=message.name,
        changes=tuple(
            ConfigChange(
                name=change.name,
                operation=_read_number(ConfigOperation, change.operation),
                value=change.value,
            )
            for change in message.changes
        ),
        replaces_all=message.replaces_all,
    )


def write_alter_configs_response(value: AlterConfigsResponse) -> pb.AlterConfigsResponse:
    return pb.AlterConfigsResponse(
        error_code=value.error,
        results=[
            pb.ConfigResult(
                entity=result.entity,
                name=result.name,
                error_code=result.error,
                message=result.message,
            )
            for result in value.results
        ],
    )


def read_alter_configs_response(message: pb.AlterConfigsResponse) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        error=read_error(message.error_code),
        results=tuple(
            ConfigResult(
                entity=_read_number(ConfigEntity, result.entity),
                name=result.name,
                error=read_error(result.error_code),
                message=result.message,
            )
            for result in message.results
        ),
    )
