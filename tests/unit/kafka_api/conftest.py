"""A broker's Kafka API over real partitions and a scripted controller, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.coordinator.settings import GroupSettings
from highwater_broker.kafka_api.api_settings import KafkaApiSettings
from highwater_broker.kafka_api.dispatcher import KafkaApi
from highwater_broker.kafka_api.listeners import Listener
from highwater_broker.log_folders import FolderContent
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.purgatory import Purgatory
from highwater_core.config_layers import ConfigLayers
from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    ProducerId,
    TopicId,
    TopicPartition,
)
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.messages import BrokerEndpoints, PartitionMetadata, UpdateMetadataRequest
from highwater_core.ports import CallFailed, Ports
from highwater_core.topic_configs import ConfigType
from highwater_simulator.kernel import Kernel
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.messages import ApiVersionRange
from tests.support.groups import LogInMemory
from tests.support.hosted import Hosted, HostedPartition, Surroundings


class ScriptedController:
    """Answers each call with the test's prepared answer; raises a prepared CallFailed."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.timeouts_ms: list[int] = []
        self.answer: Any = None
        self.on_call: Any = None

    async def call(self, request: Any, response_type: Any, timeout_ms: int) -> Any:
        self.requests.append(request)
        self.timeouts_ms.append(timeout_ms)
        if self.on_call is not None:
            self.on_call()
        if isinstance(self.answer, CallFailed):
            raise self.answer
        return self.answer


class ScriptedConfigs:
    """The layers of configuration: topics, broker 0, every broker, and the settings at start."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, str]] | None = {}
        self.broker: dict[str, str] = {}
        self.every_broker: dict[str, str] = {}
        self.started_with: dict[str, str] = {}

    async def topic_layers(self, topic: str) -> ConfigLayers | None:
        return None if self.topics is None else self._layers(self.topics.get(topic, {}))

    async def broker_layers(self) -> ConfigLayers | None:
        return None if self.topics is None else self._layers({})

    def _layers(self, topic: dict[str, str]) -> ConfigLayers:
        return ConfigLayers(topic, self.broker, self.every_broker, self.started_with)


class ScriptedProducerIds:
    """Gives the id `next`, and counts on; None while `next` is None."""

    def __init__(self) -> None:
        self.next: int | None = 0

    async def next_id(self) -> ProducerId | None:
        if self.next is None:
            return None
        self.next += 1
        return ProducerId(self.next - 1)


class ScriptedLogDirs:
    """The folders that the test names."""

    def __init__(self) -> None:
        self.folders: tuple[FolderContent, ...] = ()

    def contents(self) -> tuple[FolderContent, ...]:
        return self.folders


class OffsetsTopicSizeOf:
    """As many partitions as the metadata have."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    @property
    def count(self) -> int:
        return self._metadata.partition_count_of(OFFSETS_TOPIC)

    async def learn(self) -> int:
        return self.count


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
    """Broker 0's API. It knows the cluster, and no topics of it, unless the test says otherwise."""

    def __init__(self, *, knows_the_cluster: bool = True, **settings: Any) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("broker-0")
        self.scope = self.runtime.scope("requests")
        self.trace = RecordedTrace()
        self.purgatory = Purgatory(self.runtime)
        self.metadata = MetadataCache()
        self.controller = ScriptedController()
        self.configs = ScriptedConfigs()
        self.producer_ids = ScriptedProducerIds()
        self.topic_size = OffsetsTopicSizeOf(self.metadata)
        self.hosted = Hosted()
        self.log_dirs = ScriptedLogDirs()
        self._surroundings = Surroundings(self.runtime, self.trace, self.purgatory.check)
        self.quotas = self._surroundings.context.quotas
        self.settings = KafkaApiSettings(
            node_id=NodeId(0),
            cluster_id="test-cluster",
            api_versions=(ApiVersionRange(3, 0, 8), ApiVersionRange(0, 0, 8)),
            data_folder="/data",
            default_partition_count=4,
            default_replication_factor=3,
            broker_configs=(
                ("num.partitions", ConfigType.INT, "4"),
                ("broker.id", ConfigType.INT, "0"),
            ),
            **settings,
        )
        self.groups_log = LogInMemory(self.runtime)
        ports = SimpleNamespace(runtime=self.runtime, trace=self.trace, rng=SeededRng(1))
        self.groups = GroupCoordinator(
            GroupSettings(), cast(Ports, ports), self.groups_log, self.groups_log, lambda _: 0
        )
        self.api = KafkaApi(
            self.settings,
            cast(Ports, ports),
            cast(Any, self.hosted),
            self.metadata,
            self.purgatory,
            self.controller,
            self.configs,
            self.producer_ids,
            self.topic_size,
            self.groups,
            self.log_dirs,
        )
        if knows_the_cluster:
            self.cluster()

    def host(self, topic: str, partition: int = 0, **fields: Any) -> HostedPartition:
        key = TopicPartition(topic, partition)
        self.hosted[key] = HostedPartition(key, self._surroundings, **fields)
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
        """Put live brokers and topics into the metadata cache; topics: the partitions' leaders."""
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
def world_that_makes_topics() -> ApiWorld:
    """A broker that makes topics when a client names them first."""
    return ApiWorld(auto_create_topics=True)


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
