"""One session's controller: stands for election and, while active, handles one event at a time.

ZooKeeper's watches and brokers' requests only enqueue. An error of ZooKeeper in the middle of an
event ends the term (KAFKA-2300): the next one starts from ZooKeeper's state. An operation that
fails again and again also ends the session, so that another controller has its turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_controller.admin_znodes import forget_ended_reassignments
from highwater_controller.alter_partition import on_alter_partition
from highwater_controller.broker_changes import on_brokers_changed
from highwater_controller.broker_channels import BrokerChannels
from highwater_controller.chunks import next_step
from highwater_controller.config_changes import CHECK_INTERVAL_MS, on_config_changes
from highwater_controller.context import ControllerContext
from highwater_controller.controlled_shutdown import on_controlled_shutdown
from highwater_controller.controller_events import (
    BrokersChanged,
    BrokerSuspected,
    ConfigsChanged,
    ControllerEvent,
    ControllerZnodeChanged,
    DeletionsRequested,
    EndedReassignmentsDue,
    IsrChangesNotified,
    JobsDue,
    LeaderAndIsrAnswered,
    LogFolderEventsNotified,
    PartitionStateChanged,
    PreferredElectionsWritten,
    ReassignmentsAdvanced,
    ReassignmentsWritten,
    RebalanceDue,
    RefusedDeletionsDue,
    RequestReceived,
    StopReplicaAnswered,
    TopicsChanged,
    TopicZnodeChanged,
)
from highwater_controller.election import Election, Won
from highwater_controller.event_queue import EventQueue
from highwater_controller.failover import fail_over
from highwater_controller.isr_notifications import on_isr_changes_notified
from highwater_controller.leader_elections import WrittenElections, rebalance_leaders
from highwater_controller.patience import GaveUp
from highwater_controller.reassignment import advance_reassignments
from highwater_controller.reassignment_requests import WrittenReassignments, list_reassignments
from highwater_controller.settings import ControllerSettings
from highwater_controller.storage_failures import (
    on_leader_and_isr_answered,
    on_log_folder_events,
    tells_of_disks,
)
from highwater_controller.store import ControllerStore, TermEpoch, TermOver
from highwater_controller.suspicion import on_broker_suspected
from highwater_controller.term import Term
from highwater_controller.topic_changes import (
    on_partition_state_repaired,
    on_topic_znodes_changed,
    on_topics_changed,
)
from highwater_controller.topic_deletion import (
    on_deletions_requested,
    on_stop_replica_answered,
    retry_refused,
)
from highwater_controller.topic_waits import TopicWaits
from highwater_controller.waiting_jobs import WaitingJobs, Work, is_stepwise
from highwater_core.admin_messages import ListReassignmentsRequest
from highwater_core.config import Toggles
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoints
from highwater_core.ids import NO_LEADER, NodeId, TopicPartition
from highwater_core.messages import (
    AlterPartitionRequest,
    BrokerCommand,
    BrokerEndpoints,
    CommandResponse,
    ControlledShutdownRequest,
    ControllerCommand,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    refusal,
)
from highwater_core.ports import Coordination, CoordinationError, Ports, SessionExpired

FORGET_DELAY_MS = 100
"""How long a completed job stays in /admin/reassign_partitions: a large znode is written seldom."""


class Controller:
    """Lives as long as its ZooKeeper session; `term` is set while it is the active controller."""

    def __init__(
        self,
        settings: ControllerSettings,
        toggles: Toggles,
        ports: Ports,
        session: Coordination,
        fail_points: FailPoints,
    ) -> None:
        self._settings = settings
        self._toggles = toggles
        self._ports = ports
        self._session = session
        self._fail_points = fail_points
        self._events = EventQueue(ports.runtime)
        self._jobs = WaitingJobs()
        self._in_work: RequestReceived | None = None
        self._timers = ports.runtime.scope("controller-timers")
        self._repeating = ports.runtime.scope("controller-repeating")
        self._election = Election(
            settings.node_id,
            session,
            ports.runtime,
            ports.trace,
            settings.command_retry_ms,
            settings.zookeeper_give_up_ms,
        )
        self.term: Term | None = None
        self.active_id: NodeId = NO_LEADER
        """The active controller as far as this one knows."""

    @property
    def queue_depth(self) -> int:
        return len(self._events) + len(self._jobs)

    @property
    def event_counters(self) -> tuple[tuple[str, int], ...]:
        """Number of events handled in this session, and their waiting and handling times."""
        return self._events.counters()

    def enqueue(self, event: ControllerEvent) -> None:
        """Enqueue an event; a request is refused at once while this controller is not active.

        So is that of a broker which obeys a later one: this controller's term is over, though it
        has not learned it yet.
        """
        if not isinstance(event, RequestReceived):
            self._events.put(event)
        elif self.term is None or _knows_later(event.request, self.term.epoch):
            event.reply.set(refusal(event.request, ErrorCode.NOT_CONTROLLER))
        elif is_stepwise(event.request):
            if not self._jobs:
                self._events.put(JobsDue())
            self._jobs.take_request(event)
        else:
            self._events.put(event)

    async def run(self) -> None:
        """Stand for election and handle events until the session is over.

        Raises:
            GaveUp: an operation fails again and again, and the session must be closed.
        """
        self._events.put(ControllerZnodeChanged())
        while True:
            event = await self._events.get()
            try:
                await self._events.timed(event, self._handle(event))
            except SessionExpired:
                return
            except GaveUp as fault:
                self.resign(f"{type(fault).__name__}: {fault}")
                raise
            except (TermOver, CoordinationError) as fault:
                self.resign(f"{type(fault).__name__}: {fault}")
                await self._ports.runtime.sleep(self._settings.command_retry_ms)
                self._events.put(ControllerZnodeChanged())

    def resign(self, reason: str) -> None:
        """Stop being the active controller at once; waiting events are answered or dropped."""
        term, self.term = self.term, None
        self.active_id = NO_LEADER
        self._timers.cancel()
        self._repeating.cancel()
        dropped = self._events.drain()
        if self._in_work is not None and not self._in_work.reply.is_set():
            unknown = refusal(self._in_work.request, ErrorCode.REQUEST_TIMED_OUT)
            self._in_work.reply.set(unknown)
        self._in_work = None
        for event in dropped:
            if isinstance(event, RequestReceived):
                event.reply.set(refusal(event.request, ErrorCode.NOT_CONTROLLER))
        self._jobs.abandon()
        if term is not None:
            term.store.close()
            term.channels.close_all()
            term.waits.abandon()
            term.emit(EventKind.CONTROLLER_RESIGNED, reason=reason)

    # ------------------------------------------------------------ events

    async def _handle(self, event: ControllerEvent) -> None:
        if isinstance(event, ControllerZnodeChanged):
            await self._look_who_leads()
            return
        term = self.term
        if term is None:
            return  # of an earlier term
        named = event.request if isinstance(event, RequestReceived) else event
        term.context.trigger = type(named).__name__
        match event:
            case BrokersChanged():
                await on_brokers_changed(term)
            case BrokerSuspected():
                await on_broker_suspected(term, event)
            case TopicsChanged():
                await on_topics_changed(term)
            case TopicZnodeChanged():
                await self._follow_topics(term, event)
            case PartitionStateChanged():
                await on_partition_state_repaired(term, event.partition)
            case DeletionsRequested():
                await on_deletions_requested(term)
            case IsrChangesNotified():
                await on_isr_changes_notified(term)
            case LogFolderEventsNotified():
                await on_log_folder_events(term)
            case LeaderAndIsrAnswered():
                await on_leader_and_isr_answered(
                    term, event.broker_id, event.request, event.response
                )
            case StopReplicaAnswered():
                await on_stop_replica_answered(term, event.broker_id, event.request, event.response)
                if term.context.refused_deletions:
                    self._once_after(self._settings.command_timeout_ms, RefusedDeletionsDue())
            case RefusedDeletionsDue():
                await retry_refused(term)
            case ReassignmentsWritten():
                self._take_written(event, WrittenReassignments())
            case ReassignmentsAdvanced():
                await self._advance(term, event.partitions)
            case EndedReassignmentsDue():
                await forget_ended_reassignments(term)
            case PreferredElectionsWritten():
                self._take_written(event, WrittenElections())
            case ConfigsChanged():
                await on_config_changes(term)
            case RebalanceDue():
                await rebalance_leaders(term)
            case JobsDue():
                await self._jobs.step(term, self._ports.runtime.future)
                if self._jobs:  # after all events that have come meanwhile
                    self._events.put(JobsDue())
            case RequestReceived():
                await self._answer(term, event)
        if term.context.ended_reassignments:
            self._once_after(FORGET_DELAY_MS, EndedReassignmentsDue())

    def _take_written(self, event: ControllerEvent, work: Work) -> None:
        if not self._jobs:
            self._events.put(JobsDue())
        self._jobs.take_written(type(event).__name__, work)

    async def _follow_topics(self, term: Term, first: TopicZnodeChanged) -> None:
        """Handle the waiting changes of topics' znodes, a step of them; the others are due later.

        After a lost connection there is such an event for each topic.
        Ordering: znodes that are as they were last taken in left out -> for each of the others: a
        topic with another id stopped and forgotten, and loaded as a new one -> else the topic's
        znode read -> a lost id written back -> its added partitions brought up as those of a new
        topic.
        Source: V3 design, on_topic_change; KIP-516.
        """
        waiting = self._events.take_waiting(TopicZnodeChanged)
        topics = list(dict.fromkeys(each.topic for each in (first, *waiting)))
        some, left = next_step(topics)
        await on_topic_znodes_changed(term, some)
        for topic in left:  # after all events that have come meanwhile
            self._events.put(TopicZnodeChanged(topic))

    async def _advance(self, term: Term, partitions: Sequence[TopicPartition]) -> None:
        """Complete a step's partitions that are ready; the others are due after other events.

        Ordering: added replicas Online -> removed replicas out of lead and ISR -> these stopped and
        deleted -> removed from the topics' znodes -> jobs removed from the admin znode ->
        UpdateMetadata.
        Source: Kafka's KafkaController, onPartitionReassignment.
        """
        some, left = next_step([at for at in partitions if at in term.context.reassignments])
        await advance_reassignments(term, some)
        if left:
            self._events.put(ReassignmentsAdvanced(left))

    def _once_after(self, delay_ms: int, event: ControllerEvent) -> None:
        """Enqueue the event once the delay has passed, unless it is scheduled already."""
        name = f"{type(event).__name__}-timer"

        async def wait() -> None:
            await self._ports.runtime.sleep(delay_ms)
            self._events.put(event)

        if not any(task.name == name for task in self._timers.tasks()):
            self._timers.spawn(name, wait())

    async def _answer(self, term: Term, received: RequestReceived) -> None:
        self._in_work = received
        match received.request:
            case AlterPartitionRequest():
                received.reply.set(await on_alter_partition(term, received.request))
                changed = [item.topic_partition for item in received.request.partitions]
                await self._advance(term, changed)
            case ControlledShutdownRequest():
                received.reply.set(await on_controlled_shutdown(term, received.request))
            case ListReassignmentsRequest():
                received.reply.set(list_reassignments(term, received.request))
            case _:
                received.reply.set(refusal(received.request, ErrorCode.UNSUPPORTED_VERSION))
        self._in_work = None

    # ------------------------------------------------------------ terms

    async def _look_who_leads(self) -> None:
        """Stay the active controller, follow another one, or win the election and take charge.

        Ordering: an active controller that lost /controller resigns -> stands for election -> a
        loser waits for the next change; the winner takes charge (fail_over), and starts the term's
        timers.
        Source: docs/explanation/replication.md, "The controller", Election.
        """
        if self.term is not None:
            if await self._election.is_still_won():
                return
            self.resign("/controller is no longer ours")
        outcome = await self._election.stand()
        if not isinstance(outcome, Won):
            self.active_id = outcome.active_id
            return
        self.active_id = self._settings.node_id
        self.term = self._begin_term(outcome.epoch)
        self.term.emit(EventKind.CONTROLLER_ELECTED)
        await fail_over(self.term)
        self._take_written(ReassignmentsWritten(), WrittenReassignments())
        self._take_written(PreferredElectionsWritten(), WrittenElections())
        self._repeat("config-changes-timer", CHECK_INTERVAL_MS, ConfigsChanged())
        if self._settings.auto_leader_rebalance_enable:
            interval_ms = self._settings.leader_imbalance_check_interval_ms
            self._repeat("leader-rebalance-timer", interval_ms, RebalanceDue())

    def _repeat(self, name: str, interval_ms: int, event: ControllerEvent) -> None:
        """Enqueue the event at each interval's end, unless it waits still, until the term ends."""

        async def put_again_and_again() -> None:
            while True:
                await self._ports.runtime.sleep(interval_ms)
                self._events.put_once(event)

        self._repeating.spawn(name, put_again_and_again())

    def _begin_term(self, epoch: TermEpoch) -> Term:
        ports, settings = self._ports, self._settings
        fence = epoch if self._toggles.controller_epoch_in_multi else None
        return Term(
            epoch=epoch,
            settings=settings,
            toggles=self._toggles,
            context=ControllerContext(settings.node_id, epoch.controller_epoch),
            store=ControllerStore(
                self._session,
                ports.runtime,
                ports.trace,
                settings.command_retry_ms,
                settings.zookeeper_give_up_ms,
                fence,
                self._fail_points,
            ),
            channels=BrokerChannels(
                settings,
                ports.runtime,
                ports.control,
                ports.trace,
                self._command_answered,
                self._fail_points,
                self._suspect if self._toggles.fast_failure_detection else None,
            ),
            waits=TopicWaits(),
            runtime=ports.runtime,
            rng=ports.rng,
            trace=ports.trace,
            fail_points=self._fail_points,
        )

    def _suspect(self, broker: BrokerEndpoints, why: str) -> None:
        """Called by a watch's task, which ends with its term."""
        self._events.put(BrokerSuspected(broker.broker_id, broker.broker_epoch, why))

    def _command_answered(
        self, broker_id: NodeId, command: BrokerCommand, response: CommandResponse
    ) -> None:
        """Called by a channel's task, which ends with its term: the command is of this term."""
        if self.term is None:
            return
        if isinstance(command, LeaderAndIsrRequest):
            self.term.waits.leader_answered(broker_id, command, response)
            if tells_of_disks(self.term.context, broker_id, response):
                self._events.put(LeaderAndIsrAnswered(broker_id, command, response))
        elif isinstance(command, StopReplicaRequest) and any(
            item.delete_partition for item in command.partitions
        ):
            self._events.put(StopReplicaAnswered(broker_id, command, response))


def _knows_later(request: ControllerCommand, epoch: TermEpoch) -> bool:
    """Return whether the request's broker obeys a controller that was elected after this term's."""
    return (
        isinstance(request, AlterPartitionRequest | ControlledShutdownRequest)
        and request.controller_epoch > epoch.controller_epoch
    )
