"""A small effect of each later planted bug, by its name.

Each entry has a probe and its results without and with the planted bug.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from highwater_broker import replica_manager, replication_quotas
from highwater_broker.checkpointer import Checkpointer
from highwater_broker.fetcher_registry import FetcherKey, FetcherRegistry
from highwater_broker.log.checkpoints import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from highwater_broker.log.epoch_file import EpochFile
from highwater_broker.log.storage_identity import StorageIdentity
from highwater_broker.logic.command_fencing import NO_COMMAND, CommandNumber, KnownReplica
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_broker.logic.refused_replicas import RefusedReplicas
from highwater_broker.replica_logs import HostedLog
from highwater_broker.replica_manager import ReplicaManager
from highwater_broker.replication_quotas import Throttling
from highwater_broker.settings import BrokerSettings
from highwater_chaos.faults import DiskOperation
from highwater_controller import alter_partition, election, partition_state_machine
from highwater_controller.context import VersionedLeadership
from highwater_controller.request_batch import RequestBatch
from highwater_core import znodes
from highwater_core.config import Preset, resolve_toggles
from highwater_core.config_layers import MIN_INSYNC_REPLICAS, ConfigLayers
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import (
    AlterPartitionItem,
    IsrMember,
    StopReplicaPartition,
    UpdateMetadataRequest,
)
from highwater_core.ports import ANY_VERSION
from highwater_core.znodes import PartitionLeadership
from highwater_wire.kafka.record_batch import build_batch

ME, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ALL = (ME, TWO, THREE)
T0 = TopicPartition("t", 0)
TOGGLES = resolve_toggles(Preset.FENCED)

Probe = Callable[[Any], object]


# ---------------------------------------------------------------- truncation


def log_start_of_a_follower_whose_leader_begins_where_it_does(bench: Any) -> object:
    follower = bench.lead(batches=2)
    bench.follow(epoch=2)
    follower.append_as_follower(b"", Offset(2), Offset(0), 0)
    return follower.log_start_offset


# ---------------------------------------------------------------- starts


def checkpointed_after_a_power_loss(bench: Any) -> object:
    checkpoint = OffsetCheckpoint(bench.files, HIGH_WATERMARK_CHECKPOINT)
    bench.do(checkpoint.write({T0: Offset(4)}))
    bench.disk.lose_power(spares_nothing=True)
    return dict(checkpoint.read().entries)


def log_end_after_a_flush_and_a_power_loss(bench: Any) -> object:
    bench.do(bench.lead().log.flush())
    bench.disk.lose_power(spares_nothing=True)
    return bench.files.exists(str(T0))


def epoch_after_two_flushes_and_a_power_loss(bench: Any) -> object:
    for epoch in (1, 2):
        bench.do(bench.lead(epoch=epoch).log.flush())
    bench.disk.lose_power(spares_nothing=True)
    cache = EpochFile(bench.files, str(T0)).load()
    return None if cache is None else cache.latest_epoch


def epochs_of_five(bench: Any) -> object:
    cache = EpochCache()
    for epoch in range(5):
        cache = cache.assign(LeaderEpoch(epoch), Offset(epoch))
    return [int(entry.leader_epoch) for entry in cache.entries]


def flush_on_a_failing_disk(bench: Any) -> object:
    partition = bench.lead()
    bench.disk.fail(DiskOperation.SYNC)
    checkpointer = Checkpointer(
        BrokerSettings(node_id=ME),
        TOGGLES,
        bench.runtime,
        bench.trace,
        bench.folders,
        SimpleNamespace(  # type: ignore[arg-type]
            partitions=lambda: (partition,), get=lambda key: partition
        ),
        bench.fail_points(),
    )
    return bench.do(checkpointer.flush())


def identity_after_a_loss(bench: Any) -> object:
    first, second = (StorageIdentity(bench.files, bench.rng, "a boot") for _ in range(2))
    bench.do(first.settle(stopped_cleanly=False))
    bench.do(second.settle(stopped_cleanly=False))
    bench.do(second.renew())
    return second.storage_id == first.storage_id


def high_watermark_of_a_started_replica(bench: Any) -> object:
    manager: Any = SimpleNamespace(
        _context=bench.context,
        _partitions={},
        _logs=bench.folders,
        _topics=SimpleNamespace(
            min_insync_replicas=lambda topic: 1, throttling=lambda key: Throttling()
        ),
    )
    hosted = HostedLog(T0, bench.lead().log, Offset(0), NO_TOPIC_ID)
    return ReplicaManager._host(manager, hosted).high_watermark


def recovery_point_after_a_cut(bench: Any) -> object:
    bench.do(bench.lead().log.flush())
    follower = bench.follow(epoch=2)
    follower.truncate_to(Offset(1), "a test")
    return follower.must_checkpoint


# ---------------------------------------------------------------- late


def stop_of_an_older_epoch(bench: Any) -> object:
    state = PartitionLeadership(ME, LeaderEpoch(3), ControllerEpoch(1), ALL)
    leaderships = {T0: VersionedLeadership(state, PartitionEpoch(0))}
    context = SimpleNamespace(is_to_be_deleted=lambda topic: False, leaderships=leaderships)
    batch: Any = SimpleNamespace(_term=SimpleNamespace(toggles=TOGGLES, context=context))
    stop = StopReplicaPartition(T0, delete_partition=False, leader_epoch=LeaderEpoch(1))
    known = KnownReplica(LeaderEpoch(2), NO_TOPIC_ID)
    error = replica_manager.judge_stop_replica(stop, known, TOGGLES)
    return RequestBatch._stop_epoch(batch, T0), error


def last_command_after_a_late_one(bench: Any) -> object:
    async def update(request: UpdateMetadataRequest) -> dict[TopicPartition, ErrorCode]:
        return {}

    manager: Any = SimpleNamespace(
        fence=lambda request: ErrorCode.NONE,
        _update_metadata=update,
        _ports=SimpleNamespace(trace=bench.trace),
        controller_epoch=ControllerEpoch(1),
        _last_command=CommandNumber(ControllerEpoch(1), 9),
    )
    late = UpdateMetadataRequest(
        NodeId(1000), ControllerEpoch(1), BrokerEpoch(1), (), (), correlation_id=3
    )
    bench.do(ReplicaManager.carry_out(manager, late))
    return manager._last_command.correlation_id


def high_watermark_after_a_repeat(bench: Any) -> object:
    leader = bench.lead(isr=(ME,))
    manager: Any = SimpleNamespace(
        _partitions={T0: leader},
        _context=bench.context,
        _toggles=TOGGLES,
        _refused=RefusedReplicas(),
        _logs=bench.folders,
    )
    ReplicaManager._judge(manager, bench.command(ME, 1, (ME,)), NO_COMMAND, is_late=False)
    return leader.high_watermark


def answer_to_an_isr_of_an_old_version(bench: Any) -> object:
    state = PartitionLeadership(ME, LeaderEpoch(3), ControllerEpoch(1), (ME,))
    context = SimpleNamespace(
        leaderships={T0: VersionedLeadership(state, PartitionEpoch(2))},
        is_to_be_deleted=lambda topic: False,
        topic_id=lambda topic: NO_TOPIC_ID,
        assignments={T0: ALL},
    )
    term: Any = SimpleNamespace(context=context, toggles=TOGGLES)
    members = (IsrMember(ME, BrokerEpoch(1)), IsrMember(TWO, BrokerEpoch(1)))
    item = AlterPartitionItem(T0, LeaderEpoch(3), members, PartitionEpoch(1))
    return alter_partition._find_refusal(term, ME, item)


def version_with_which_an_epoch_is_set(bench: Any) -> object:
    return election.SetOp(znodes.CONTROLLER_EPOCH, b"2", 3).expected_version


def high_watermark_while_another_is_eligible(bench: Any) -> object:
    leader = bench.lead(isr=(ME,))
    leader.role.settle(replace(leader.role.committed, elr=(TWO,)))
    leader.append(build_batch([(None, b"value", 1_000)]), 1, 0)
    return leader.high_watermark


# ---------------------------------------------------------------- fetchers


def removed_from_a_second_fetcher(bench: Any) -> object:
    removed: list[TopicPartition] = []

    def remove(key: TopicPartition) -> object:
        removed.append(key)
        return SimpleNamespace(
            is_truncation_due=False, partition=SimpleNamespace(trace=lambda kind: None)
        )

    context: Any = SimpleNamespace(settings=SimpleNamespace(num_replica_fetchers=2))
    registry = FetcherRegistry(context, SimpleNamespace())  # type: ignore[arg-type]
    second = FetcherKey(TWO, 1, False)
    registry._fetcher_of[T0] = second
    registry._fetchers[second] = (SimpleNamespace(remove=remove), None)  # type: ignore[assignment]
    registry.remove(T0)
    return removed


# ---------------------------------------------------------------- configurations


def minimum_that_a_topic_sets(bench: Any) -> object:
    return ConfigLayers({MIN_INSYNC_REPLICAS: "2"}, {}, {}, {}).value(MIN_INSYNC_REPLICAS)


def allowed_where_nothing_is_set(bench: Any) -> object:
    async def get(path: str) -> None:
        return None

    term: Any = SimpleNamespace(
        toggles=TOGGLES,
        store=SimpleNamespace(get=get),
        context=SimpleNamespace(broker_configs={}),
    )
    return bench.do(partition_state_machine.allows_unclean_election(term, "t"))


def quota_after_a_minute(bench: Any) -> object:
    quota = replication_quotas.ReplicationQuota(bench.runtime)
    quota.limit_bytes_per_s = 1
    quota.record(1_000)
    bench.kernel.run_for(60_000)
    return quota.is_exceeded()


def minimum_after_it_was_raised(bench: Any) -> object:
    partition = bench.lead()
    partition.take_min_insync_replicas(2)
    return partition.min_insync_replicas


LATER: dict[str, tuple[Probe, object, object]] = {
    "later_fetchers_go_on": (removed_from_a_second_fetcher, [T0], []),
    "raised_minimum_ignored": (minimum_after_it_was_raised, 2, 1),
    "throttled_for_ever": (quota_after_a_minute, False, True),
    "topic_configs_count_last": (minimum_that_a_topic_sets, 2, 1),
    "unclean_election_unasked": (allowed_where_nothing_is_set, False, True),
    "follower_starts_over_too_high": (
        log_start_of_a_follower_whose_leader_begins_where_it_does,
        0,
        2,
    ),
    "checkpoint_written_in_place": (checkpointed_after_a_power_loss, {T0: 4}, {}),
    "checkpoint_renamed_unsynced": (checkpointed_after_a_power_loss, {T0: 4}, {}),
    "names_not_synced": (log_end_after_a_flush_and_a_power_loss, True, False),
    "epochs_synced_once": (epoch_after_two_flushes_and_a_power_loss, 2, 1),
    "epochs_forgotten": (epochs_of_five, [0, 1, 2, 3, 4], [0, 3, 4]),
    "clean_stop_after_failed_flush": (flush_on_a_failing_disk, {T0}, set()),
    "loss_keeps_storage_id": (identity_after_a_loss, False, True),
    "starts_at_log_end": (high_watermark_of_a_started_replica, 0, 2),
    "fallen_recovery_point_kept": (recovery_point_after_a_cut, True, False),
    "older_stop_accepted": (
        stop_of_an_older_epoch,
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (2, ErrorCode.NONE),
    ),
    "late_command_is_the_last": (last_command_after_a_late_one, 9, 3),
    "repeat_resets_high_watermark": (high_watermark_after_a_repeat, 2, 0),
    "isr_of_any_version_written": (
        answer_to_an_isr_of_an_old_version,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NONE,
    ),
    "controller_epoch_unconditional": (version_with_which_an_epoch_is_set, 3, ANY_VERSION),
    "eligible_not_waited_for": (high_watermark_while_another_is_eligible, 2, 3),
}
