"""The replicas of this broker, and the controller's commands that change them.

Commands come one at a time (control_requests). replica_logs opens, deletes and sets aside logs;
become_leader and become_follower make the role changes.
Source: V3 design, section C; docs/explanation/replication.md, "Commands".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from highwater_broker.become_follower import become_follower
from highwater_broker.become_leader import become_leader
from highwater_broker.command_traces import trace_handled, trace_refused
from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.log.folders import can_be_hosted
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log_folders import Interrupted, LogFolders
from highwater_broker.logic.command_faults import find_faults, without
from highwater_broker.logic.command_fencing import (
    NO_COMMAND,
    CommandNumber,
    InitCommands,
    KnownReplica,
    Verdict,
    came_late,
    fence_request,
    is_other_topic,
    judge_leader_and_isr,
    judge_stop_replica,
    number_of,
)
from highwater_broker.logic.refused_replicas import RefusedReplicas
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.partition import Partition
from highwater_broker.partition_context import PartitionContext
from highwater_broker.replica_logs import HostedLog, ReplicaLogs
from highwater_broker.replica_starts import ReplicaStarts
from highwater_broker.roles import Stopped
from highwater_broker.strays import remove_strays
from highwater_broker.topic_settings import TopicSettings
from highwater_broker.turns import PARTITIONS_PER_TURN, ROLES_PER_TURN, take_turn
from highwater_core.config import Toggles, UnlistedPartitions
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_CONTROLLER_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    BrokerCommand,
    CommandResponse,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from highwater_core.ports import Ports


class ReplicaManager:
    """The partitions of this broker, by topic and partition.

    Invariant: a partition is listed exactly while its log is open here; controller_epoch is the
    highest of all commands so far.
    """

    def __init__(
        self,
        context: PartitionContext,
        ports: Ports,
        logs: LogFolders,
        topics: TopicSettings,
        metadata: MetadataCache,
        fetchers: FetcherRegistry,
        own_broker_epoch: Callable[[], BrokerEpoch],
        write_recovery_points: Callable[[], Awaitable[None]],
        announce: Callable[[], None],
    ) -> None:
        self._context = context
        self._toggles: Toggles = context.toggles
        self._ports = ports
        self._logs = logs
        self._topics = topics
        self._starts = ReplicaStarts(ports.runtime, logs, topics)
        self._metadata = metadata
        self._remove_strays = partial(remove_strays, logs, metadata, context.broker_id)
        self._fetchers = fetchers
        self._own_broker_epoch = own_broker_epoch
        self._write_recovery_points = write_recovery_points
        self._announce = announce
        """Tells the controller that the log folder has changed."""
        self._partitions: dict[TopicPartition, Partition] = {}
        self.controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
        self._last_command = NO_COMMAND
        """The latest command that was carried out, in its controller's order."""
        self._inits = InitCommands()
        self._refused = RefusedReplicas()
        self.commanded = ports.runtime.event()
        """Set once a LeaderAndIsr was carried out: from then on checkpoints may be written."""

    # ------------------------------------------------------------ partitions

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        return self._partitions.get(topic_partition)

    def partitions(self) -> tuple[Partition, ...]:
        """Return all partitions, sorted by topic and number."""
        return tuple(self._partitions[key] for key in sorted(self._partitions))

    async def load(self) -> None:
        """Open every log on the disk; each waits, without a role, for the first command."""
        for hosted in await self._logs.load():
            self._host(hosted)

    def _host(self, hosted: HostedLog) -> Partition:
        key = hosted.topic_partition
        partition = Partition(
            self._context,
            key,
            hosted.log,
            high_watermark=hosted.high_watermark,
            min_insync_replicas=self._topics.min_insync_replicas(key.topic),
            topic_id=hosted.topic_id,
        )
        if hosted.must_checkpoint:
            partition.need_checkpoint()
        partition.throttling = self._topics.throttling(key)
        self._partitions[key] = partition
        self._logs.take_as_hosted(key)
        partition.trace(EventKind.REPLICA_STARTED, high_watermark=partition.high_watermark)
        return partition

    def apply_settings(self, changed: str | None) -> None:
        """Give the changed topic's partitions, or all, the configuration in force."""
        for partition in self.partitions():
            topic = partition.topic_partition.topic
            if changed in (None, topic):
                partition.log.config = self._topics.log_config(topic)
                partition.throttling = self._topics.throttling(partition.topic_partition)
                partition.take_min_insync_replicas(self._topics.min_insync_replicas(topic))

    def knows_settings(self, topic: str) -> bool:
        """Return whether the topic's partitions have all their set values."""
        return self._topics.is_known(topic)

    # ------------------------------------------------------------ commands

    async def carry_out(self, request: BrokerCommand) -> CommandResponse:
        """Carry the command out, or refuse it, as a whole or for single partitions."""
        named = dict.fromkeys(each.topic_partition for each in request.partitions)
        faults = find_faults(request)
        if faults:
            request = without(request, faults)
        if isinstance(request, LeaderAndIsrRequest):
            # A fence that rose meanwhile must count below.
            await self._load_topic_settings(request)
        error = self.fence(request)
        if error is not ErrorCode.NONE:
            return self._refuse(request, error)
        self.controller_epoch = max(self.controller_epoch, request.controller_epoch)
        number = number_of(request)
        last, self._last_command = self._last_command, max(number, self._last_command)
        match request:
            case LeaderAndIsrRequest():
                errors = await self._leader_and_isr(request, is_late=came_late(number, last))
            case StopReplicaRequest():
                errors = await self._stop_replicas(request)
            case UpdateMetadataRequest():
                errors = await self._update_metadata(request)
        if errors is None:
            return self._refuse(request, self.fence(request))
        errors |= faults
        trace_handled(self._ports.trace, request, errors)
        return CommandResponse(ErrorCode.NONE, tuple((key, errors[key]) for key in named))

    def fence(self, request: BrokerCommand) -> ErrorCode:
        """Return why the whole command is refused as of now, or NONE."""
        return fence_request(
            controller_epoch=request.controller_epoch,
            known_controller_epoch=self.controller_epoch,
            broker_epoch=request.broker_epoch,
            own_broker_epoch=self._own_broker_epoch(),
            toggles=self._toggles,
        )

    def _refuse(self, request: BrokerCommand, error: ErrorCode) -> CommandResponse:
        trace_refused(self._ports.trace, request, error)
        return CommandResponse(error)

    # ------------------------------------------------------------ LeaderAndIsr

    async def _load_topic_settings(self, request: LeaderAndIsrRequest) -> None:
        """Read the topics' unknown configurations, and those that may be an earlier topic's."""
        for command in request.partitions:
            key = command.topic_partition
            partition = self._partitions.get(key)
            if partition and is_other_topic(command.topic_id, partition.topic_id, self._toggles):
                self._topics.forget(key.topic)
        for topic in dict.fromkeys(each.topic_partition.topic for each in request.partitions):
            await self._topics.load(topic)

    async def _leader_and_isr(
        self, request: LeaderAndIsrRequest, *, is_late: bool
    ) -> dict[TopicPartition, ErrorCode] | None:
        """Start missing replicas, then make leaders, then followers.

        None when the broker registered again meanwhile: the command was for the registration
        before, and no replica takes a role by it from then on.
        """
        errors: dict[TopicPartition, ErrorCode] = {}
        to_start: list[LeaderAndIsrPartition] = []
        for command in request.partitions:
            verdict, error = self._judge(command, number_of(request), is_late=is_late)
            if verdict is Verdict.REPLACE:
                replaced = self._partitions[command.topic_partition]
                self._remove(replaced, replaced.leader_epoch, is_deleted=False)
            if verdict in (Verdict.APPLY, Verdict.REPLACE):
                self._refused.drop(command.topic_partition, number_of(request))
                to_start.append(command)
            errors[command.topic_partition] = error
        has_created = any(each.topic_partition not in self._partitions for each in to_start)
        started = await self._start_replicas(
            {each.topic_partition: each.topic_id for each in to_start}
        )
        accepted: list[tuple[Partition, LeaderAndIsrPartition]] = []
        for command in to_start:
            key = command.topic_partition
            if key in started:
                accepted.append((started[key], command))
            else:
                errors[key] = ErrorCode.KAFKA_STORAGE_ERROR
                self._refused.keep(key, number_of(request))
        if has_created:
            await self._logs.sync()
        for leader in request.live_leaders:
            self._fetchers.learn_endpoint(leader.broker_id, leader.replication)
        if self.fence(request) is not ErrorCode.NONE:
            return None
        accepted.sort(key=lambda each: each[1].leader != self._context.broker_id)
        for number, (partition, command) in enumerate(accepted):
            if not await self._may_go_on(request, number, ROLES_PER_TURN):
                return None
            self._take_role(partition, command, request.controller_epoch)
        if any(partition.must_checkpoint for partition in started.values()):
            await self._write_recovery_points()
            if self.fence(request) is not ErrorCode.NONE:
                return None
        own_broker_epoch = self._own_broker_epoch()
        is_first_init = self._inits.is_first(request, own_broker_epoch, self._toggles)
        if is_first_init and not await self._drop_unlisted(request):
            return None
        self.commanded.set()
        self._fetchers.drop_idle()
        return errors

    async def _may_go_on(self, request: BrokerCommand, number: int, per_turn: int) -> bool:
        """Let other tasks run from time to time; return whether the command still counts then."""
        has_waited = await take_turn(self._ports.runtime, number, per_turn)
        return not has_waited or self.fence(request) is ErrorCode.NONE

    def _take_role(
        self, partition: Partition, command: LeaderAndIsrPartition, told_by: ControllerEpoch
    ) -> None:
        if command.leader == self._context.broker_id:
            become_leader(
                partition,
                command,
                told_by,
                fetchers=self._fetchers,
                toggles=self._toggles,
                now_ms=self._ports.runtime.now_ms(),
            )
        else:
            become_follower(
                partition, command, told_by, fetchers=self._fetchers, toggles=self._toggles
            )

    @property
    def has_refused(self) -> bool:
        """Whether `announce_refused` has replicas to announce."""
        return self._refused.is_news

    def announce_refused(self) -> None:
        """Make the controller send the commands again that the disk refused, once."""
        self._refused.take_news()
        self._announce()

    def has_failed(self, topic_partition: TopicPartition) -> bool:
        """Return whether the broker has a replica in a folder that failed."""
        return self._refused.has_failed(topic_partition)

    def fail_folder(self, name: str) -> None:
        """Take the folder's replicas out of service: there are no more reads and writes."""
        failed = self._logs.fail(name)
        self._refused.fail(failed)
        for partition in [self._partitions[key] for key in failed if key in self._partitions]:
            self._take_out(partition, partition.leader_epoch, is_deleted=False)
            partition.log.let_go()
        self._fetchers.drop_idle()
        self._announce()

    def _judge(
        self, command: LeaderAndIsrPartition, number: CommandNumber, *, is_late: bool
    ) -> tuple[Verdict, ErrorCode]:
        """Judge the command for its partition; a replica that the disk refused is not late."""
        if not can_be_hosted(command.topic_partition):
            return Verdict.REFUSE, ErrorCode.INVALID_TOPIC_EXCEPTION
        has_place = self._logs.may_start(command.topic_partition, is_new=command.is_new)
        if not has_place or self._refused.has_later(command.topic_partition, number):
            return Verdict.REFUSE, ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.get(command.topic_partition)
        known = _known(partition) if partition else None
        is_late = is_late and command.topic_partition not in self._refused
        return judge_leader_and_isr(
            command, known, self._context.broker_id, self._toggles, is_late=is_late
        )

    async def host(self, key: TopicPartition, *, is_new: bool) -> bool:
        """Open or create the replica's log without a role; return whether it is open."""
        await self._topics.load(key.topic)
        if not can_be_hosted(key) or not self._logs.may_start(key, is_new=is_new):
            return False
        is_hosted = bool(await self._start_replicas({key: NO_TOPIC_ID}))
        await self._logs.sync()
        return is_hosted

    def folder_of(self, key: TopicPartition) -> ReplicaLogs | LogFolders:
        """Return the log folder that has the replica, all of them where none is known to."""
        return self._logs.home_of(key) or self._logs

    async def _start_replicas(
        self, wanted: Mapping[TopicPartition, TopicId]
    ) -> dict[TopicPartition, Partition]:
        """Return the partitions, with logs created where there were none.

        Partitions that the disk refuses are left out. A replica without a topic id gets the wanted
        one (an upgraded preset's log).
        """
        knows_ids = self._toggles.topic_id
        topic_ids = {key: wanted[key] if knows_ids else NO_TOPIC_ID for key in wanted}
        missing = {key: topic_ids[key] for key in topic_ids if key not in self._partitions}
        for hosted in (await self._starts.create(missing)).values():
            self._host(hosted)
        found = {key: self._partitions[key] for key in topic_ids if key in self._partitions}
        unnamed = {
            key: topic_ids[key]
            for key, partition in found.items()
            if partition.topic_id == NO_TOPIC_ID and topic_ids[key] != NO_TOPIC_ID
        }
        for key in await self._starts.write_topic_ids(unnamed):
            del unnamed[key], found[key]
        for key, topic_id in unnamed.items():
            found[key].topic_id = topic_id
        return found

    async def _drop_unlisted(self, request: LeaderAndIsrRequest) -> bool:
        """Set aside replicas that the controller's first command, which lists all, does not have.

        Return False once the command no longer counts. Source: V3 design, section C; strays.py.
        """
        listed = {each.topic_partition for each in request.partitions}
        if self._toggles.unlisted_partitions is UnlistedPartitions.KEEP:
            return True
        is_deleted = self._toggles.unlisted_partitions is UnlistedPartitions.DELETE
        unlisted = [each for each in self.partitions() if each.topic_partition not in listed]
        for number, partition in enumerate(unlisted):
            if not await self._may_go_on(request, number, per_turn=1):
                return False
            self._remove(partition, partition.leader_epoch, is_deleted=is_deleted)
        self._logs.set_aside_unlisted(listed)
        may_go_on = partial(self._may_go_on, request, per_turn=1)  # metadata may have come before
        return await self._remove_strays((), may_go_on, of_all=True)

    # ------------------------------------------------------------ StopReplica, UpdateMetadata

    async def _stop_replicas(
        self, request: StopReplicaRequest
    ) -> dict[TopicPartition, ErrorCode] | None:
        """Stop the replicas one after another; None when the broker registered again meanwhile."""
        deleted, errors = self._logs.interrupted_deletions(), dict[TopicPartition, ErrorCode]()
        for number, command in enumerate(request.partitions):
            per_turn = 1 if command.delete_partition else PARTITIONS_PER_TURN  # hundreds of files
            if not await self._may_go_on(request, number, per_turn):
                return None
            errors[command.topic_partition] = self._stop_replica(command, deleted)
            is_gone = command.delete_partition and not errors[command.topic_partition]
            let_go = self._refused.drop if is_gone else self._refused.stop
            let_go(command.topic_partition, number_of(request))
        self._fetchers.drop_idle()
        return errors

    def _stop_replica(self, command: StopReplicaPartition, deleted: Interrupted) -> ErrorCode:
        """Stop one replica and perhaps delete it; a missing one counts as stopped.

        Its folder may be left, which the disk refused to open or to delete.
        """
        if not self._logs.may_start(command.topic_partition, is_new=False):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.get(command.topic_partition)
        if partition is None:
            if not command.delete_partition:
                return ErrorCode.NONE
            return self._delete_leftover(command, deleted)
        error = judge_stop_replica(command, _known(partition), self._toggles)
        if error is not ErrorCode.NONE:
            return error
        epoch = LeaderEpoch(max(command.leader_epoch, partition.leader_epoch))
        if command.delete_partition:
            return self._remove(partition, epoch, is_deleted=True)
        self._fetchers.remove(partition.topic_partition)
        partition.stop(epoch)
        partition.trace(EventKind.REPLICA_STOPPED, deleted=False)
        return ErrorCode.NONE

    def _delete_leftover(self, command: StopReplicaPartition, deleted: Interrupted) -> ErrorCode:
        topic_id = command.topic_id if self._toggles.topic_id else NO_TOPIC_ID
        try:
            self._logs.delete_leftover(command.topic_partition, topic_id, deleted)
        except OSError as error:
            self._logs.refused(command.topic_partition, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _remove(self, partition: Partition, epoch: LeaderEpoch, *, is_deleted: bool) -> ErrorCode:
        """Take the replica out of service, and delete its folder or set it aside."""
        self._take_out(partition, epoch, is_deleted=is_deleted)
        try:
            if is_deleted:
                partition.log.delete()
            else:
                partition.log.set_aside()
        except (OSError, LogRefused) as error:
            self._logs.refused(partition.topic_partition, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._logs.let_go(partition.topic_partition)
        return ErrorCode.NONE

    def _take_out(self, partition: Partition, epoch: LeaderEpoch, *, is_deleted: bool) -> None:
        key = partition.topic_partition
        self._fetchers.remove(key)
        del self._partitions[key]
        partition.stop(epoch)
        partition.trace(EventKind.REPLICA_STOPPED, deleted=is_deleted)

    async def _update_metadata(
        self, request: UpdateMetadataRequest
    ) -> dict[TopicPartition, ErrorCode] | None:
        """Update the metadata cache, and let leaders check the live brokers.

        Then remove strays of topics that are gone; None when the broker registered again meanwhile.
        """
        removed = self._metadata.update(request)
        topics = dict.fromkeys(key.topic for key in removed)
        gone = dict.fromkeys(each for each in topics if not self._metadata.has_topic(each))
        for topic in topics:  # known values may be of another topic of that name
            (self._topics.forget if topic in gone else self._topics.reread)(topic)
        for partition in self._partitions.values():
            partition.maybe_raise_without_traffic()
        may_go_on = partial(self._may_go_on, request, per_turn=1)
        if not await self._remove_strays(gone, may_go_on, of_all=request.is_full):
            return None
        return {each.topic_partition: ErrorCode.NONE for each in request.partitions}

    def stop_all(self) -> None:
        """Take every replica out of service: there are no more appends and reads."""
        for partition in self.partitions():
            partition.stop(partition.leader_epoch)
            partition.trace(EventKind.REPLICA_STOPPED, deleted=False)

    def maybe_shrink_isrs(self) -> None:
        """Propose smaller ISRs where members lag; high watermarks that waited may rise."""
        now_ms = self._ports.runtime.now_ms()
        for partition in self.partitions():
            if partition.is_leader:
                partition.maybe_shrink_isr(now_ms)
                partition.maybe_propose_thaw()
                partition.maybe_raise_without_traffic()


def _known(partition: Partition) -> KnownReplica:
    return KnownReplica(
        partition.leader_epoch, partition.topic_id, isinstance(partition.role, Stopped)
    )
