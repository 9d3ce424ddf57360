"""The oracle of a world: after every event it checks the partitions that the event changed.

Taps, callbacks of the world, only take notes. Checks run once the event is over, when no node is in
the middle of a step. The first violation ends the simulation, unless its run goes on past it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from highwater_broker.log.open_file import SegmentRecords
from highwater_broker.partition import Partition
from highwater_checker.invariants.transitions import STATE_CHANGES
from highwater_core import znodes
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_TOPIC_ID, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.topic_znode import decode_topic
from highwater_core.znodes import PartitionLeadership
from highwater_simulator.minima import configured_minimum, is_compacted
from highwater_simulator.oracle.batches import EMPTY, Batch, parse_batches
from highwater_simulator.oracle.checkpoints import HIGH_WATERMARKS, CheckpointChecks
from highwater_simulator.oracle.controllers import ControllerChecks
from highwater_simulator.oracle.coordinators import CoordinatorChecks
from highwater_simulator.oracle.documented import OnTheWay
from highwater_simulator.oracle.generations import GenerationChecks
from highwater_simulator.oracle.group_places import GroupPlaces
from highwater_simulator.oracle.log_starts import LogStartChecks
from highwater_simulator.oracle.losses import Excuse
from highwater_simulator.oracle.lost_disks import LostDisks
from highwater_simulator.oracle.partition_oracle import PartitionOracle
from highwater_simulator.oracle.progress import ProgressChecks
from highwater_simulator.oracle.restarts import RestartChecks
from highwater_simulator.oracle.shadow import LOG_SUFFIX, ReplicaShadow
from highwater_simulator.oracle.unclean_elections import UncleanElections
from highwater_simulator.oracle.violation import InvariantBroken, Violation
from highwater_wire.kafka.committed_messages import OffsetCommitRequest, OffsetFetchRequest
from highwater_wire.kafka.messages import (
    CONSUMER,
    LATEST_TIMESTAMP,
    FetchRequest,
    HangUp,
    ListOffsetsRequest,
    ProduceRequest,
)

if TYPE_CHECKING:
    from highwater_simulator.world import World

_STATE_SUFFIX = "/state"
_TOPICS_PREFIX = f"{znodes.TOPICS}/"
_DELETIONS_PREFIX = f"{znodes.DELETE_TOPICS}/"
_CONFIGS_PREFIX = f"{znodes.TOPIC_CONFIGS}/"
_ALL_ISR = -1


class Oracle:
    """Judges one world."""

    def __init__(self, world: World, on_the_way: OnTheWay | None = None) -> None:
        self._world = world
        self._on_the_way = OnTheWay() if on_the_way is None else on_the_way
        self._minima: dict[str, int] = {}
        """By topic, the least min.insync.replicas that a broker may still go by."""
        self._compacted: dict[str, None] = {}
        """The topics whose policy was ever to compact them."""
        self._shadows: dict[str, dict[int, ReplicaShadow]] = {}
        """By folder, then broker."""
        self.partitions: dict[TopicPartition, PartitionOracle] = {}
        self._dirty: dict[tuple[int, TopicPartition], None] = {}
        self._changed_logs: dict[tuple[int, TopicPartition], None] = {}
        self._judgements: list[Callable[[], None]] = []
        self._replies: list[Callable[[], None]] = []
        self._controllers = ControllerChecks(self.report)
        self._controllers_by_name = {each.name: node for node, each in world.controllers.items()}
        self._lost_disks = LostDisks()
        self._unclean_elections = UncleanElections(world, self._lost_disks.knows, self.report)
        self._restarts = RestartChecks(world, self._report_when_over)
        self._checkpoints = CheckpointChecks(world, self._shadows, self.report)
        self._progress = ProgressChecks(world, self._restarts.registration, self.report)
        self._log_starts = LogStartChecks(world, self._shadows, self.report)
        places = GroupPlaces(world, self.partitions)
        self._coordinators = CoordinatorChecks(world, places, self.report)
        self._generations = GenerationChecks(places, self.report)
        for broker, handle in world.brokers.items():
            handle.disk.changed = self._disk_tap(broker)
        world.zookeeper.applied = self._znodes_changed
        world.on_event = self._event_traced
        world.on_request = self._unclean_elections.heard_before(self._generations.asked)
        world.on_reply = self._replied
        world.on_read = self._fetched
        world.on_command = self._restarts.command_arrived
        world.kernel.after_event = self._after_event

    # ------------------------------------------------------------ results

    @property
    def excuses(self) -> list[Excuse]:
        """The committed records that only disk faults, or allowed unclean elections, lost."""
        return [excuse for each in self.partitions.values() for excuse in each.excuses]

    def shadow(self, broker: int, topic_partition: TopicPartition) -> ReplicaShadow:
        return self._shadows_of(topic_partition)[broker]

    def _shadows_of(self, topic_partition: TopicPartition) -> dict[int, ReplicaShadow]:
        folder = str(topic_partition)
        found = self._shadows.get(folder)
        if found is None:

            def committed_below(offset: int) -> int:
                partition = self.partitions.get(topic_partition)
                return EMPTY if partition is None else partition.committed.chain_below(offset)

            def stands_for(batch: Batch, data: bytes) -> Sequence[Batch]:
                return self._stands_for(topic_partition, batch, data)

            found = {
                broker: ReplicaShadow(handle.disk, folder, committed_below, stands_for)
                for broker, handle in self._world.brokers.items()
            }
            self._shadows[folder] = found
        return found

    def _stands_for(self, at: TopicPartition, batch: Batch, data: bytes) -> Sequence[Batch]:
        """Return the committed batches that one of a compacted log stands for, else itself."""
        partition = self.partitions.get(at)
        if partition is None:
            return (batch,)
        return partition.stands_for(batch, data, partial(self._report_when_over, at))

    def note(
        self, at: TopicPartition | None, invariant: str, message: str, offset: int = -1
    ) -> Violation:
        """Return the violation of this moment, written into the trace."""
        topic, partition = ("", -1) if at is None else (at.topic, at.partition)
        now_ns, trace = self._world.kernel.now_ns(), self._world.trace
        length = len(trace.entries)
        violation = Violation(invariant, message, now_ns, topic, partition, offset, length)
        trace.note("oracle", str(violation))
        return violation

    def report(
        self, at: TopicPartition | None, invariant: str, message: str, offset: int = -1
    ) -> None:
        """End the simulation with this violation, unless its run goes on past it.

        Raises:
            InvariantBroken: the run does not go on past it.
        """
        if self._on_the_way.was_passed(at, invariant, message):
            return
        violation = self.note(at, invariant, message, offset)
        if not self._on_the_way.goes_on_past(violation):
            raise InvariantBroken(violation)

    def _report_when_over(
        self, at: TopicPartition | None, invariant: str, message: str, offset: int
    ) -> None:
        """Report a tap's violation once the node's step is over."""
        self._judgements.append(lambda: self.report(at, invariant, message, offset))

    # ------------------------------------------------------------ taps

    def _disk_tap(self, broker: int) -> Callable[[str, str], None]:
        disk = self._world.brokers[broker].disk

        def changed(path: str, operation: str) -> None:
            _, within = disk.in_log_folder(path)
            folder = within.split("/", 1)[0]
            if within == HIGH_WATERMARKS and operation != "truncate":
                self._restarts.checkpoint_placed(broker)
            shadows = self._shadows.get(folder)
            is_folder = folder == within
            if shadows is None or not (LOG_SUFFIX in path or is_folder):
                return
            shadow, at = shadows[broker], TopicPartition.named(folder)
            if operation == "append":
                shadow.appended(path, self._batch_taps(broker, at, are_appended=True))
            elif operation == "truncate":
                shadow.truncated(path)
            else:
                shadow.renamed(path)
            self._dirty[broker, at] = None
            self._changed_logs[broker, at] = None

        return changed

    def _batch_taps(
        self, broker: int, at: TopicPartition, *, are_appended: bool = False
    ) -> Callable[[Batch, int], None]:
        """Return the callback for each batch that a replica gains, or is found to have."""
        partition = self.partitions.get(at)
        if partition is None or self._shadows[str(at)][broker].is_of_deleted_topic:
            return lambda batch, chain: None

        def added(batch: Batch, chain: int) -> None:
            self._judgements.append(lambda: partition.batch_added(broker, batch, chain))
            if are_appended:
                offset = batch.base_offset
                self._judgements.append(lambda: self._checkpoints.appended(broker, at, offset))

        return added

    def _event_traced(self, event: TraceEvent) -> None:
        kind = event.kind
        self._unclean_elections.event_traced(event)
        if event.node in self._world.controllers:
            if kind is EventKind.CONTROLLER_ELECTED:
                self._judgements.append(lambda: self._controllers.elected(event))
            elif kind in STATE_CHANGES:
                self._judgements.append(lambda: self._controllers.state_change(event))
            elif kind is EventKind.COMMAND_SENT:
                author = self._world.controllers[event.node].name
                self._lost_disks.command_sent(author, event)
            return
        at = event.topic_partition
        if at is not None:
            self._dirty[event.node, at] = None
            if kind is EventKind.LOG_START_MOVED:
                self._log_starts.start_moved(event.node, at, event.offset or 0)
        elif kind is EventKind.CHECKPOINT_WRITTEN:
            self._dirty.update(dict.fromkeys((event.node, at) for at in self.partitions))
            self._judgements.append(lambda: self._checkpoints.written(event))
        self._restarts.event_traced(event)
        self._generations.event_traced(event)

    def _znodes_changed(self, author: str, paths: tuple[str, ...]) -> None:
        for path in paths:
            if path.endswith(_STATE_SUFFIX) and path.startswith(_TOPICS_PREFIX):
                self._leadership_changed(author, path)
            elif path.startswith(_TOPICS_PREFIX) and path.count("/") == 3:
                topic = path.split("/")[3]
                self._topic_written(author, topic)
                written = self._world.zookeeper.data(path)
                if written is None:
                    self._forget_topic(topic)
                else:
                    self._assignment_written(topic, written[0])
            elif path.startswith(_DELETIONS_PREFIX):
                self._topic_written(author, path.removeprefix(_DELETIONS_PREFIX))
                self._forget_topic(path.removeprefix(_DELETIONS_PREFIX))
            elif path.startswith(_CONFIGS_PREFIX):
                self._config_written(path.removeprefix(_CONFIGS_PREFIX))
            elif path == znodes.CONTROLLER_EPOCH:
                found = self._world.zookeeper.data(path)
                epoch = found[0] if found else b""
                self._judgements.append(partial(self._controllers.epoch_written, epoch))

    def _config_written(self, topic: str) -> None:
        self._log_starts.config_written(topic)
        if self._world.zookeeper.data(znodes.topic_config_path(topic)) is None:
            self._minima.pop(topic, None)
            return
        minimum = configured_minimum(self._world, topic)
        self._minima[topic] = min(minimum, self._minima.get(topic, minimum))
        if is_compacted(self._world, topic):
            self._compacted[topic] = None
        for at, partition in self.partitions.items():
            if at.topic == topic:
                partition.min_insync_replicas = self._minimum_of(partition)
                if topic in self._compacted:
                    partition.take_as_compacted()

    def minima_are_known(self) -> None:
        """Hold brokers to the configured minima from now on: they have had time to read them."""
        for topic in self._minima:
            self._minima[topic] = configured_minimum(self._world, topic)
        for partition in self.partitions.values():
            partition.min_insync_replicas = self._minimum_of(partition)

    def _minimum_of(self, partition: PartitionOracle) -> int:
        """Return the least min.insync.replicas in effect; more than all replicas means all."""
        minimum = self._minima.get(partition.topic_partition.topic, 1)
        return min(minimum, len(partition.assigned_replicas) or minimum)

    def _topic_written(self, author: str, topic: str) -> None:
        node = self._controllers_by_name.get(author)
        if node is not None:
            self._judgements.append(partial(self._controllers.topic_written, node, topic))

    def _assignment_written(self, topic: str, data: bytes) -> None:
        content = decode_topic(data, topic)
        for at, replicas in content.assignment.items():
            partition = self.partitions.get(at)
            if partition is not None and partition.assigned_replicas != replicas:
                assigned = tuple(int(broker) for broker in replicas)
                before, partition.assigned_replicas = partition.assigned_replicas, assigned
                partition.min_insync_replicas = self._minimum_of(partition)
                self._judgements.append(partial(partition.assignment_written, before))

    def _forget_topic(self, topic: str) -> None:
        """Forget a topic whose deletion was requested, or is done.

        Its replicas may be deleted now; their records are no part of a later topic of that name.
        """
        self._minima.pop(topic, None)
        self._compacted.pop(topic, None)
        self._log_starts.topic_forgotten(topic)
        for at in [at for at in self.partitions if at.topic == topic]:
            del self.partitions[at]
            for shadow in self._shadows[str(at)].values():
                shadow.is_of_deleted_topic = bool(shadow.chain.batches)
                shadow.forget_beyond(0)

    def _leadership_changed(self, author: str, path: str) -> None:
        found = self._world.zookeeper.data(path)
        _, _, _, topic, _, number, _ = path.split("/")
        deletion = self._world.zookeeper.data(znodes.delete_topic_path(topic))
        if found is None or deletion is not None:
            return
        at = TopicPartition(topic, int(number))
        after = znodes.decode_partition_state(found[0], path)
        partition = self.partitions.get(at)
        if partition is None:
            partition = self._new_partition(at)
        before, partition.leadership = partition.leadership, after
        self._judgements.append(lambda: self._judge_leadership(partition, author, before, after))

    def _judge_leadership(
        self, partition: PartitionOracle, author: str,
        before: PartitionLeadership | None, after: PartitionLeadership,
    ) -> None:  # fmt: skip
        at = partition.topic_partition
        self._controllers.leadership_written(at, author, after)
        self._unclean_elections.leadership_written(at, author, before, after)
        partition.leadership_written(author, before, after)

    def _new_partition(self, at: TopicPartition) -> PartitionOracle:
        partition = PartitionOracle(
            at,
            self._shadows_of(at),
            self.report,
            self._world.stamps.next_ns,
            self._lost_disks.knows_of_return,
            lambda: self._unclean_elections.are_allowed(at), self._world.registration,
            has_controllers=bool(self._world.controllers),
        )  # fmt: skip
        path = znodes.topic_path(at.topic)
        found = self._world.zookeeper.data(path)
        if found is not None:
            assigned, partition.topic_id, _ = decode_topic(found[0], at.topic)
            partition.assigned_replicas = tuple(int(broker) for broker in assigned.get(at, ()))
        partition.min_insync_replicas = self._minimum_of(partition)
        if at.topic in self._compacted:
            partition.take_as_compacted()
        self.partitions[at] = partition
        return partition

    def _replied(self, broker: int, request: Any, response: Any) -> None:
        """Take note of a broker's response to a client."""
        if response is None or isinstance(response, HangUp):
            return
        self._replies.extend(self._generations.judgements(broker, request, response))
        if isinstance(request, ProduceRequest) and request.acks == _ALL_ISR:
            sent = {(each.topic, each.partition): each.records for each in request.partitions}
            for result in response.partitions:
                if result.error is ErrorCode.NONE:
                    at = TopicPartition(result.topic, result.partition)
                    records = sent[result.topic, result.partition]
                    self._judge_acknowledged(broker, at, records, result.base_offset)
        elif isinstance(request, OffsetCommitRequest | OffsetFetchRequest):
            self._replies.extend(self._coordinators.judgements(broker, request, response))
        elif isinstance(request, FetchRequest):
            self._fetched(broker, request, response)
        elif isinstance(request, ListOffsetsRequest) and request.replica_id == CONSUMER:
            latest = {(each.topic, each.partition) for each in request.partitions
                      if each.timestamp == LATEST_TIMESTAMP}  # fmt: skip
            for told in response.partitions:
                if told.error is ErrorCode.NONE and (told.topic, told.partition) in latest:
                    self._judge_latest(broker, TopicPartition(told.topic, told.partition), told)

    def _fetched(self, broker: int, request: Any, response: Any) -> None:
        """Take note of a fetch response, and of its records even if they are read later."""
        for each in response.partitions if request.replica_id == CONSUMER else ():
            if each.error is ErrorCode.NONE and len(each.records):
                at = TopicPartition(each.topic, each.partition)
                self._judge_consumed(broker, at, each.records)

    def _judge_acknowledged(
        self, broker: int, at: TopicPartition, records: Any, base_offset: int
    ) -> None:
        partition, hosted = self.partitions.get(at), self._hosted(broker, at)
        if partition is None or self._is_outlived(partition, hosted):
            return
        isr_size = len(hosted.isr) if hosted is not None and hosted.is_leader else None
        offset = base_offset
        for batch in parse_batches(records, 0):
            crc, base = batch.crc, offset
            offset += batch.next_offset - batch.base_offset
            self._replies.append(partial(partition.check_acknowledged, base, crc, isr_size))

    def _judge_consumed(self, broker: int, at: TopicPartition, records: Any) -> None:
        partition = self.partitions.get(at)
        if partition is None or self._is_outlived(partition, self._hosted(broker, at)):
            return
        data: bytes | bytearray | memoryview | None = records
        position, end = 0, len(records)
        if isinstance(records, SegmentRecords):  # read on the disk itself, without its faults
            path, position, length = records.place()
            data, end = self._world.brokers[broker].disk.content(path), position + length
        if data is None:
            return
        for batch in parse_batches(data, position):
            if batch.position >= end:
                break
            content = bytes(data[batch.position : batch.position + batch.size_bytes])
            for each in self._stands_for(at, batch, content):
                self._replies.append(partial(partition.check_consumed, each.base_offset, each.crc))

    def _is_outlived(self, partition: PartitionOracle, hosted: Partition | None) -> bool:
        return hosted is not None and partition.is_outlived(hosted.leader_epoch)

    def _judge_latest(self, broker: int, at: TopicPartition, told: Any) -> None:
        partition, hosted = self.partitions.get(at), self._hosted(broker, at)
        if partition is None or hosted is None or not self._is_of(partition, broker, hosted):
            return
        if self._is_outlived(partition, hosted):
            return
        self._replies.append(
            partial(partition.check_latest, told.offset, hosted.leader_epoch, hosted.high_watermark)
        )

    # ------------------------------------------------------------ judging

    def _after_event(self) -> None:
        if not (self._dirty or self._judgements or self._replies):
            return
        changed, self._changed_logs = self._changed_logs, {}
        for broker, at in changed:
            self._judge_log(broker, at)
        judgements, self._judgements = self._judgements, []
        dirty, self._dirty = self._dirty, {}
        replies, self._replies = self._replies, []
        for judge in judgements:
            judge()
        self._judge_replicas(dirty)
        for judge in replies:  # last: records that this event committed count for its replies
            judge()

    def _judge_replicas(self, dirty: Iterable[tuple[int, TopicPartition]]) -> None:
        for broker, at in dirty:
            partition = self.partitions.get(at)
            hosted = self._hosted(broker, at)
            if partition is not None and hosted is not None:
                if self._shadows[str(at)][broker].is_of_deleted_topic:
                    self._judge_old_log(broker, at, hosted)
                elif self._is_of(partition, broker, hosted):
                    self._progress.check(broker, hosted, self._shadows[str(at)])
                    self._log_starts.check(broker, hosted)
                    partition.check_replica(broker, hosted)
                if at.topic == OFFSETS_TOPIC:
                    self._coordinators.check_owner(broker, hosted)

    def _is_of(self, partition: PartitionOracle, broker: int, hosted: Partition) -> bool:
        """Return whether the replica belongs to the present topic, not to a deleted one."""
        is_old = self._shadows[str(partition.topic_partition)][broker].is_of_deleted_topic
        return not is_old and hosted.topic_id in (NO_TOPIC_ID, partition.topic_id)

    def _judge_log(self, broker: int, at: TopicPartition) -> None:
        shadow = self._shadows[str(at)][broker]
        if shadow.is_stale:
            shadow.rescan(self._batch_taps(broker, at))
        partition = self.partitions.get(at)
        if partition is not None and not shadow.is_of_deleted_topic:
            partition.log_changed(broker)

    def _judge_old_log(self, broker: int, at: TopicPartition, hosted: Partition) -> None:
        """I13: a deleted topic's log is not used for a new topic of the same name."""
        leadership = self.partitions[at].leadership
        if (
            leadership is not None
            and hosted.is_leader
            and leadership.leader == broker
            and leadership.leader_epoch == hosted.leader_epoch
        ):
            self.report(at, "I13", f"broker {broker} leads with the log of a deleted topic")

    def _hosted(self, broker: int, at: TopicPartition) -> Partition | None:
        return self._world.hosted(broker, at)

    # ------------------------------------------------------------ disk faults

    def disk_lost(self, broker: int, *, files: tuple[str, ...] = ()) -> None:
        """Read a disk again after a fault of it; the loss is no violation by its broker.

        files: durable files that the fault removed or changed.
        """
        self._restarts.disk_lost(broker, files)
        self._log_starts.disk_lost(broker)
        registered = self._world.registration(broker)
        self._lost_disks.lost(broker, max(registered, self._restarts.registration(broker)))
        for folder, shadows in self._shadows.items():
            shadow = shadows[broker]
            before = shadow.chain
            shadow.rescan(lambda batch, chain: None, verify=True)
            shadow.note_lost_by_disk(before)
            self._changed_logs.pop((broker, TopicPartition.named(folder)), None)
