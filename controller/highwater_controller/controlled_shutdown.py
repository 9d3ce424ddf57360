"""ControlledShutdown: moves leadership off a broker before it stops.

Source: docs/explanation/replication.md, "Flows"; Kafka's KafkaController.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_controller.alter_partition import is_stale_broker
from highwater_controller.context import ControllerContext, Replica
from highwater_controller.logic.leader_selectors import Selector
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.partition_state_machine import move_partitions
from highwater_controller.replica_state_machine import move_replicas
from highwater_controller.term import Term
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import ControlledShutdownRequest, ControlledShutdownResponse


async def on_controlled_shutdown(
    term: Term, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Elect others for the broker's leaderships, stop its followers; return what it still leads.

    Partitions with one replica are not counted: no other broker can lead them.
    Ordering: the broker can no longer be elected -> partitions that it leads Online under another
    leader -> replicas that follow Offline, out of the ISRs -> answered.
    """
    context = term.context
    broker = request.broker_id
    if broker not in context.live_brokers:
        return ControlledShutdownResponse(ErrorCode.BROKER_NOT_AVAILABLE)
    if is_stale_broker(term, broker, request.broker_epoch):
        return ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)
    term.emit(EventKind.SHUTDOWN_BEGUN, broker=broker, broker_epoch=request.broker_epoch)
    context.shutting_down.add(broker)
    shared = [
        partition
        for partition in context.partitions_on(broker)
        if len(context.assignments[partition]) > 1
        and partition in context.leaderships
        and not context.is_to_be_deleted(partition.topic)
    ]
    led = online_leads(context, shared, broker)
    await move_partitions(term, led, PartitionState.ONLINE, Selector.CONTROLLED_SHUTDOWN)
    followed = [partition for partition in shared if partition not in led]
    await move_replicas(
        term, [Replica(partition, broker) for partition in followed], ReplicaState.OFFLINE
    )
    await term.fail_points.reach(FailPoint.BEFORE_CONTROLLED_SHUTDOWN_REPLY)
    return ControlledShutdownResponse(ErrorCode.NONE, _still_led(term, led, broker))


def online_leads(
    context: ControllerContext, partitions: Iterable[TopicPartition], broker: NodeId
) -> list[TopicPartition]:
    """Return those of the partitions that the broker leads, and that have a leader."""
    return [
        partition
        for partition in partitions
        if context.leader_of(partition) == broker
        and context.partition_state(partition) is PartitionState.ONLINE
    ]


def _still_led(term: Term, led: list[TopicPartition], broker: int) -> tuple[TopicPartition, ...]:
    return tuple(partition for partition in led if term.context.leader_of(partition) == broker)
