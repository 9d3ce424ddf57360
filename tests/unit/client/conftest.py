"""Brokers that answer as a test says, in the simulator's network, and a kernel for clients."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from highwater_core.admin_messages import TopicResult
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, LeaderEpoch, NodeId, Offset, ProducerId
from highwater_simulator.calls import Listener, Listeners, SimulatedTransport
from highwater_simulator.carriage import KAFKA_BY_CODEC
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Network, Plane
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from highwater_wire.kafka.messages import (
    EARLIEST_TIMESTAMP,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from highwater_wire.kafka.producer_messages import InitProducerIdRequest, InitProducerIdResponse
from highwater_wire.kafka.record_batch import build_batch, decode_records, split_batches

LIMIT_MS = 120_000
PORT = 9092
NEVER = "never answers"
LOSE_ANSWER = "does as asked, then dies before it answers"


class Partition:
    """One log for all brokers: the appended batches, in order."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.batches: list[tuple[int, bytes]] = []
        self.log_start = 0
        self.leader = 0
        self.uncommitted = 0
        """How many records at the end no consumer may read."""

    @property
    def high_watermark(self) -> int:
        return len(self.values) - self.uncommitted

    def append(self, data: bytes) -> int:
        base_offset = len(self.values)
        (batch,) = split_batches(data)
        records = decode_records(batch.data)
        self.values += [(record.value or b"").decode() for record in records]
        placed = [(record.key, record.value, record.timestamp) for record in records]
        self.batches.append((base_offset, build_batch(placed, base_offset, LeaderEpoch(3))))
        return base_offset

    def read(self, offset: int) -> bytes:
        """Return the batches from the one that holds the offset on."""
        ends = [base for base, _ in self.batches[1:]] + [len(self.values)]
        return b"".join(
            data
            for (_, data), end in zip(self.batches, ends, strict=True)
            if offset < end <= self.high_watermark
        )


class Brokers:
    """Brokers 0 and 1; `script` has their reactions to their next requests of each kind."""

    def __init__(self, kernel: Kernel, network: Network) -> None:
        self.kernel = kernel
        self.network = network
        self.listeners = Listeners()
        self.partitions: defaultdict[tuple[str, int], Partition] = defaultdict(Partition)
        self.script: defaultdict[tuple[int, type], deque[ErrorCode | str]] = defaultdict(deque)
        self.requests: list[tuple[int, Any]] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.produce_ms = 0
        self.topic_count = 1
        self.runtimes: dict[int, NodeRuntime] = {}
        for broker_id in (0, 1):
            self.start(broker_id)

    def start(self, broker_id: int) -> None:
        runtime = self.kernel.runtime(f"broker-{broker_id}")
        self.runtimes[broker_id] = runtime

        async def handle(request: Any) -> Any:
            return await self.handle(broker_id, request)

        self.listeners.listen(
            self.endpoint(broker_id),
            Listener(runtime, Plane.CLIENT, handle, KAFKA_BY_CODEC, answers_in_order=True),
        )

    def stop(self, broker_id: int) -> None:
        self.runtimes[broker_id].kill()
        self.listeners.close(self.runtimes[broker_id])

    def endpoint(self, broker_id: int) -> Endpoint:
        return Endpoint(f"broker-{broker_id}", PORT)

    @property
    def bootstrap(self) -> list[Endpoint]:
        return [self.endpoint(broker_id) for broker_id in (0, 1)]

    def client(self, name: str = "client") -> tuple[NodeRuntime, SimulatedTransport]:
        runtime = self.kernel.runtime(name)
        return runtime, SimulatedTransport(runtime, self.network, self.listeners)

    def asked(self, kind: type) -> list[Any]:
        return [request for _, request in self.requests if type(request) is kind]

    async def handle(self, broker_id: int, request: Any) -> Any:
        self.requests.append((broker_id, request))
        waiting = self.script[broker_id, type(request)]
        todo = waiting.popleft() if waiting else ErrorCode.NONE
        runtime = self.runtimes[broker_id]
        if todo == NEVER:
            await runtime.event().wait()
        answer = await self.answer(broker_id, request, todo)
        if todo == LOSE_ANSWER:
            runtime.soon(lambda: (self.stop(broker_id), self.start(broker_id)))
            await runtime.event().wait()
        return answer

    async def answer(self, broker_id: int, request: Any, todo: ErrorCode | str) -> Any:
        error = todo if isinstance(todo, ErrorCode) else ErrorCode.NONE
        match request:
            case MetadataRequest():
                return self.metadata(request)
            case ProduceRequest():
                return await self.produce(broker_id, request, error)
            case FetchRequest():
                return await self.fetch(broker_id, request, error)
            case ListOffsetsRequest():
                return self.list_offsets(broker_id, request, error)
            case InitProducerIdRequest():
                return InitProducerIdResponse(error, ProducerId(len(self.asked(type(request)))), 0)
            case CreateTopicsRequest():
                return CreateTopicsResponse((CreatedTopic(request.topics[0].name, error),))
            case DeleteTopicsRequest():
                return DeleteTopicsResponse((DeletedTopic(request.names[0], error),))
            case CreatePartitionsRequest():
                return CreatePartitionsResponse((TopicResult(request.topics[0].topic, error),))
            case ElectLeadersRequest():
                return ElectLeadersResponse(error, ())
            case AlterPartitionReassignmentsRequest():
                return AlterPartitionReassignmentsResponse(error, None, ())
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse(error, None, ())
        raise AssertionError(request)

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        brokers = tuple(
            MetadataBroker(NodeId(i), f"broker-{i}", PORT)
            for i, runtime in self.runtimes.items()
            if runtime.is_alive
        )
        topics = []
        for name in request.topics or ():
            known = sorted(key[1] for key in self.partitions if key[0] == name)
            partitions = tuple(self.described(name, partition) for partition in known)
            topics.append(MetadataTopic(ErrorCode.NONE, name, partitions))
        return MetadataResponse(brokers, "cluster", NodeId(0), tuple(topics))

    def described(self, name: str, partition: int) -> MetadataPartition:
        leader = NodeId(self.partitions[name, partition].leader)
        error = ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
        return MetadataPartition(error, partition, leader, LeaderEpoch(3), (leader,), (leader,))

    def refusal(self, broker_id: int, topic: str, partition: int, error: ErrorCode) -> ErrorCode:
        if error is ErrorCode.NONE and self.partitions[topic, partition].leader != broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error

    async def produce(
        self, broker_id: int, request: ProduceRequest, error: ErrorCode
    ) -> ProduceResponse | None:
        (item,) = request.partitions
        error = self.refusal(broker_id, item.topic, item.partition, error)
        offset = -1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        appended_anyway = error in (
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.REQUEST_TIMED_OUT,
        )
        if error is ErrorCode.NONE or appended_anyway:
            offset = self.partitions[item.topic, item.partition].append(bytes(item.records or b""))
        await self.runtimes[broker_id].sleep(self.produce_ms)
        self.in_flight -= 1
        if request.acks == 0:
            return None
        offset = -1 if appended_anyway else offset
        result = ProducePartitionResult(item.topic, item.partition, error, Offset(offset))
        return ProduceResponse((result,))

    async def fetch(self, broker_id: int, request: FetchRequest, error: ErrorCode) -> FetchResponse:
        results = [self.fetched(broker_id, item, error) for item in request.partitions]
        if not any(result.records or result.error for result in results):
            await self.runtimes[broker_id].sleep(request.max_wait_ms)
            results = [self.fetched(broker_id, item, error) for item in request.partitions]
        return FetchResponse(tuple(results))

    def fetched(self, broker_id: int, item: Any, error: ErrorCode) -> FetchPartitionResult:
        log = self.partitions[item.topic, item.partition]
        error = self.refusal(broker_id, item.topic, item.partition, error)
        end = Offset(log.high_watermark)
        if error is ErrorCode.NONE and not log.log_start <= item.fetch_offset <= len(log.values):
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        data = log.read(item.fetch_offset) if error is ErrorCode.NONE else b""
        return FetchPartitionResult(item.topic, item.partition, error, end, records=data)

    def list_offsets(
        self, broker_id: int, request: ListOffsetsRequest, error: ErrorCode
    ) -> ListOffsetsResponse:
        results = []
        for item in request.partitions:
            log = self.partitions[item.topic, item.partition]
            found = log.log_start if item.timestamp == EARLIEST_TIMESTAMP else len(log.values)
            refused = self.refusal(broker_id, item.topic, item.partition, error)
            results.append(
                ListOffsetsResult(item.topic, item.partition, refused, offset=Offset(found))
            )
        return ListOffsetsResponse(tuple(results))


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    kernel = Kernel()
    yield Brokers(kernel, Network(kernel, SeededRng(1)))
    kernel.close()


@pytest.fixture
def run(brokers: Brokers) -> Callable[[Coroutine[Any, Any, None]], None]:
    def run_story(story: Coroutine[Any, Any, None]) -> None:
        task = brokers.kernel.runtime("story").start("story", story)
        brokers.kernel.run_until(task.is_done, LIMIT_MS, "the story's end")

    return run_story
