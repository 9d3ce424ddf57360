"""Converts the commands of BrokerControl: core values to protobuf and back.

Source: V3 design, whose request_type_id and version_id get their numbers here.
"""

from __future__ import annotations

from typing import Protocol

from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
)
from highwater_core.messages import (
    CONTROL_PROTOCOL_VERSION,
    CommandResponse,
    HoldRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    PartitionMetadata,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from highwater_wire.control_fields import (
    read_broker,
    read_error,
    read_ids,
    read_partition,
    require,
    write_broker,
    write_partition,
)
from highwater_wire.v1 import broker_control_pb2 as pb

LEADER_AND_ISR_TYPE = 4
STOP_REPLICA_TYPE = 5
UPDATE_METADATA_TYPE = 6
"""V3's request_type_id; V3 gives no numbers, these are Kafka's API keys."""


class _CommandHeader(Protocol):
    @property
    def request_type_id(self) -> int: ...
    @property
    def version_id(self) -> int: ...


def _check_header(message: _CommandHeader, request_type_id: int) -> None:
    require(
        message.request_type_id == request_type_id,
        f"request_type_id {message.request_type_id} instead of {request_type_id}",
    )
    _check_version(message.version_id)


def _check_version(version_id: int) -> None:
    require(
        version_id == CONTROL_PROTOCOL_VERSION,
        f"version_id {version_id} instead of {CONTROL_PROTOCOL_VERSION}",
    )


# ---------------------------------------------------------------- LeaderAndIsr


def write_leader_and_isr(value: LeaderAndIsrRequest) -> pb.LeaderAndIsrRequest:
    return pb.LeaderAndIsrRequest(
        request_type_id=LEADER_AND_ISR_TYPE,
        version_id=CONTROL_PROTOCOL_VERSION,
        client_id=value.controller_id,
        ack_timeout_ms=value.ack_timeout_ms,
        is_init=value.is_init,
        partitions=[_write_leader_and_isr_partition(item) for item in value.partitions],
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        live_leaders=[write_broker(broker) for broker in value.live_leaders],
        correlation_id=value.correlation_id,
    )


def read_leader_and_isr(message: pb.LeaderAndIsrRequest) -> LeaderAndIsrRequest:
    _check_header(message, LEADER_AND_ISR_TYPE)
    return LeaderAndIsrRequest(
        controller_id=NodeId(message.client_id),
        controller_epoch=ControllerEpoch(message.controller_epoch),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        is_init=message.is_init,
        partitions=tuple(_read_leader_and_isr_partition(item) for item in message.partitions),
        live_leaders=tuple(read_broker(broker) for broker in message.live_leaders),
        ack_timeout_ms=message.ack_timeout_ms,
        correlation_id=message.correlation_id,
    )


def _write_leader_and_isr_partition(value: LeaderAndIsrPartition) -> pb.LeaderAndIsrPartition:
    return pb.LeaderAndIsrPartition(
        topic_partition=write_partition(value.topic_partition),
        leader=value.leader,
        leader_epoch=value.leader_epoch,
        isr=value.isr,
        zk_version=value.partition_epoch,
        assigned_replicas=value.assigned_replicas,
        is_new=value.is_new,
        topic_id=value.topic_id,
        elr=value.elr,
    )


def _read_leader_and_isr_partition(message: pb.LeaderAndIsrPartition) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        topic_partition=read_partition(message.topic_partition),
        leader=NodeId(message.leader),
        leader_epoch=LeaderEpoch(message.leader_epoch),
        isr=read_ids(message.isr),
        partition_epoch=PartitionEpoch(message.zk_version),
        assigned_replicas=read_ids(message.assigned_replicas),
        is_new=message.is_new,
        topic_id=TopicId(message.topic_id),
        elr=read_ids(message.elr),
    )


# ---------------------------------------------------------------- StopReplica


def write_stop_replica(value: StopReplicaRequest) -> pb.StopReplicaRequest:
    return pb.StopReplicaRequest(
        request_type_id=STOP_REPLICA_TYPE,
        version_id=CONTROL_PROTOCOL_VERSION,
        client_id=value.controller_id,
        ack_timeout_ms=value.ack_timeout_ms,
        partitions=[
            pb.StopReplicaPartition(
                topic_partition=write_partition(item.topic_partition),
                delete_partition=item.delete_partition,
                leader_epoch=item.leader_epoch,
                topic_id=item.topic_id,
            )
            for item in value.partitions
        ],
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        correlation_id=value.correlation_id,
    )


def read_stop_replica(message: pb.StopReplicaRequest) -> StopReplicaRequest:
    _check_header(message, STOP_REPLICA_TYPE)
    return StopReplicaRequest(
        controller_id=NodeId(message.client_id),
        controller_epoch=ControllerEpoch(message.controller_epoch),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        partitions=tuple(
            StopReplicaPartition(
                topic_partition=read_partition(item.topic_partition),
                delete_partition=item.delete_partition,
                leader_epoch=LeaderEpoch(item.leader_epoch),
                topic_id=TopicId(item.topic_id),
            )
            for item in message.partitions
        ),
        ack_timeout_ms=message.ack_timeout_ms,
        correlation_id=message.correlation_id,
    )


# ---------------------------------------------------------------- Hold


def write_hold(value: HoldRequest) -> pb.HoldRequest:
    return pb.HoldRequest(hold_ms=value.hold_ms)


def read_hold(message: pb.HoldRequest) -> HoldRequest:
    require(message.hold_ms >= 0, f"hold_ms {message.hold_ms}")
    return HoldRequest(message.hold_ms)


# ---------------------------------------------------------------- UpdateMetadata


def write_update_metadata(value: UpdateMetadataRequest) -> pb.UpdateMetadataRequest:
    return pb.UpdateMetadataRequest(
        request_type_id=UPDATE_METADATA_TYPE,
        version_id=CONTROL_PROTOCOL_VERSION,
        client_id=value.controller_id,
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        live_brokers=[write_broker(broker) for broker in value.live_brokers],
        partitions=[_write_partition_metadata(item) for item in value.partitions],
        correlation_id=value.correlation_id,
        is_full=value.is_full,
    )


def read_update_metadata(message: pb.UpdateMetadataRequest) -> UpdateMetadataRequest:
    _check_header(message, UPDATE_METADATA_TYPE)
    return UpdateMetadataRequest(
        controller_id=NodeId(message.client_id),
        controller_epoch=ControllerEpoch(message.controller_epoch),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        live_brokers=tuple(read_broker(broker) for broker in message.live_brokers),
        partitions=tuple(_read_partition_metadata(item) for item in message.partitions),
        correlation_id=message.correlation_id,
        is_full=message.is_full,
    )


def _write_partition_metadata(value: PartitionMetadata) -> pb.PartitionMetadata:
    return pb.PartitionMetadata(
        topic_partition=write_partition(value.topic_partition),
        leader=value.leader,
        leader_epoch=value.leader_epoch,
        isr=value.isr,
        zk_version=value.partition_epoch,
        assigned_replicas=value.assigned_replicas,
        topic_id=value.topic_id,
        failed_replicas=value.failed_replicas,
    )


def _read_partition_metadata(message: pb.PartitionMetadata) -> PartitionMetadata:
    return PartitionMetadata(
        topic_partition=read_partition(message.topic_partition),
        leader=NodeId(message.leader),
        leader_epoch=LeaderEpoch(message.leader_epoch),
        isr=read_ids(message.isr),
        assigned_replicas=read_ids(message.assigned_replicas),
        partition_epoch=PartitionEpoch(message.zk_version),
        topic_id=TopicId(message.topic_id),
        failed_replicas=read_ids(message.failed_replicas),
    )


# ---------------------------------------------------------------- the answer to each


def write_command_response(value: CommandResponse) -> pb.CommandResponse:
    return pb.CommandResponse(
        version_id=CONTROL_PROTOCOL_VERSION,
        partition_errors=[
            pb.PartitionError(topic_partition=write_partition(partition), error_code=error)
            for partition, error in value.partition_errors
        ],
        error_code=value.error,
    )


def read_command_response(message: pb.CommandResponse) -> CommandResponse:
    _check_version(message.version_id)
    return CommandResponse(
        error=read_error(message.error_code),
        partition_errors=tuple(
            (read_partition(item.topic_partition), read_error(item.error_code))
            for item in message.partition_errors
        ),
    )
