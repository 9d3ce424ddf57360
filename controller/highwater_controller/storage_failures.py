"""Replicas that their brokers' disks refuse lose the lead and leave the ISR.

A live broker reports them by KAFKA_STORAGE_ERROR in its answer to LeaderAndIsr. It gets this
command when a controller becomes active, and when it has announced a change of its log folders by
an event in /log_dir_event_notification. The report is valid until the end of the broker's
registration, or of the term.
Source: KIP-112; Kafka's KafkaController (onReplicasBecomeOffline, onBrokerLogDirFailure).
Deviation: a replica that is accepted again is online again, and partitions without a leader are
elected; Kafka waits for the broker's restart.
"""

from __future__ import annotations

from highwater_controller.context import ControllerContext, Replica
from highwater_controller.logic.disk_answers import DiskAnswer, read_answer
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.partition_state_machine import elect_leaders_where_none, move_partitions
from highwater_controller.reassignment import advance_reassignments
from highwater_controller.replica_state_machine import move_replicas
from highwater_controller.request_batch import RequestBatch
from highwater_controller.state_reader import report_malformed
from highwater_controller.term import Term
from highwater_core import znodes
from highwater_core.events import EventKind
from highwater_core.ids import NO_BROKER_EPOCH, NodeId
from highwater_core.messages import CommandResponse, LeaderAndIsrRequest
from highwater_core.znodes import MalformedZnode

_STARTED = (ReplicaState.NEW, ReplicaState.ONLINE)
_COMMANDED = (ReplicaState.ONLINE, ReplicaState.OFFLINE)


def tells_of_disks(
    context: ControllerContext, broker_id: NodeId, response: CommandResponse
) -> bool:
    """Return whether the broker's answer to LeaderAndIsr has changes of its disks."""
    return bool(_read(context, broker_id, response))


async def on_leader_and_isr_answered(
    term: Term, broker_id: NodeId, request: LeaderAndIsrRequest, response: CommandResponse
) -> None:
    """Take replicas offline that the disk refuses, and those online that it accepts again.

    Answers of an earlier registration, or about a deleted topic, are ignored. Topics that are being
    deleted are left to their deletion, whose commands the disk refuses too.
    Ordering: refused replicas Offline, out of the ISRs and without the lead -> accepted ones Online
    -> leaders elected where there is none -> reassignments advanced.
    Source: KIP-112; Kafka's KafkaController.processLeaderAndIsrResponseReceived.
    """
    context = term.context
    if request.broker_epoch not in (NO_BROKER_EPOCH, context.broker_epoch(broker_id)):
        return
    meant = {
        item.topic_partition
        for item in request.partitions
        if not item.topic_id or item.topic_id == context.topic_id(item.topic_partition.topic)
    }
    answer = _read(context, broker_id, response)
    accepted = [Replica(at, broker_id) for at in answer.accepted]
    refused = [
        Replica(at, broker_id)
        for at in answer.refused
        if at in meant
        and broker_id in context.assignments.get(at, ())
        and broker_id in context.live_brokers
    ]
    context.failed_replicas.difference_update(accepted)
    context.failed_replicas.update(refused)
    await _take_offline(term, broker_id, [each for each in refused if _is_to_stay(term, each)])
    await _take_online(term, [each for each in accepted if _is_to_stay(term, each)])
    await advance_reassignments(term, sorted(each.topic_partition for each in refused + accepted))


async def on_log_folder_events(term: Term) -> None:
    """Send LeaderAndIsr again to brokers whose log folders changed; their answers report replicas.

    Ordering: announcements read, and watched -> LeaderAndIsr for the replicas that these brokers
    have -> announcements deleted: a controller that dies before leaves them.
    Source: KIP-112; Kafka's KafkaController.processLogDirEventNotification.
    """
    paths = await _events(term)
    announced: dict[NodeId, None] = {}
    for path in paths:
        read = await term.store.get(path)
        if read is None:
            continue
        try:
            event = znodes.decode(znodes.LogDirEventZnode, read[0], path)
        except MalformedZnode as fault:
            report_malformed(term, path, fault)
            continue
        announced[NodeId(event.broker)] = None
    brokers = [each for each in announced if each in term.context.electable()]
    if brokers:
        term.emit(EventKind.LOG_FOLDERS_CHANGED, brokers=brokers)
    replicas = [
        each
        for each in term.context.replicas_on(brokers)
        if term.context.replica_state(each) in _COMMANDED and _is_to_stay(term, each)
    ]
    await move_replicas(term, replicas, ReplicaState.ONLINE)
    for path in paths:
        await term.store.delete(path)


async def delete_log_folder_events(term: Term) -> None:
    """Delete the announcements, since all brokers get commands next, and watch for more."""
    for path in await _events(term):
        await term.store.delete(path)


async def _take_offline(term: Term, broker_id: NodeId, refused: list[Replica]) -> None:
    """Elect others for the broker's partitions, then remove its replicas from the ISRs."""
    context = term.context
    started = [each for each in refused if context.replica_state(each) in _STARTED]
    if not started:
        return
    term.emit(
        EventKind.REPLICAS_FAILED,
        broker=broker_id,
        partitions=[str(each.topic_partition) for each in started],
    )
    led = [
        each.topic_partition
        for each in started
        if context.leader_of(each.topic_partition) == broker_id
    ]
    await move_partitions(term, led, PartitionState.OFFLINE)
    await move_partitions(term, led, PartitionState.ONLINE)
    await move_replicas(term, started, ReplicaState.OFFLINE)
    batch = RequestBatch(term)
    batch.add_update_metadata(context.live_brokers, [each.topic_partition for each in started])
    batch.send()


async def _take_online(term: Term, accepted: list[Replica]) -> None:
    context = term.context
    if not accepted:
        return
    stopped = [each for each in accepted if context.replica_state(each) is ReplicaState.OFFLINE]
    await move_replicas(term, stopped, ReplicaState.ONLINE)
    await elect_leaders_where_none(term)
    batch = RequestBatch(term)
    batch.add_update_metadata(context.live_brokers, [each.topic_partition for each in accepted])
    batch.send()


def _read(context: ControllerContext, broker_id: NodeId, response: CommandResponse) -> DiskAnswer:
    before = {
        each.topic_partition for each in context.failed_replicas if each.broker_id == broker_id
    }
    return read_answer(response.partition_errors, before)


def _is_to_stay(term: Term, replica: Replica) -> bool:
    return not term.context.is_to_be_deleted(replica.topic_partition.topic)


async def _events(term: Term) -> list[str]:
    names = await term.store.children(znodes.LOG_DIR_EVENT_NOTIFICATION, watch=True)
    return [f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{name}" for name in names]
