"""A partition that broker 0 hosts: the real one, over a log in a simulated folder.

Tests have it lead, append, commit and lose its role; it counts the calls of the Kafka API.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from highwater_broker.become_follower import become_follower
from highwater_broker.become_leader import become_leader
from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.time_lookup import Steps
from highwater_broker.partition import Partition
from highwater_broker.partition_context import PartitionContext, ReadOutcome
from highwater_broker.replication_quotas import ReplicationQuotas
from highwater_broker.roles import Leading
from highwater_core.config import Preset, resolve_toggles
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import LeaderAndIsrPartition
from highwater_core.ports import Trace
from highwater_simulator.files import Disk, SimulatedFileSystem
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime
from highwater_wire.kafka.messages import Records
from highwater_wire.kafka.record_batch import build_batch, decode_records, split_batches
from tests.support.open_logs import open_log

ME, ONE, TWO = NodeId(0), NodeId(1), NodeId(2)
KEEPER = NodeId(9)
"""A member of the ISR that fetches only when a test commits."""
EPOCH = LeaderEpoch(3)


def batch(value: bytes, timestamp: int = 1_000) -> bytes:
    """Return a batch of one record."""
    return build_batch([(None, value, timestamp)])


def size_bytes(*values: bytes) -> int:
    """Return the total size of the batches of these values."""
    return sum(len(batch(value)) for value in values)


def values_of(records: Records) -> list[bytes]:
    """Return the values of whole batches' records."""
    data = records if isinstance(records, bytes | memoryview) else records.read()
    return [
        record.value or b"" for each in split_batches(data) for record in decode_records(each.data)
    ]


class Hosted(dict[TopicPartition, Any]):
    """Partitions in place of a replica manager; those in `failed` are in a failed log folder."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[TopicPartition] = set()

    def has_failed(self, key: TopicPartition) -> bool:
        return key in self.failed


class _NoFetchers:
    """A registry of fetchers that fetches no partition."""

    def add(self, *_: Any, **__: Any) -> None:
        pass

    def remove(self, _: TopicPartition) -> bool:
        return False

    def knows(self, _: NodeId) -> bool:
        return True


_FETCHERS = cast(FetcherRegistry, _NoFetchers())


class HostedPartition(Partition):
    """A leader from epoch 3 on, with brokers 1 and 9 in its ISR; broker 2 is assigned, too.

    No record is committed before a call of `commit`: broker 9 fetches at no other time.
    """

    def __init__(
        self,
        key: TopicPartition,
        surroundings: Surroundings,
        *,
        preset: Preset = Preset.FENCED,
        topic_id: TopicId = NO_TOPIC_ID,
        log_start_offset: int = 0,
    ) -> None:
        start_offset = Offset(log_start_offset)
        log, _ = open_log(
            surroundings.files,
            str(key),
            LogConfig(),
            clean_shutdown=False,
            recovery_point=start_offset,
            log_start_offset=start_offset,
        )
        super().__init__(
            replace(surroundings.context, toggles=resolve_toggles(preset, "")),
            key,
            log,
            high_watermark=start_offset,
            min_insync_replicas=1,
            topic_id=topic_id,
        )
        self.reads = 0
        self.follower_fetches: list[tuple[int, int, int]] = []
        """Replica, its broker epoch and fetch offset, of each fetch that was counted."""
        self.repeated_fetches: list[int] = []
        self.lookup_steps = 1
        """The number of steps that a lookup by time takes."""
        self.lookup_steps_done = 0
        self.lead_in(EPOCH)

    # ------------------------------------------------------------ called by the API

    def read(self, fetch_offset: Offset, max_bytes: int, for_follower: bool) -> ReadOutcome:
        self.reads += 1
        return super().read(fetch_offset, max_bytes, for_follower)

    def record_follower_fetch(
        self, replica_id: NodeId, replica_epoch: BrokerEpoch, fetch_offset: Offset, now_ms: int
    ) -> ErrorCode:
        error = super().record_follower_fetch(replica_id, replica_epoch, fetch_offset, now_ms)
        if error is ErrorCode.NONE:
            self.follower_fetches.append((replica_id, replica_epoch, fetch_offset))
        return error

    def record_repeated_fetch(self, replica_id: NodeId, now_ms: int) -> bool:
        self.repeated_fetches.append(replica_id)
        return super().record_repeated_fetch(replica_id, now_ms)

    def look_up_timestamp(
        self, timestamp_ms: int
    ) -> Steps[tuple[ErrorCode, tuple[int, Offset] | None]]:
        for _ in range(self.lookup_steps - 1):
            self.lookup_steps_done += 1
            yield
        self.lookup_steps_done += 1
        return (yield from super().look_up_timestamp(timestamp_ms))

    # ------------------------------------------------------------ called by tests

    @property
    def values(self) -> list[bytes]:
        """The log's records' values."""
        start, end = self.log_start_offset, self.log_end_offset
        return values_of(self.log.read(start, 1 << 30, end).records)

    def fill(self, *values: bytes, committed: bool = True) -> None:
        """Append a batch of one record for each value; at offset n the timestamp is 1000 + n."""
        for value in values:
            outcome = self.append(batch(value, 1_000 + self.log_end_offset), 1, 0)
            assert outcome.error is ErrorCode.NONE
        if committed:
            self.commit(self.log_end_offset)

    def commit(self, offset: int) -> None:
        """Have the ISR fetch from the offset, which raises the high watermark to it."""
        role = self.role
        assert isinstance(role, Leading)
        for follower in (ONE, KEEPER):
            epoch = role.followers[follower].broker_epoch
            super().record_follower_fetch(follower, epoch, Offset(offset), 0)
        assert self.high_watermark == offset

    def lead_in(self, epoch: int) -> None:
        become_leader(
            self,
            self._command(ME, epoch),
            ControllerEpoch(1),
            fetchers=_FETCHERS,
            toggles=self._context.toggles,
            now_ms=0,
        )

    def lose_leadership(self) -> None:
        """Follow broker 2 in the next epoch."""
        become_follower(
            self,
            self._command(TWO, self.leader_epoch + 1),
            ControllerEpoch(1),
            fetchers=_FETCHERS,
            toggles=self._context.toggles,
        )

    def truncate(self, offset: int) -> None:
        """Lose the leadership and the records from the offset on, and lead again."""
        self.lose_leadership()
        self.truncate_to(Offset(offset), "as the test says")
        self.lead_in(self.leader_epoch + 1)

    def _command(self, leader: NodeId, epoch: int) -> LeaderAndIsrPartition:
        return LeaderAndIsrPartition(
            topic_partition=self.topic_partition,
            leader=leader,
            leader_epoch=LeaderEpoch(epoch),
            isr=(ME, ONE, KEEPER),
            partition_epoch=PartitionEpoch(0),
            assigned_replicas=(ME, ONE, TWO, KEEPER),
        )


class Surroundings:
    """Broker 0's disk, and the context of its partitions."""

    def __init__(
        self, runtime: NodeRuntime, trace: Trace, wake: Callable[[TopicPartition], None]
    ) -> None:
        self.files = SimulatedFileSystem(runtime, Disk(SeededRng(1).stream("disk")))
        self.context = PartitionContext(
            broker_id=ME,
            toggles=resolve_toggles(Preset.FENCED, ""),
            runtime=runtime,
            trace=trace,
            replica_lag_time_max_ms=10_000,
            quotas=ReplicationQuotas(runtime),
            wake=wake,
            propose_isr=lambda _: None,
            disk_refused=lambda key: None,
            registered_epoch=lambda _: None,
        )
