"""The brokers command themselves: each reads its queue, and elects leaders on the leader paths.

One thing is done at a time, in the order in which it was noted; watches only note it, and state is
read when it is done. After each session's begin, and each lost connection, all is read anew.
Source: the first design (V2); docs/decisions/0010.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_broker.commander import CommanderParts
from highwater_broker.first_design.asked_replicas import AskedReplicas
from highwater_broker.first_design.cluster_view import ClusterView
from highwater_broker.first_design.commands import OwnCommands, deleted, metadata_of
from highwater_broker.first_design.leader_paths import LeaderPaths, Written
from highwater_broker.first_design.moves import ReplicaMoves
from highwater_broker.first_design.queues import QueuedRequest, StateChangeQueues
from highwater_broker.first_design.take_overs import TakeOvers
from highwater_broker.first_design.told_once import ToldOnce
from highwater_broker.first_design.work import (
    AllAgain,
    BrokersAgain,
    FolderFailed,
    FoldersChanged,
    PartitionAgain,
    RequestsAgain,
    TakenOver,
    TopicAgain,
    TopicsAgain,
    Work,
    WorkList,
    work_of,
)
from highwater_broker.logic.first_design import (
    NotReplicaForPartition,
    ReplicaIsAssigned,
    catching_up,
    get_new_epoch,
    may_lead_unclean,
    may_run,
    strangers,
)
from highwater_broker.logic.state_change_queue import FollowerStateChangeQueueFull
from highwater_broker.partition import Partition
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.first_design_znodes import (
    LeaderPath,
    StateChange,
    StateChangeRequest,
    leader_path,
    queue_path,
)
from highwater_core.ids import NO_EPOCH, NO_LEADER, TopicPartition
from highwater_core.messages import PartitionMetadata
from highwater_core.ports import CoordinationError, CoordinationEvent
from highwater_core.znodes import MAX_LEADER_EPOCH, partition_state_path

RETRY_MS = 500
REFUSED_RETRY_MS = 1_000
"""How often a replica that the disk refuses is tried again."""


class Elector:
    """The task that commands this broker's replicas.

    Invariant: a replica in `_started` was asked for, by its queue or by the broker's start.
    """

    def __init__(
        self,
        parts: CommanderParts,
        view: ClusterView,
        queues: StateChangeQueues,
        asked: AskedReplicas,
        told: ToldOnce,
    ) -> None:
        self._parts = parts
        self._me = parts.settings.broker_id
        self._view = view
        self._queues = queues
        self._told = told
        self._trace, self._runtime = parts.ports.trace, parts.ports.runtime
        self._paths = LeaderPaths(self._me, parts.session, told)
        self._moves = ReplicaMoves(self._me, parts.session, self._trace, view, queues, asked, told)
        self._commands = OwnCommands(self._me, parts.replicas)
        self._take_overs = TakeOvers(
            self._runtime,
            parts.scope,
            parts.settings.keep_in_sync_time_ms,
            view.live,
            lambda partition: self._work.add(TakenOver(partition)),
        )
        self._work = WorkList(self._runtime)
        self._started: dict[TopicPartition, None] = {}
        self._for_later: dict[Work, None] = {}
        self._has_begun = False

    def note(self, work: Work) -> None:
        """Do this when its turn comes."""
        self._work.add(work)

    def on_event(self, event: CoordinationEvent) -> None:
        work = work_of(event, queue_path(self._me))
        if work is not None:
            self._work.add(work)

    async def run(self) -> None:
        await self._parts.registration.registered.wait()
        while True:
            work = await self._work.next()
            try:
                await self._do(work)
            except CoordinationError:
                await self._runtime.sleep(RETRY_MS)
                self._work.add(work)

    async def _do(self, work: Work) -> None:
        match work:
            case AllAgain():
                await self._read_all()
            case RequestsAgain():
                await self._take_requests()
            case BrokersAgain():
                await self._read_brokers()
            case TopicsAgain():
                await self._read_topics()
            case TopicAgain(topic):
                await self._read_assignments([topic])
            case PartitionAgain(at):
                await self._look_at(at)
            case TakenOver(partition):
                await self._after_take_over(partition)
            case FolderFailed(name):
                self._parts.replicas.fail_folder(name)
            case FoldersChanged():
                await self._give_up_refused()

    # ------------------------------------------------------------ reading

    async def _read_all(self) -> None:
        """Read the queue first, then start all assigned replicas: as at a broker's start."""
        await self._take_requests()
        await self._view.read_brokers()
        new, gone = await self._view.read_topics()
        await self._tell_gone(gone)
        for topic in dict.fromkeys((*new, *(at.topic for at in self._view.partitions()))):
            await self._read_assignment(topic)
        await self._take_requests()  # a topic may be a later one than the replica here is of
        read = {at: await self._paths.read(at) for at in tuple(self._view.partitions())}
        await self._commands.tell(
            self._view.endpoints(),
            [each for at, written in read.items() if (each := self._metadata(at, written))],
            is_full=None not in read.values(),
        )
        if not self._has_begun:
            await self._commands.begin()
            self._has_begun = True
        for at, written in read.items():
            self._start_assigned(at)
            await self._take_part(at, written)
        await self._moves.begin_session()

    async def _read_brokers(self) -> None:
        await self._view.read_brokers()
        await self._commands.tell(self._view.endpoints(), ())
        for at in self._moves.under_way():
            self._work.add(PartitionAgain(at))
        if self._parts.toggles.unclean_election:
            for at in self._started:  # perhaps no member of an ISR lives any more
                self._work.add(PartitionAgain(at))

    async def _read_topics(self) -> None:
        new, gone = await self._view.read_topics()
        await self._tell_gone(gone)
        await self._read_assignments(new)

    async def _read_assignments(self, topics: Iterable[str]) -> None:
        """Read the topics; start what is assigned to this broker, after what its queue says."""
        wanted = list(topics)
        for topic in wanted:
            await self._read_assignment(topic)
        await self._take_requests()
        for topic in wanted:
            for at in self._view.partitions_of(topic):
                self._start_assigned(at)
                await self._look_at(at)

    def _start_assigned(self, at: TopicPartition) -> None:
        """Take the replica as started if it is assigned to this broker, and not closed since."""
        if self._me in self._view.replicas_of(at) and not self._view.is_closed(at):
            self._started[at] = None

    async def _read_assignment(self, topic: str) -> None:
        await self._tell_gone(await self._view.read_topic(topic))

    async def _tell_gone(self, gone: list[TopicPartition]) -> None:
        """Tell clients of the partitions' end: the view forgets them, so now or never."""
        self._forget(gone)
        if gone:
            await self._commands.tell(self._view.endpoints(), [deleted(at) for at in gone])

    def _forget(self, gone: Iterable[TopicPartition]) -> None:
        for at in gone:
            self._started.pop(at, None)

    # ------------------------------------------------------------ the queue

    async def _take_requests(self) -> None:
        """Carry the queue's requests out, in their order; a refused one keeps its place.

        Later requests for the partition of a refused one wait for it.
        """
        held: dict[TopicPartition, None] = {}
        for name in await self._queues.pending(self._me):
            found = await self._queues.read(self._me, name)
            if found is not None and found.request.topic_partition in held:
                continue
            if found is None or await self._take_request(found):
                await self._queues.drop(self._me, name)
            else:
                held[found.request.topic_partition] = None
        if held:
            self._again_later(RequestsAgain())

    async def _take_request(self, found: QueuedRequest) -> bool:
        """Carry one request out, or refuse it; return whether it is done with."""
        at = found.request.topic_partition
        is_new_topic = not self._view.partitions_of(at.topic)
        await self._read_assignment(at.topic)
        if found.request.change is StateChange.CLOSE_REPLICA:
            return await self._close(at, found)
        if is_new_topic:
            self._work.add(TopicAgain(at.topic))  # clients are told of its other partitions too
        if self._me in self._view.replicas_of(at):
            self._started[at] = None
            self._work.add(PartitionAgain(at))
        else:
            self._refuse(at, "start-replica", NotReplicaForPartition.__name__)
        return True

    async def _close(self, at: TopicPartition, found: QueuedRequest) -> bool:
        """Delete the replica; return False where the disk did not.

        Brokers send the request with the transaction that deletes the topic, or takes the broker
        out of its assignment and ISR. One that is sent while the broker is assigned is refused: the
        records of a leader, or of a member of the ISR, would be lost.
        """
        is_assigned = self._me in self._view.replicas_of(at)
        if is_assigned and await self._was_assigned_at(at, found.czxid):
            self._refuse(at, found.request.change, ReplicaIsAssigned.__name__)
            return True
        self._forget([at])
        error = await self._commands.close(at, found.request.leader_epoch)
        is_done = error is not ErrorCode.KAFKA_STORAGE_ERROR
        if is_assigned:
            self._view.closed(at)
            if is_done:  # it was of an earlier topic, or was moved away and back
                self._work.add(TopicAgain(at.topic))
        return is_done

    async def _was_assigned_at(self, at: TopicPartition, czxid: int) -> bool:
        """Return whether this broker, which is assigned, was so in the transaction of that number.

        It was if the assignment is not written since, or if it leads, or is in the ISR, of the same
        topic: a broker that is assigned anew joins once it has fetched, after its queue is read.
        """
        known = self._view.topic(at.topic)
        if known is None or known.czxid > czxid:
            return False
        if known.mzxid < czxid:
            return True
        written = await self._paths.read(at)
        return written is None or self._me in (written.led_by, *written.isr)

    def _refuse(self, at: TopicPartition, request: str, error: str, what: str = "") -> None:
        self._trace.emit(
            EventKind.REQUEST_REFUSED,
            topic=at.topic,
            partition=at.partition,
            request=request,
            error=error,
            what=what,
        )

    # ------------------------------------------------------------ a partition

    def _metadata(self, at: TopicPartition, written: Written | None) -> PartitionMetadata | None:
        replicas = self._view.replicas_of(at)
        return metadata_of(at, written, replicas) if written and replicas else None

    async def _look_at(self, at: TopicPartition) -> None:
        """Tell clients who leads, and take this broker's part."""
        written = await self._paths.read(at)
        if written is not None:
            await self._tell_strangers(at, written)
        told = self._metadata(at, written)
        if told is not None:
            await self._commands.tell(self._view.endpoints(), [told])
        await self._take_part(at, written)

    async def _tell_strangers(self, at: TopicPartition, written: Written) -> None:
        """Tell of a leader, or members of the ISR, that are not assigned.

        The assignment may have been read before it was changed, or the state: both are read again,
        and are of one moment if the state is still the same.
        """
        if not strangers(self._view.replicas_of(at), written.led_by, written.isr):
            return
        await self._read_assignment(at.topic)
        found = strangers(self._view.replicas_of(at), written.led_by, written.isr)
        if found and await self._paths.read(at) == written:
            self._told.tell(
                partition_state_path(at),
                f"not assigned: {', '.join(map(str, found))}; leader {written.led_by}, ISR "
                f"{list(written.isr)}",
                written.partition_epoch,
            )

    async def _take_part(self, at: TopicPartition, written: Written | None) -> None:
        """Lead or follow; a leader moves its replicas as it is asked to."""
        await self._command(at, written)
        hosted = self._parts.replicas.get(at)
        if written is None or hosted is None:
            return
        if await self._moves.look(hosted, written):
            self._again_later(PartitionAgain(at))

    async def _command(self, at: TopicPartition, written: Written | None) -> None:
        """Have a started replica run where nobody leads, else lead or follow as it is written.

        Source: the first design (V2), startReplica.
        """
        replicas = self._view.replicas_of(at)
        if written is None or at not in self._started or self._me not in replicas:
            return
        hosted = self._parts.replicas.get(at)
        known = hosted.leader_epoch if hosted else NO_EPOCH
        if written.leader and written.leader.leader_epoch < known:
            self._told.tell(
                str(at), f"epoch {written.leader.leader_epoch} is written after epoch {known}"
            )
            return
        if written.led_by == NO_LEADER:
            await self._run_for_leader(at, written)
        elif written.led_by != self._me or written.is_own:
            await self._take_role(at, written)
        elif not self._parts.registration.had_session(written.session_id):
            what = "another session says that this broker leads"
            self._told.tell(leader_path(at), what, written.session_id)

    async def _run_for_leader(self, at: TopicPartition, written: Written) -> None:
        """leaderElection: the first one to write the leader path leads.

        Only a replica whose log is open runs; one that the disk refuses is tried again.
        """
        replicas, live = self._view.replicas_of(at), self._view.live()
        adding = self._view.reassignment_of(at).adding
        anyone = self._parts.toggles.unclean_election
        anyone = anyone and may_lead_unclean(self._me, replicas, adding, live)
        if not may_run(self._me, replicas, written.isr, live, anyone=anyone):
            return
        if not await self._commands.host(at, is_new=written.state is None):
            self._again_later(PartitionAgain(at))
            return
        hosted = self._parts.replicas.get(at)
        epoch = get_new_epoch(written.leader_epoch, hosted.leader_epoch if hosted else NO_EPOCH)
        if epoch >= MAX_LEADER_EPOCH:  # a leader that gives up raises it by one more
            self._told.tell(str(at), f"no epoch is left after {written.leader_epoch}")
            return
        isr = tuple(each for each in written.isr if each in replicas)
        elected = await self._paths.elect(at, written, epoch, isr)
        if elected is None:
            self._work.add(PartitionAgain(at))
            return
        self._trace.emit(
            EventKind.LEADER_ELECTED,
            topic=at.topic,
            partition=at.partition,
            leader_epoch=epoch,
            leader=self._me,
            isr=elected.isr,
            unclean=bool(written.isr) and self._me not in written.isr,
            selector="leader path",
            trigger="no leader",
        )
        await self._take_role(at, elected)

    async def _take_role(self, at: TopicPartition, written: Written) -> None:
        """Follow or lead; a leader whose disk refuses the replica gives the leader path up."""
        replicas = self._view.replicas_of(at)
        error = await self._commands.take_role(at, written, replicas)
        hosted = self._parts.replicas.get(at)
        if error is ErrorCode.NONE and hosted is not None:
            if hosted.assigned_replicas != replicas:  # they were moved within the epoch
                hosted.take_assigned(replicas)
            self._take_overs.begin(hosted)
        elif error is ErrorCode.KAFKA_STORAGE_ERROR:
            await self._paths.give_up(at)
            self._again_later(PartitionAgain(at))

    async def _give_up_refused(self) -> None:
        """Give up the leader paths of replicas that are out of service since a folder failed."""
        for at in tuple(self._started):
            if self._parts.replicas.get(at) is None:
                await self._paths.give_up(at)

    def _again_later(self, work: Work) -> None:
        """Do the work after REFUSED_RETRY_MS; once, however often this is called until then."""
        if work not in self._for_later:
            self._for_later[work] = None
            self._parts.scope.spawn("Retry", self._note_later(work))

    async def _note_later(self, work: Work) -> None:
        await self._runtime.sleep(REFUSED_RETRY_MS)
        del self._for_later[work]
        self._work.add(work)

    # ------------------------------------------------------------ after a take-over

    async def _after_take_over(self, partition: Partition) -> None:
        """Write CUR and RAR, and send start-replica to every other live replica of AR.

        Deviation: the document writes CUR with the ISR, before the partition opens, and sends
        start-replica to the leader too.
        """
        at = partition.topic_partition
        if not partition.serves_clients:
            return
        self._work.add(PartitionAgain(at))  # replicas may be asked for, or be moved already
        replicas, epoch = self._view.replicas_of(at), partition.leader_epoch
        lacking = catching_up(replicas, partition.isr)
        await self._paths.write_catching_up(at, LeaderPath(self._me, epoch), lacking)
        request = StateChangeRequest(StateChange.START_REPLICA, at, epoch)
        for broker in replicas:
            if broker != self._me and broker in self._view.live():
                try:
                    await self._queues.put(broker, request)
                except FollowerStateChangeQueueFull as full:
                    self._refuse(at, request.change, type(full).__name__, str(full))
