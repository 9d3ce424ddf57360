"""Converts the requests of ControllerControl and their answers: core values to protobuf, back."""

from __future__ import annotations

from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
)
from highwater_core.messages import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    IsrMember,
    NewTopic,
)
from highwater_wire.control_fields import (
    read_error,
    read_ids,
    read_partition,
    read_topic_result,
    write_partition,
    write_topic_result,
)
from highwater_wire.v1 import controller_control_pb2 as pb

# ---------------------------------------------------------------- CreateTopics


def write_create_topics(value: CreateTopicsRequest) -> pb.CreateTopicsRequest:
    return pb.CreateTopicsRequest(
        topics=[_write_new_topic(topic) for topic in value.topics],
        validate_only=value.validate_only,
        timeout_ms=value.timeout_ms,
    )


def read_create_topics(message: pb.CreateTopicsRequest) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(_read_new_topic(topic) for topic in message.topics),
        validate_only=message.validate_only,
        timeout_ms=message.timeout_ms,
    )


def _write_new_topic(value: NewTopic) -> pb.NewTopic:
    return pb.NewTopic(
        name=value.name,
        partition_count=value.partition_count,
        replication_factor=value.replication_factor,
        assignment=[pb.ReplicaList(replicas=replicas) for replicas in value.assignment],
        config=[pb.ConfigItem(name=name, value=text) for name, text in value.config],
    )


def _read_new_topic(message: pb.NewTopic) -> NewTopic:
    return NewTopic(
        name=message.name,
        partition_count=message.partition_count,
        replication_factor=message.replication_factor,
        assignment=tuple(read_ids(item.replicas) for item in message.assignment),
        config=tuple((item.name, item.value) for item in message.config),
    )


def write_create_topics_response(value: CreateTopicsResponse) -> pb.CreateTopicsResponse:
    return pb.CreateTopicsResponse(
        error_code=value.error,
        results=[write_topic_result(result) for result in value.results],
    )


def read_create_topics_response(message: pb.CreateTopicsResponse) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        error=read_error(message.error_code),
        results=tuple(read_topic_result(result) for result in message.results),
    )


# ---------------------------------------------------------------- DeleteTopics


def write_delete_topics(value: DeleteTopicsRequest) -> pb.DeleteTopicsRequest:
    return pb.DeleteTopicsRequest(names=value.names, timeout_ms=value.timeout_ms)


def read_delete_topics(message: pb.DeleteTopicsRequest) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(names=tuple(message.names), timeout_ms=message.timeout_ms)


def write_delete_topics_response(value: DeleteTopicsResponse) -> pb.DeleteTopicsResponse:
    return pb.DeleteTopicsResponse(
        error_code=value.error,
        results=[write_topic_result(result) for result in value.results],
    )


def read_delete_topics_response(message: pb.DeleteTopicsResponse) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        error=read_error(message.error_code),
        results=tuple(read_topic_result(result) for result in message.results),
    )


# ---------------------------------------------------------------- ControlledShutdown


def write_controlled_shutdown(value: ControlledShutdownRequest) -> pb.ControlledShutdownRequest:
    return pb.ControlledShutdownRequest(
        broker_id=value.broker_id,
        broker_epoch=value.broker_epoch,
        controller_epoch=value.controller_epoch,
    )


def read_controlled_shutdown(message: pb.ControlledShutdownRequest) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(
        broker_id=NodeId(message.broker_id),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        controller_epoch=ControllerEpoch(message.controller_epoch),
    )


def write_controlled_shutdown_response(
    value: ControlledShutdownResponse,
) -> pb.ControlledShutdownResponse:
    return pb.ControlledShutdownResponse(
        error_code=value.error,
        remaining=[write_partition(partition) for partition in value.remaining],
    )


def read_controlled_shutdown_response(
    message: pb.ControlledShutdownResponse,
) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(
        error=read_error(message.error_code),
        remaining=tuple(read_partition(partition) for partition in message.remaining),
    )


# ---------------------------------------------------------------- AlterPartition


def write_alter_partition(value: AlterPartitionRequest) -> pb.AlterPartitionRequest:
    return pb.AlterPartitionRequest(
        broker_id=value.broker_id,
        broker_epoch=value.broker_epoch,
        partitions=[_write_alter_item(item) for item in value.partitions],
        controller_epoch=value.controller_epoch,
    )


def read_alter_partition(message: pb.AlterPartitionRequest) -> AlterPartitionRequest:
    return AlterPartitionRequest(
        broker_id=NodeId(message.broker_id),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        partitions=tuple(_read_alter_item(item) for item in message.partitions),
        controller_epoch=ControllerEpoch(message.controller_epoch),
    )


def _write_alter_item(value: AlterPartitionItem) -> pb.AlterPartitionItem:
    return pb.AlterPartitionItem(
        topic_partition=write_partition(value.topic_partition),
        leader_epoch=value.leader_epoch,
        new_isr=[
            pb.IsrMember(broker_id=member.broker_id, broker_epoch=member.broker_epoch)
            for member in value.new_isr
        ],
        partition_epoch=value.partition_epoch,
        topic_id=value.topic_id,
    )


def _read_alter_item(message: pb.AlterPartitionItem) -> AlterPartitionItem:
    return AlterPartitionItem(
        topic_partition=read_partition(message.topic_partition),
        leader_epoch=LeaderEpoch(message.leader_epoch),
        new_isr=tuple(
            IsrMember(NodeId(member.broker_id), BrokerEpoch(member.broker_epoch))
            for member in message.new_isr
        ),
        partition_epoch=PartitionEpoch(message.partition_epoch),
        topic_id=TopicId(message.topic_id),
    )


def write_alter_partition_response(value: AlterPartitionResponse) -> pb.AlterPartitionResponse:
    return pb.AlterPartitionResponse(
        error_code=value.error,
        results=[
            pb.AlterPartitionResult(
                topic_partition=write_partition(result.topic_partition),
                error_code=result.error,
                leader=result.leader,
                leader_epoch=result.leader_epoch,
                isr=result.isr,
                partition_epoch=result.partition_epoch,
                elr=result.elr,
            )
            for result in value.results
        ],
    )


def read_alter_partition_response(message: pb.AlterPartitionResponse) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        error=read_error(message.error_code),
        results=tuple(
            AlterPartitionResult(
                topic_partition=read_partition(result.topic_partition),
                error=read_error(result.error_code),
                leader=NodeId(result.leader),
                leader_epoch=LeaderEpoch(result.leader_epoch),
                isr=read_ids(result.isr),
                partition_epoch=PartitionEpoch(result.partition_epoch),
                elr=read_ids(result.elr),
            )
            for result in message.results
        ),
    )
