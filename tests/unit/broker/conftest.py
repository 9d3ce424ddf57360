"""A partition over a log in a simulated folder; calls of its surroundings are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from highwater_broker.fetcher import FetcherContext
from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.log.log_config import LogConfig
from highwater_broker.partition import Partition
from highwater_broker.partition_context import PartitionContext
from highwater_broker.replication_quotas import ReplicationQuotas
from highwater_broker.settings import BrokerSettings
from highwater_core.config import NO_OVERRIDES, Overrides, Preset, Toggles, resolve_toggles
from highwater_core.events import EventKind, TraceEvent
from highwater_core.fail_points import BROKER_FAIL_POINTS, FailPoints
from highwater_core.ids import (
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import LeaderAndIsrPartition
from highwater_core.ports import Ports
from highwater_core.traces import TraceRecorder
from highwater_simulator.files import Disk, SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime
from highwater_wire.kafka.record_batch import build_batch
from tests.support.open_logs import open_log

ME, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
T0 = TopicPartition("t", 0)
LAG_MS = 10_000


class ScriptedTransport:
    """Answers each call through `leader`, and keeps the requests."""

    def __init__(self, runtime: NodeRuntime) -> None:
        self._runtime = runtime
        self.leader: Callable[[object], object] = lambda request: None
        self.asked: list[object] = []

    async def call(
        self, endpoint: Endpoint, connection: str, request: object, timeout_ms: int
    ) -> object:
        self.asked.append(request)
        await self._runtime.sleep(1)
        return self.leader(request)

    def disconnect(self, endpoint: Endpoint, connection: str) -> None:
        pass


@dataclass
class Bench:
    """A broker's surroundings for one partition."""

    toggles: Toggles
    kernel: Kernel
    runtime: NodeRuntime
    ports: Ports
    transport: ScriptedTransport
    events: list[TraceEvent]
    quotas: ReplicationQuotas
    woken: list[TopicPartition] = field(default_factory=list)
    proposed: list[Partition] = field(default_factory=list)
    registered: dict[NodeId, BrokerEpoch] = field(default_factory=dict)
    written_recovery_points: int = 0
    disk_refuses_checkpoints: bool = False
    hosted: list[Partition] = field(default_factory=list)
    saved: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of the newest partition's log at each write of recovery points."""

    def partition(self, *, high_watermark: int = 0, min_insync_replicas: int = 1) -> Partition:
        log, _ = open_log(
            self.ports.files,
            str(T0),
            LogConfig(),
            clean_shutdown=False,
            recovery_point=Offset(0),
        )
        context = PartitionContext(
            broker_id=ME,
            toggles=self.toggles,
            runtime=self.runtime,
            trace=self.ports.trace,
            replica_lag_time_max_ms=LAG_MS,
            quotas=self.quotas,
            wake=self.woken.append,
            propose_isr=self.proposed.append,
            disk_refused=lambda key: None,
            registered_epoch=self.registered.get,
        )
        partition = Partition(
            context,
            T0,
            log,
            high_watermark=Offset(high_watermark),
            min_insync_replicas=min_insync_replicas,
            topic_id=NO_TOPIC_ID,
        )
        self.hosted.append(partition)
        return partition

    def fail_points(self) -> FailPoints:
        ports = self.ports
        return FailPoints(ports.runtime, ports.trace, ports.exit_now, BROKER_FAIL_POINTS)

    def fetchers(self) -> FetcherRegistry:
        async def write_recovery_points() -> None:
            self.written_recovery_points += 1
            newest = self.hosted[-1]
            self.saved.append((newest.log_start_offset, newest.log_end_offset))
            if not self.disk_refuses_checkpoints:
                newest.checkpointed(newest.checkpoints_due)

        context = FetcherContext(
            settings=BrokerSettings(node_id=ME),
            toggles=self.toggles,
            ports=self.ports,
            endpoint_of=lambda broker: Endpoint(f"broker-{broker}", 9093),
            broker_epoch=lambda: BrokerEpoch(7),
            write_recovery_points=write_recovery_points,
            fail_points=self.fail_points(),
        )
        return FetcherRegistry(context, self.runtime.scope("fetchers"))

    def traced(self, kind: EventKind) -> list[TraceEvent]:
        return [event for event in self.events if event.kind is kind]


@pytest.fixture
def make_bench() -> Iterator[Callable[..., Bench]]:
    kernels: list[Kernel] = []

    def make(preset: Preset = Preset.FENCED, toggles: Overrides = NO_OVERRIDES) -> Bench:
        kernel = Kernel()
        kernels.append(kernel)
        runtime = kernel.runtime("broker-1")
        rng = SeededRng(1)
        events: list[TraceEvent] = []
        transport = ScriptedTransport(runtime)
        ports = Ports(
            runtime=runtime,
            coordination=None,  # type: ignore[arg-type]
            control=None,  # type: ignore[arg-type]
            transport=transport,
            files=SimulatedFileSystem(runtime, Disk(rng.stream("disk"))),
            rng=rng,
            trace=TraceRecorder(runtime, ME, 1, events.append),
            exit_now=runtime.kill,
        )
        values = resolve_toggles(preset, toggles)
        quotas = ReplicationQuotas(runtime)
        return Bench(values, kernel, runtime, ports, transport, events, quotas)

    yield make
    for kernel in kernels:
        kernel.close()


def command(
    leader: NodeId,
    epoch: int,
    isr: tuple[NodeId, ...] = (ME, TWO, THREE),
    assigned: tuple[NodeId, ...] = (ME, TWO, THREE),
    partition_epoch: int = 0,
) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        topic_partition=T0,
        leader=leader,
        leader_epoch=LeaderEpoch(epoch),
        isr=isr,
        partition_epoch=PartitionEpoch(partition_epoch),
        assigned_replicas=assigned,
    )


CONTROLLER = ControllerEpoch(1)


def batch(*values: str) -> bytes:
    return build_batch([(None, value.encode(), 1_000) for value in values])
