"""A broker's Kafka API over scripted partitions and a scripted controller, in virtual time."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater_broker.kafka_api.dispatcher import KafkaApi
from highwater_broker.kafka_api.seams import KafkaApiSettings, Listener
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.purgatory import Purgatory
from highwater_core.errors import ErrorCode
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
from highwater_core.messages import BrokerEndpoints, PartitionMetadata, UpdateMetadataRequest
from highwater_core.ports import CallFailed, Ports
from highwater_simulator.kernel import Kernel
from highwater_wire.kafka.messages import ApiVersionRange

EPOCH = LeaderEpoch(3)
ZERO = Offset(0)


@dataclass
class ScriptedPartition:
    """A partition whose log is a list of one-record batches; tests set its offsets and role."""

    topic_partition: TopicPartition
    purgatory: Purgatory
    topic_id: TopicId = NO_TOPIC_ID
    leader_epoch: LeaderEpoch = EPOCH
    is_leader: bool = True
    high_watermark: Offset = ZERO
    log_start_offset: Offset = ZERO
    batches: list[bytes] = field(default_factory=list)
    append_error: ErrorCode = ErrorCode.NONE
    follower_error: ErrorCode = ErrorCode.NONE
    read_error: ErrorCode = ErrorCode.NONE
    below_min_isr: bool = False
    is_high_watermark_too_low: bool = False
    follower_fetches: list[tuple[int, int, int]] = field(default_factory=list)
    repeated_fetches: list[int] = field(default_factory=list)
    takes_repeats: bool = True
    reads: int = 0
    lookup_steps: int = 1
    lookup_steps_done: int = 0

    @property
    def log_end_offset(self) -> Offset:
        return Offset(self.log_start_offset + len(self.batches))

    def check_leadership(self, current_leader_epoch: LeaderEpoch) -> ErrorCode:
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def append(self, records: bytes | memoryview, acks: int, now_ms: int) -> Any:
        if self.append_error is not ErrorCode.NONE:
            return self._outcome(self.append_error, -1, -1)
        base_offset = self.log_end_offset
        self.batches.append(bytes(records))
        self.purgatory.check(self.topic_partition)
        return self._outcome(ErrorCode.NONE, base_offset, base_offset + 1)

    def _outcome(self, error: ErrorCode, base_offset: int, end_offset: int) -> Any:
        return SimpleNamespace(
            error=error,
            base_offset=base_offset,
            end_offset=end_offset,
            log_start_offset=self.log_start_offset,
        )

    def acks_all_status(self, end_offset: Offset, leader_epoch: LeaderEpoch) -> ErrorCode | None:
        if not self.is_leader or self.leader_epoch != leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < end_offset:
            return None
        if self.below_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def read(self, fetch_offset: Offset, max_bytes: int, for_follower: bool) -> Any:
        self.reads += 1
        error, records = self.read_error, b""
        if not self.log_start_offset <= fetch_offset <= self.log_end_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        end = self.log_end_offset if for_follower else self.high_watermark
        if error is ErrorCode.NONE:
            for offset in range(fetch_offset, end):
                batch = self.batches[offset - self.log_start_offset]
                if records and len(records) + len(batch) > max_bytes:
                    break
                records += batch
        return SimpleNamespace(
            error=error,
            high_watermark=self.high_watermark,
            log_start_offset=self.log_start_offset,
            records=records,
        )

    def record_follower_fetch(
        self, replica_id: NodeId, replica_epoch: BrokerEpoch, fetch_offset: Offset, now_ms: int
    ) -> ErrorCode:
        if self.follower_error is ErrorCode.NONE:
            self.follower_fetches.append((replica_id, replica_epoch, fetch_offset))
        return self.follower_error

    def record_repeated_fetch(self, replica_id: NodeId, now_ms: int) -> bool:
        self.repeated_fetches.append(replica_id)
        return self.takes_repeats and self.follower_error is ErrorCode.NONE

    def offset_for_leader_epoch(self, leader_epoch: LeaderEpoch) -> Any:
        return ErrorCode.NONE, LeaderEpoch(leader_epoch - 1), Offset(7)

    def latest_offset_for_clients(self) -> tuple[ErrorCode, Offset]:
        if self.is_high_watermark_too_low:
            return ErrorCode.OFFSET_NOT_AVAILABLE, Offset(-1)
        return ErrorCode.NONE, self.high_watermark

    def look_up_timestamp(
        self, timestamp_ms: int
    ) -> Generator[None, None, tuple[ErrorCode, tuple[int, Offset] | None]]:
        """Offset n has timestamp 1000 + n; it takes lookup_steps."""
        for _ in range(self.lookup_steps - 1):
            self.lookup_steps_done += 1
            yield
        self.lookup_steps_done += 1
        offset = max(timestamp_ms - 1000, self.log_start_offset)
        found = (1000 + offset, Offset(offset)) if offset < self.log_end_offset else None
        return ErrorCode.NONE, found

    # ------------------------------------------------------------ what tests do to it

    def fill(self, *batches: bytes, committed: bool = True) -> None:
        self.batches.extend(batches)
        if committed:
            self.high_watermark = self.log_end_offset
        self.purgatory.check(self.topic_partition)

    def commit(self, offset: int) -> None:
        self.high_watermark = Offset(offset)
        self.purgatory.check(self.topic_partition)

    def lose_leadership(self) -> None:
        self.is_leader = False
        self.purgatory.check(self.topic_partition)

    def lead_in(self, epoch: int) -> None:
        self.leader_epoch = LeaderEpoch(epoch)
        self.purgatory.check(self.topic_partition)

    def truncate(self, offset: int) -> None:
        del self.batches[offset - self.log_start_offset :]
        self.purgatory.check(self.topic_partition)


class ScriptedController:
    """Answers each call with what the test prepared; CallFailed when that is an exception."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answer: Any = None
        self.on_call: Any = None

    async def call(self, request: Any, response_type: Any, timeout_ms: int) -> Any:
        self.requests.append(request)
        if self.on_call is not None:
            self.on_call()
        if isinstance(self.answer, CallFailed):
            raise self.answer
        return self.answer


class ScriptedTopicConfigs:
    def __init__(self) -> None:
        self.overrides: dict[str, dict[str, str]] | None = {}

    async def topic_overrides(self, topic: str) -> dict[str, str] | None:
        return None if self.overrides is None else self.overrides.get(topic, {})


class RecordedTrace:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def emit(self, kind: Any, **fields: Any) -> None:
        self.events.append((str(kind), fields))


class Asked:
    """A request under way: done once `answer` is set, after `took_ms` of virtual time."""

    def __init__(self) -> None:
        self.is_done = False
        self.answer: Any = None
        self.took_ms = -1


class ApiWorld:
    """Broker 0's API."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("broker-0")
        self.scope = self.runtime.scope("requests")
        self.trace = RecordedTrace()
        self.purgatory = Purgatory(self.runtime)
        self.metadata = MetadataCache()
        self.controller = ScriptedController()
        self.configs = ScriptedTopicConfigs()
        self.hosted: dict[TopicPartition, ScriptedPartition] = {}
        self.settings = KafkaApiSettings(
            node_id=NodeId(0),
            cluster_id="test-cluster",
            api_versions=(ApiVersionRange(3, 0, 8), ApiVersionRange(0, 0, 8)),
            default_partition_count=4,
            default_replication_factor=3,
            broker_configs=(("num.partitions", "4"), ("broker.id", "0")),
        )
        ports = SimpleNamespace(runtime=self.runtime, trace=self.trace)
        self.api = KafkaApi(
            self.settings,
            cast(Ports, ports),
            cast(Any, self.hosted),
            self.metadata,
            self.purgatory,
            self.controller,
            self.configs,
        )

    def host(self, topic: str, partition: int = 0, **fields: Any) -> ScriptedPartition:
        key = TopicPartition(topic, partition)
        self.hosted[key] = ScriptedPartition(key, self.purgatory, **fields)
        return self.hosted[key]

    def start(self, request: Any, listener: str = Listener.CLIENT) -> Asked:
        asked = Asked()
        began_ms = self.runtime.now_ms()

        async def work() -> None:
            asked.answer = await self.api.handle(request, listener)
            asked.is_done = True
            asked.took_ms = self.runtime.now_ms() - began_ms

        self.scope.spawn("request", work())
        self.kernel.run_for(0)
        return asked

    def ask(self, request: Any, listener: str = Listener.CLIENT) -> Any:
        asked = self.start(request, listener)
        self.kernel.run_until(lambda: asked.is_done, 600_000)
        return asked.answer

    def cluster(
        self, topics: dict[str, list[int]] | None = None, live: tuple[int, ...] = (0, 1, 2)
    ) -> None:
        """Tell the cache of live brokers and of topics: each partition's leader, in order."""
        partitions = tuple(
            partition_metadata(topic, number, leader)
            for topic, leaders in (topics or {}).items()
            for number, leader in enumerate(leaders)
        )
        self.metadata.update(update_metadata(partitions, live))


def endpoints(broker_id: int) -> BrokerEndpoints:
    host = f"broker-{broker_id}"
    return BrokerEndpoints(
        NodeId(broker_id),
        BrokerEpoch(100 + broker_id),
        client=Endpoint(host, 9092),
        client_external=Endpoint("localhost", 30000 + broker_id),
        replication=Endpoint(host, 9093),
        control=Endpoint(host, 9095),
    )


def partition_metadata(
    topic: str, number: int, leader: int, topic_id: str = ""
) -> PartitionMetadata:
    return PartitionMetadata(
        TopicPartition(topic, number),
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(3),
        isr=(NodeId(0), NodeId(1)),
        assigned_replicas=(NodeId(0), NodeId(1), NodeId(2)),
        partition_epoch=PartitionEpoch(5),
        topic_id=TopicId(topic_id),
    )


def update_metadata(
    partitions: tuple[PartitionMetadata, ...], live: tuple[int, ...] = (0, 1, 2)
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=NodeId(1000),
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(100),
        live_brokers=tuple(endpoints(broker) for broker in reversed(live)),
        partitions=partitions,
    )


@pytest.fixture
def world() -> Iterator[ApiWorld]:
    api_world = ApiWorld()
    yield api_world
    assert api_world.purgatory.waiting_count == 0, "a request still waits"
    assert not api_world.purgatory.is_listing_any(), "the purgatory leaks finished waiters"
    api_world.kernel.close()


@pytest.fixture
def make_update() -> Any:
    """(partition_metadata, update_metadata), for tests of the cache itself."""
    return SimpleNamespace(partition=partition_metadata, request=update_metadata)
