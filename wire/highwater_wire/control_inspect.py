"""Converts the messages of Inspect: core values to protobuf and back."""

from __future__ import annotations

from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
)
from highwater_core.messages import (
    FailPointAction,
    FollowerView,
    InspectRequest,
    NodeSnapshot,
    ReplicaSnapshot,
    SetFailPointRequest,
    SetFailPointResponse,
    TaskSnapshot,
    UnansweredCommand,
)
from highwater_wire.control_fields import (
    read_error,
    read_ids,
    read_partition,
    require,
    write_partition,
)
from highwater_wire.v1 import inspect_pb2 as pb

# ---------------------------------------------------------------- Snapshot


def write_inspect(_value: InspectRequest) -> pb.InspectRequest:
    return pb.InspectRequest()


def read_inspect(_message: pb.InspectRequest) -> InspectRequest:
    return InspectRequest()


def write_snapshot(value: NodeSnapshot) -> pb.NodeSnapshot:
    return pb.NodeSnapshot(
        node_id=value.node_id,
        kind=value.kind,
        incarnation=value.incarnation,
        preset=value.preset,
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        active_controller=value.active_controller,
        controller_id=value.controller_id,
        live_brokers=value.live_brokers,
        replicas=[_write_replica(replica) for replica in value.replicas],
        tasks=[pb.TaskSnapshot(name=task.name, count=task.count) for task in value.tasks],
        resident_bytes=value.resident_bytes,
        counters=[pb.Counter(name=name, value=number) for name, number in value.counters],
        unanswered_commands=[
            pb.UnansweredCommand(
                broker_id=command.broker_id,
                request=command.request,
                waiting_ms=command.waiting_ms,
            )
            for command in value.unanswered_commands
        ],
        build=value.build,
    )


def read_snapshot(message: pb.NodeSnapshot) -> NodeSnapshot:
    return NodeSnapshot(
        node_id=NodeId(message.node_id),
        kind=message.kind,
        incarnation=message.incarnation,
        preset=message.preset,
        controller_epoch=ControllerEpoch(message.controller_epoch),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        active_controller=message.active_controller,
        controller_id=NodeId(message.controller_id),
        live_brokers=read_ids(message.live_brokers),
        replicas=tuple(_read_replica(replica) for replica in message.replicas),
        tasks=tuple(TaskSnapshot(task.name, task.count) for task in message.tasks),
        resident_bytes=message.resident_bytes,
        counters=tuple((counter.name, counter.value) for counter in message.counters),
        unanswered_commands=tuple(
            UnansweredCommand(NodeId(command.broker_id), command.request, command.waiting_ms)
            for command in message.unanswered_commands
        ),
        build=message.build,
    )


def _write_replica(value: ReplicaSnapshot) -> pb.ReplicaSnapshot:
    return pb.ReplicaSnapshot(
        topic_partition=write_partition(value.topic_partition),
        role=value.role,
        leader=value.leader,
        leader_epoch=value.leader_epoch,
        controller_epoch=value.controller_epoch,
        partition_epoch=value.partition_epoch,
        high_watermark=value.high_watermark,
        log_start_offset=value.log_start_offset,
        log_end_offset=value.log_end_offset,
        isr=value.isr,
        assigned_replicas=value.assigned_replicas,
        followers=[
            pb.FollowerView(
                broker_id=follower.broker_id,
                log_end_offset=follower.log_end_offset,
                last_caught_up_ms=follower.last_caught_up_ms,
            )
            for follower in value.followers
        ],
        epoch_cache=[
            pb.EpochEntry(leader_epoch=epoch, start_offset=offset)
            for epoch, offset in value.epoch_cache
        ],
        topic_id=value.topic_id,
    )


def _read_replica(message: pb.ReplicaSnapshot) -> ReplicaSnapshot:
    return ReplicaSnapshot(
        topic_partition=read_partition(message.topic_partition),
        role=message.role,
        leader=NodeId(message.leader),
        leader_epoch=LeaderEpoch(message.leader_epoch),
        controller_epoch=ControllerEpoch(message.controller_epoch),
        partition_epoch=PartitionEpoch(message.partition_epoch),
        high_watermark=Offset(message.high_watermark),
        log_start_offset=Offset(message.log_start_offset),
        log_end_offset=Offset(message.log_end_offset),
        isr=read_ids(message.isr),
        assigned_replicas=read_ids(message.assigned_replicas),
        followers=tuple(
            FollowerView(
                broker_id=NodeId(follower.broker_id),
                log_end_offset=Offset(follower.log_end_offset),
                last_caught_up_ms=follower.last_caught_up_ms,
            )
            for follower in message.followers
        ),
        epoch_cache=tuple(
            (LeaderEpoch(entry.leader_epoch), Offset(entry.start_offset))
            for entry in message.epoch_cache
        ),
        topic_id=TopicId(message.topic_id),
    )


# ---------------------------------------------------------------- SetFailPoint

_ACTION_NUMBERS: dict[FailPointAction, pb.FailPointAction.ValueType] = {
    FailPointAction.OFF: pb.FAIL_POINT_ACTION_OFF,
    FailPointAction.DELAY: pb.FAIL_POINT_ACTION_DELAY,
    FailPointAction.EXIT: pb.FAIL_POINT_ACTION_EXIT,
}
_ACTIONS = {int(number): action for action, number in _ACTION_NUMBERS.items()}


def write_set_fail_point(value: SetFailPointRequest) -> pb.SetFailPointRequest:
    return pb.SetFailPointRequest(
        name=value.name,
        action=_ACTION_NUMBERS[value.action],
        count=value.count,
        delay_ms=value.delay_ms,
    )


def read_set_fail_point(message: pb.SetFailPointRequest) -> SetFailPointRequest:
    require(message.action in _ACTIONS, f"no fail-point action {message.action}")
    return SetFailPointRequest(
        name=message.name,
        action=_ACTIONS[message.action],
        count=message.count,
        delay_ms=message.delay_ms,
    )


def write_set_fail_point_response(value: SetFailPointResponse) -> pb.SetFailPointResponse:
    return pb.SetFailPointResponse(error_code=value.error)


def read_set_fail_point_response(message: pb.SetFailPointResponse) -> SetFailPointResponse:
    return SetFailPointResponse(error=read_error(message.error_code))
