"""Every planted bug changes a small effect of node code, and only within its block."""

from __future__ import annotations

import ast
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import highwater_planted
from highwater_broker import fetcher, partition, replica_manager
from highwater_broker.become_follower import become_follower
from highwater_broker.become_leader import become_leader
from highwater_broker.checkpointer import Checkpointer
from highwater_broker.current_session import CurrentSession
from highwater_broker.isr_writer import AlterPartitionWriter
from highwater_broker.kafka_api.fetch import FetchHandler
from highwater_broker.log.checkpoints import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import stamp
from highwater_broker.log_folders import LogFolders
from highwater_broker.logic.command_fencing import KnownReplica
from highwater_broker.logic.epoch_cache import EpochCache, EpochEnd, EpochStart
from highwater_broker.partition import Partition
from highwater_broker.partition_context import PartitionContext
from highwater_broker.replica_logs import ReplicaLogs
from highwater_broker.replication_quotas import ReplicationQuotas
from highwater_broker.settings import BrokerSettings
from highwater_broker.topic_settings import TopicSettings
from highwater_controller import broker_changes, partition_state_machine
from highwater_controller.context import ControllerContext, VersionedLeadership
from highwater_controller.logic.leader_selectors import Elected
from highwater_controller.logic.leadership_change import LeadershipChange
from highwater_controller.node import ControllerNode
from highwater_controller.settings import ControllerSettings
from highwater_core.admin_messages import ConfigEntity
from highwater_core.check import BugFound
from highwater_core.config import INVARIANTS, PRESETS, Preset, Toggles, resolve_toggles
from highwater_core.config_layers import EVERY_BROKER, ConfigOwner
from highwater_core.errors import ErrorCode
from highwater_core.fail_points import BROKER_FAIL_POINTS, FailPoints
from highwater_core.ids import (
    NO_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import BrokerEndpoints, LeaderAndIsrPartition
from highwater_core.ports import CallFailed, Ports, Stat
from highwater_core.traces import TraceRecorder
from highwater_core.znodes import PartitionLeadership, encode_broker
from highwater_planted import PLANTED, FaultFamily, PlantedBug, Replacement, planted
from highwater_simulator.files import Disk, SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Network
from highwater_simulator.rng import SeededRng
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory
from highwater_wire.kafka.record_batch import build_batch, split_batches
from tests.support.open_logs import open_log

from .compaction_probes import COMPACTION
from .folder_probes import FOLDERS
from .group_probes import GROUPS
from .job_probes import JOBS
from .later_probes import LATER
from .later_row_probes import LATER_ROW_PROBES
from .offsets_probes import OFFSETS
from .sequence_probes import SEQUENCES

ME, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ALL = (ME, TWO, THREE)
T0 = TopicPartition("t", 0)
LAG_MS = 1_000
TWOS_EPOCH = BrokerEpoch(7)
BATCH = build_batch([(None, b"value", 1_000)])
EPOCHS = EpochCache((EpochStart(LeaderEpoch(0), Offset(0)), EpochStart(LeaderEpoch(1), Offset(5))))


def toggles() -> Toggles:
    return resolve_toggles(Preset.FENCED)


class Bench:
    """One broker's surroundings in virtual time; a partition of its own."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("broker-1")
        self.rng = SeededRng(1)
        self.trace = TraceRecorder(self.runtime, ME, 1, lambda event: None)
        self.disk = Disk(self.rng.stream("disk"))
        self.files = SimulatedFileSystem(self.runtime, self.disk)
        self.logs = ReplicaLogs(
            self.files, self.trace, ME, "cluster", lambda topic: LogConfig(), self.fail_points()
        )
        self.folders = LogFolders([self.logs], None)
        self.proposed: list[Partition] = []
        self.fetched: list[bool] = []
        self.registry: Any = SimpleNamespace(
            remove=lambda key: None,
            knows=lambda leader: True,
            add=lambda partition, leader, truncates, is_in_sync: self.fetched.append(truncates),
        )
        self.context = PartitionContext(
            broker_id=ME,
            toggles=toggles(),
            runtime=self.runtime,
            trace=self.trace,
            replica_lag_time_max_ms=LAG_MS,
            quotas=ReplicationQuotas(self.runtime),
            wake=lambda key: None,
            propose_isr=self.proposed.append,
            disk_refused=lambda key: None,
            registered_epoch={TWO: TWOS_EPOCH, THREE: TWOS_EPOCH}.get,
        )
        self.partition = Partition(
            self.context,
            T0,
            self.open_log(),
            high_watermark=Offset(0),
            min_insync_replicas=1,
            topic_id=NO_TOPIC_ID,
        )

    def fail_points(self) -> FailPoints:
        return FailPoints(self.runtime, self.trace, self.runtime.kill, BROKER_FAIL_POINTS)

    def open_log(self) -> Log:
        log, _ = open_log(
            self.files, str(T0), LogConfig(), clean_shutdown=False, recovery_point=Offset(0)
        )
        return log

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        answers: list[Any] = []

        async def run() -> None:
            answers.append(await work)

        self.runtime.start("probe", run())
        self.kernel.run_for(500)
        return answers[0]

    def command(self, leader: NodeId, epoch: int, isr: tuple[NodeId, ...]) -> LeaderAndIsrPartition:
        return LeaderAndIsrPartition(T0, leader, LeaderEpoch(epoch), isr, PartitionEpoch(0), ALL)

    def lead(self, isr: tuple[NodeId, ...] = ALL, batches: int = 2, epoch: int = 1) -> Partition:
        become_leader(
            self.partition,
            self.command(ME, epoch, isr),
            ControllerEpoch(1),
            fetchers=self.registry,
            toggles=toggles(),
            now_ms=self.runtime.now_ms(),
        )
        for _ in range(batches):
            self.partition.append(BATCH, 1, 0)
        return self.partition

    def follow(self, epoch: int = 1) -> Partition:
        become_follower(
            self.partition,
            self.command(TWO, epoch, ALL),
            ControllerEpoch(1),
            fetchers=self.registry,
            toggles=toggles(),
        )
        return self.partition

    def fetch(self, replica: NodeId, offset: int) -> None:
        self.partition.record_follower_fetch(
            replica, TWOS_EPOCH, Offset(offset), self.runtime.now_ms()
        )


# ---------------------------------------------------------------- truncation


def first_step(bench: Bench) -> object:
    return fetcher.first_step(toggles().truncation, EPOCHS, Offset(3), Offset(8))


def step_after(bench: Bench, epoch: int, end: int, high_watermark: int) -> Any:
    answer = EpochEnd(LeaderEpoch(epoch), Offset(end))
    step = fetcher.after_answer(
        toggles().truncation, answer, EPOCHS, Offset(high_watermark), Offset(8)
    )
    return step.offset


def follows_the_same_leader_on(bench: Bench) -> object:
    bench.follow(epoch=1)
    bench.follow(epoch=3)
    return bench.fetched


def latest_epoch_of_new_leader(bench: Bench) -> object:
    return bench.lead(batches=0).log.epoch_cache.latest_epoch


def epochs_after_truncation(bench: Bench) -> object:
    log = bench.lead().log
    log.append_as_leader(BATCH, LeaderEpoch(4), 0)
    log.truncate_to(Offset(1))
    return log.epoch_cache.latest_epoch


def end_and_borrowers_after_a_deposed_leaders_batch(bench: Bench) -> object:
    """Return the log's end after a batch above the followed epoch, and the borrowers of a cut."""
    log, notified = bench.lead().log, []
    (newer,) = split_batches(BATCH)
    sent = b"".join(bytes(part) for part in stamp(newer, log.log_end_offset, LeaderEpoch(2)))
    log.append_as_follower(sent, 0, LeaderEpoch(1))
    end = log.log_end_offset
    lent = log.read(Offset(0), 1 << 20, end).records
    assert not isinstance(lent, bytes)
    lent.borrow(lambda: notified.append("cut"))
    log.truncate_to(Offset(1))
    return end, notified


def log_start_of_a_follower_whose_leader_begins_at_its_end(bench: Bench) -> object:
    follower = bench.lead(batches=2)
    bench.follow(epoch=2)
    follower.append_as_follower(b"", Offset(2), Offset(2), 0)
    return follower.log_start_offset, follower.must_checkpoint


def takes_an_answer_of_a_partition_it_fetches_no_more(bench: Bench) -> object:
    followed = fetcher._Followed(
        bench.partition, LeaderEpoch(1), fetcher.Phase.FETCHING, is_in_sync=True
    )
    context = SimpleNamespace(ports=SimpleNamespace(runtime=bench.runtime))
    return fetcher.ReplicaFetcher(context, TWO, "f")._is_current(followed)  # type: ignore[arg-type]


def answer_to_a_caller_of_an_older_epoch(bench: Bench) -> object:
    return bench.lead().check_leadership(LeaderEpoch(0))


# ---------------------------------------------------------------- commitment


def high_watermark_when_one_of_two_has_fetched(bench: Bench, offset: int) -> object:
    leader = bench.lead()
    bench.fetch(TWO, offset)
    return leader.high_watermark


def high_watermark_of_uneven_followers(bench: Bench) -> object:
    leader = bench.lead()
    bench.fetch(TWO, 2)
    bench.fetch(THREE, 1)
    return leader.high_watermark


def high_watermark_once_all_ask_for_the_first_record(bench: Bench) -> object:
    leader = bench.lead()
    bench.fetch(TWO, 0)
    bench.fetch(THREE, 0)
    return leader.high_watermark


def high_watermark_while_a_shrink_is_unwritten(bench: Bench) -> object:
    leader = bench.lead()
    bench.kernel.run_for(LAG_MS + 1)
    bench.fetch(TWO, 2)
    leader.maybe_shrink_isr(bench.runtime.now_ms())
    leader.maybe_advance_high_watermark()
    return len(bench.proposed), leader.high_watermark


def progress_after_a_fenced_fetch(bench: Bench) -> object:
    leader = bench.lead()
    part = SimpleNamespace(
        partition=leader,
        error=ErrorCode.FENCED_LEADER_EPOCH,
        item=SimpleNamespace(fetch_offset=Offset(2)),
    )
    handler: Any = SimpleNamespace(_runtime=bench.runtime)
    request: Any = SimpleNamespace(replica_id=TWO, replica_epoch=TWOS_EPOCH)
    FetchHandler._record_progress(handler, request, [part])  # type: ignore[list-item]
    return part.error, leader.snapshot().followers[0].log_end_offset


def progress_after_a_late_fetch_of_an_earlier_registration(bench: Bench) -> object:
    leader = bench.lead()
    bench.fetch(TWO, 1)
    earlier = BrokerEpoch(TWOS_EPOCH - 1)
    error = leader.record_follower_fetch(TWO, earlier, Offset(2), bench.runtime.now_ms())
    return error, leader.snapshot().followers[0].log_end_offset


def status_of_an_append_that_nobody_has(bench: Bench) -> object:
    leader = bench.lead()
    return leader.acks_all_status(Offset(2), leader.leader_epoch)


def min_insync_replicas(bench: Bench) -> object:
    settings = BrokerSettings(node_id=ME, min_insync_replicas=2)
    topics = TopicSettings(
        settings, bench.runtime, bench.trace, CurrentSession(), lambda topic: None
    )
    topic, broker = ConfigOwner(ConfigEntity.TOPIC, "t"), ConfigOwner(ConfigEntity.BROKER, str(ME))
    topics._reader._known |= {topic: {}, broker: {}, EVERY_BROKER: {}}
    return topics.min_insync_replicas("t")


def bytes_for_a_consumer_of_uncommitted_records(bench: Bench) -> object:
    return len(bench.lead().read(Offset(0), 10_000, for_follower=False).records) > 0


def error_for_a_consumer_of_the_logs_end(bench: Bench) -> object:
    leader = bench.lead()
    return leader.read(leader.log_end_offset, 10_000, for_follower=False).error


def latest_offset_of_a_new_leader(bench: Bench) -> object:
    bench.lead()
    return bench.lead(epoch=2).latest_offset_for_clients()


def latest_offset_of_uncommitted_records(bench: Bench) -> object:
    leader = bench.lead(batches=0)
    leader.append(BATCH, 1, 0)
    return leader.latest_offset_for_clients()


def append_at_a_follower(bench: Bench) -> object:
    follower = bench.follow()
    return follower.append(BATCH, 1, 0).error, follower.log_end_offset


def high_watermark_of_an_empty_follower(bench: Bench) -> object:
    follower = bench.follow()
    follower.append_as_follower(b"", Offset(9), Offset(0), 0)
    return follower.high_watermark


# ---------------------------------------------------------------- ISR


def proposals_after_a_fetch_from_far_behind(bench: Bench) -> object:
    bench.lead(isr=(ME,))
    bench.fetch(TWO, 0)
    return len(bench.proposed)


def joins_below_the_epochs_start(bench: Bench) -> object:
    return partition.may_join(Offset(5), Offset(3), Offset(9), toggles().isr_join)


def proposals_after_a_fetch_of_a_gone_incarnation(bench: Bench) -> object:
    leader = bench.lead(isr=(ME,))
    leader.record_follower_fetch(TWO, BrokerEpoch(3), Offset(2), 0)
    return len(bench.proposed)


def proposals_when_two_lag(bench: Bench) -> object:
    leader = bench.lead()
    bench.kernel.run_for(LAG_MS + 1)
    return leader.maybe_shrink_isr(bench.runtime.now_ms()), len(bench.proposed)


def version_after_an_isr_was_written(bench: Bench) -> object:
    leader = bench.lead(isr=(ME,))
    bench.fetch(TWO, 2)
    proposal = leader.proposal()
    assert proposal is not None
    leader.adopt_isr(proposal, proposal.isr, PartitionEpoch(5), ())
    return leader.isr, leader.partition_epoch


def isr_after_a_write_without_an_answer(bench: Bench) -> object:
    leader = bench.lead()
    bench.kernel.run_for(LAG_MS + 1)
    leader.maybe_shrink_isr(bench.runtime.now_ms())

    async def unanswered(request: object, response_type: type, timeout_ms: int) -> object:
        raise CallFailed("no answer")

    writer = AlterPartitionWriter(
        BrokerSettings(node_id=ME),
        bench.runtime,
        SimpleNamespace(call=unanswered),  # type: ignore[arg-type]
        CurrentSession(),
        SimpleNamespace(broker_epoch=BrokerEpoch(1)),
        bench.fail_points(),
    )
    writer.submit(leader)
    bench.runtime.start("writer", writer.run())
    bench.kernel.run_for(50)
    return leader.isr


# ---------------------------------------------------------------- commands


def fence(bench: Bench, controller_epoch: int, broker_epoch: int) -> object:
    return replica_manager.fence_request(
        controller_epoch=ControllerEpoch(controller_epoch),
        known_controller_epoch=ControllerEpoch(2),
        broker_epoch=BrokerEpoch(broker_epoch),
        own_broker_epoch=BrokerEpoch(9),
        toggles=toggles(),
    )


def verdict_on_an_older_leader_epoch(bench: Bench) -> object:
    verdict, error = replica_manager.judge_leader_and_isr(
        bench.command(ME, 1, ALL), KnownReplica(LeaderEpoch(2), NO_TOPIC_ID), ME, toggles()
    )
    return verdict.value, error


# ---------------------------------------------------------------- controllers


def elected_while_the_head_is_out_of_sync(bench: Bench) -> object:
    return partition_state_machine.elect_offline(
        ALL, (TWO, THREE), frozenset((ME, THREE)), unclean=False
    )


def epoch_that_an_election_writes(bench: Bench) -> object:
    state = PartitionLeadership(
        leader=ME, leader_epoch=LeaderEpoch(4), controller_epoch=ControllerEpoch(1), isr=ALL
    )

    async def set_leaderships(changes: Sequence[object]) -> list[PartitionEpoch]:
        return [PartitionEpoch(3) for _ in changes]

    async def each(items: Sequence[object], work: object) -> list[object]:
        assert not items
        return []

    context = ControllerContext(NodeId(1000), ControllerEpoch(1))
    context.leaderships[T0] = VersionedLeadership(state, PartitionEpoch(2))
    term: Any = SimpleNamespace(
        epoch=SimpleNamespace(controller_epoch=ControllerEpoch(1)),
        toggles=PRESETS[Preset.V3],
        emit=lambda kind, partition, **detail: None,
        store=SimpleNamespace(set_leaderships=set_leaderships, each=each),
        context=context,
    )
    elected = LeadershipChange(TWO, (TWO,))
    updates = bench.do(partition_state_machine.update_leaderships(term, {T0: lambda _: elected}))
    return updates[T0].written.leadership.leader_epoch


def epoch_seen_of_a_broker_that_registered_anew(bench: Bench) -> object:
    endpoint = Endpoint("broker-1", 9092)
    broker = BrokerEndpoints(ME, BrokerEpoch(5), endpoint, endpoint, endpoint, endpoint)

    async def children(path: str, *, watch: bool) -> list[str]:
        return ["1"]

    async def get(path: str, *, watch: bool) -> tuple[bytes, Stat]:
        return encode_broker(broker, 0), Stat(czxid=9, mzxid=9, node_version=0, ephemeral_owner=1)

    context = ControllerContext(NodeId(1000), ControllerEpoch(1))
    context.set_live([broker])
    term: Any = SimpleNamespace(store=SimpleNamespace(children=children, get=get), context=context)
    return bench.do(broker_changes.read_brokers(term))[ME].broker_epoch


def controller_whose_session_expires(bench: Bench) -> object:
    """Return the epoch in which it acts some time after, and whether /controller is there."""
    runtime = bench.kernel.runtime("controller-1000")
    network = Network(bench.kernel, bench.rng.stream("network"))
    zookeeper = ZooKeeper(bench.kernel, network)
    ports = Ports(
        runtime=runtime,
        coordination=SimulatedCoordinationFactory(zookeeper, runtime),
        control=SimpleNamespace(serve=lambda handler: None),  # type: ignore[arg-type]
        transport=None,  # type: ignore[arg-type]
        files=bench.files,
        rng=bench.rng,
        trace=bench.trace,
        exit_now=runtime.kill,
    )
    node = ControllerNode(ControllerSettings(node_id=NodeId(1000)), ports)
    runtime.start("main", node.run())
    bench.kernel.run_for(2_000)
    for session_id in zookeeper.session_ids("controller-1000"):
        zookeeper.expire(session_id)
    bench.kernel.run_for(5_000)
    return node.snapshot().controller_epoch, "/controller" in zookeeper.dump()


# ---------------------------------------------------------------- storage


def checkpointed_of_a_follower(bench: Bench) -> object:
    replica = bench.follow()
    checkpointer = Checkpointer(
        BrokerSettings(node_id=ME),
        toggles(),
        bench.runtime,
        bench.trace,
        bench.folders,
        SimpleNamespace(  # type: ignore[arg-type]
            partitions=lambda: (replica,), get=lambda key: replica
        ),
        bench.fail_points(),
    )
    bench.do(checkpointer.write_high_watermarks())
    return dict(bench.logs.high_watermarks.read().entries)


def checkpointed_as_read(bench: Bench) -> object:
    checkpoint = OffsetCheckpoint(bench.files, HIGH_WATERMARK_CHECKPOINT)
    bench.do(checkpoint.write({T0: Offset(4)}))
    return dict(checkpoint.read().entries)


def outcome_of_a_flush(bench: Bench) -> object:
    log = bench.lead().log
    return bench.do(log.flush()), log.segments[-1].is_synced()


def log_end_after_the_last_batch_was_torn(bench: Bench) -> object:
    log = bench.lead().log
    log.close()
    (name,) = (name for name in bench.files.list(str(T0)) if name.endswith(".log"))
    file = bench.files.open(f"{T0}/{name}")
    file.truncate(file.size_bytes - 1)
    file.append([b"\xff"])
    return bench.open_log().log_end_offset


def log_end_of_a_topic_created_again(bench: Bench) -> object:
    key = TopicPartition("again", 0)
    first = bench.do(bench.logs.create(key, TopicId("first"), LogConfig())).log
    first.append_as_leader(BATCH, LeaderEpoch(0), 0)
    first.delete()
    return bench.do(bench.logs.create(key, TopicId("second"), LogConfig())).log.log_end_offset


# ---------------------------------------------------------------- the table

Probe = Callable[[Bench], object]
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
FENCED = ErrorCode.FENCED_LEADER_EPOCH

EXPECTED: dict[str, tuple[Probe, object, object]] = {
    "truncate_nothing": (first_step, fetcher.AskLeader(LeaderEpoch(1)), fetcher.TruncateTo(8)),
    "truncate_below_high_watermark": (lambda bench: step_after(bench, 1, 8, 6), 8, 5),
    "truncate_to_high_watermark": (
        first_step,
        fetcher.AskLeader(LeaderEpoch(1)),
        fetcher.TruncateTo(3),
    ),
    "truncate_by_offset_only": (lambda bench: step_after(bench, 0, 7, 0), 5, 7),
    "truncate_on_leader_change_only": (follows_the_same_leader_on, [True, True], [True, False]),
    "epoch_not_persisted_on_election": (latest_epoch_of_new_leader, 1, NO_EPOCH),
    "epoch_cache_not_truncated": (epochs_after_truncation, 1, 4),
    "newer_epoch_appended": (
        end_and_borrowers_after_a_deposed_leaders_batch,
        (2, ["cut"]),
        (3, []),
    ),
    "divergence_below_start_kept": (
        log_start_of_a_follower_whose_leader_begins_at_its_end,
        (2, True),
        (2, False),
    ),
    "late_answer_taken": (takes_an_answer_of_a_partition_it_fetches_no_more, False, True),
    "fetch_not_fenced": (answer_to_a_caller_of_an_older_epoch, FENCED, ErrorCode.NONE),
    "high_watermark_ignores_slowest": (high_watermark_of_uneven_followers, 1, 2),
    "high_watermark_skips_silent_members": (
        lambda bench: high_watermark_when_one_of_two_has_fetched(bench, 2),
        0,
        2,
    ),
    "high_watermark_counts_what_was_sent": (
        high_watermark_once_all_ask_for_the_first_record,
        0,
        2,
    ),
    "high_watermark_over_proposed_isr": (
        high_watermark_while_a_shrink_is_unwritten,
        (1, 0),
        (1, 2),
    ),
    "high_watermark_counts_stale_fetchers": (
        progress_after_a_fenced_fetch,
        (FENCED, -1),
        (FENCED, 2),
    ),
    "high_watermark_counts_earlier_registrations": (
        progress_after_a_late_fetch_of_an_earlier_registration,
        (NOT_LEADER, 1),
        (ErrorCode.NONE, 2),
    ),
    "acknowledged_on_append": (status_of_an_append_that_nobody_has, None, ErrorCode.NONE),
    "min_insync_replicas_ignored": (min_insync_replicas, 2, 1),
    "uncommitted_served_to_consumers": (bytes_for_a_consumer_of_uncommitted_records, False, True),
    "consumer_refused_above_high_watermark": (
        error_for_a_consumer_of_the_logs_end,
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ),
    "latest_offset_told_too_early": (
        latest_offset_of_a_new_leader,
        (ErrorCode.OFFSET_NOT_AVAILABLE, -1),
        (ErrorCode.NONE, 0),
    ),
    "latest_offset_is_the_logs_end": (
        latest_offset_of_uncommitted_records,
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 1),
    ),
    "deposed_leader_appends": (append_at_a_follower, (NOT_LEADER, 0), (ErrorCode.NONE, 1)),
    "follower_high_watermark_beyond_its_log": (high_watermark_of_an_empty_follower, 0, 9),
    "isr_joins_too_early": (proposals_after_a_fetch_from_far_behind, 0, 1),
    "isr_joins_at_high_watermark": (joins_below_the_epochs_start, False, True),
    "isr_join_ignores_broker_epoch": (proposals_after_a_fetch_of_a_gone_incarnation, 0, 1),
    "isr_never_shrinks": (proposals_when_two_lag, (True, 1), (False, 0)),
    "partition_epoch_not_adopted": (version_after_an_isr_was_written, ((1, 2), 5), ((1, 2), 0)),
    "unknown_isr_write_taken_for_done": (isr_after_a_write_without_an_answer, ALL, (ME,)),
    "stale_controller_accepted": (
        lambda bench: fence(bench, controller_epoch=1, broker_epoch=9),
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.NONE,
    ),
    "older_leader_epoch_accepted": (
        verdict_on_an_older_leader_epoch,
        ("refuse", FENCED),
        ("apply", ErrorCode.NONE),
    ),
    "earlier_registration_accepted": (
        lambda bench: fence(bench, controller_epoch=2, broker_epoch=8),
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.NONE,
    ),
    "election_outside_isr": (
        elected_while_the_head_is_out_of_sync,
        Elected(THREE, (THREE,)),
        Elected(ME, (ME, THREE)),
    ),
    "leader_epoch_reused": (epoch_that_an_election_writes, 5, 4),
    "bounce_unseen": (epoch_seen_of_a_broker_that_registered_anew, 9, 5),
    "controller_acts_after_expiry": (controller_whose_session_expires, (2, True), (1, False)),
    "checkpoint_lists_led_partitions_only": (
        checkpointed_of_a_follower,
        {T0: 0},
        {},
    ),
    "checkpoint_skipped": (checkpointed_of_a_follower, {T0: 0}, {}),
    "checkpoint_not_read": (checkpointed_as_read, {T0: 4}, {}),
    "flush_lies": (outcome_of_a_flush, (2, True), (2, False)),
    "recovery_keeps_torn_batch": (log_end_after_the_last_batch_was_torn, 1, 2),
    "deleted_log_reused": (log_end_of_a_topic_created_again, 0, 1),
    **LATER,
    **JOBS,
    **FOLDERS,
    **COMPACTION,
    **SEQUENCES,
    **OFFSETS,
    **GROUPS,
    **LATER_ROW_PROBES,
}


def probed(name: str) -> object:
    bench = Bench()
    try:
        return EXPECTED[name][0](bench)
    finally:
        bench.kernel.close()


@pytest.mark.parametrize("name", list(PLANTED))
def test_a_planted_bug_shows_within_its_block_and_nowhere_else(name: str) -> None:
    _, sound, mistaken = EXPECTED[name]
    assert probed(name) == sound
    with planted(name):
        assert probed(name) == mistaken
    assert probed(name) == sound


@pytest.mark.parametrize("bug", list(PLANTED.values()), ids=list(PLANTED))
def test_a_planted_bug_is_described(bug: PlantedBug) -> None:
    assert bug.toggles or bug.replacements
    assert set(bug.breaks) <= set(INVARIANTS)
    assert bug.breaks
    assert bug.shows_under
    assert all(isinstance(family, FaultFamily) for family in bug.shows_under)
    assert resolve_toggles(Preset.FENCED, bug.toggles) != PRESETS[Preset.V3]


@pytest.mark.parametrize("bug", list(PLANTED.values()), ids=list(PLANTED))
def test_leaving_the_block_restores_everything_even_after_an_error(bug: PlantedBug) -> None:
    def places() -> list[object]:
        found = [vars(each.owner)[each.attribute] for each in bug.replacements]
        return [*found, PRESETS[Preset.FENCED]]

    def fail_in_the_block() -> None:
        with bug.apply():
            during.append(places())
            raise ValueError("in the block")

    before, during = places(), []
    with pytest.raises(ValueError, match="in the block"):
        fail_in_the_block()
    assert during != [before]
    assert places() == before


def test_planted_bugs_need_node_code_only() -> None:
    """So that a container image can carry them without the simulator's kernel."""
    folder = Path(highwater_planted.__file__).parent
    imported = {
        (node.module or "").split(".")[0]
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and not (node.module or "").startswith("highwater_planted")
    }
    ours = {name for name in imported if name.startswith("highwater")}
    assert ours == {"highwater_broker", "highwater_controller", "highwater_core"}


def test_planting_over_a_missing_function_is_refused_before_anything_changes() -> None:
    bug = PlantedBug(
        name="nowhere",
        summary="",
        source="own",
        breaks=("I1",),
        shows_under=(FaultFamily.NONE,),
        toggles={"topic_id": False},
        replacements=(
            Replacement(fetcher, "first_step", None),
            Replacement(fetcher, "no_such_function", None),
        ),
    )
    before = fetcher.first_step
    with pytest.raises(BugFound, match="no_such_function"), bug.apply():
        pass
    assert (fetcher.first_step, toggles().topic_id) == (before, True)
