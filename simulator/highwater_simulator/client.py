"""A client in virtual time: asks for metadata, writes one record at a time, reads a partition.

Each send is recorded as the checker's history has it. A send is retried until it is acknowledged,
its error is definite and not retriable, or its time is up; one that may have been appended by an
earlier try ends as `info`, never as `fail`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from highwater_broker.log.record_batch import build_batch, decode_records, split_batches
from highwater_checker.history import HistoryEvent, OperationType
from highwater_core.check import check
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_core.ids import Endpoint, Offset
from highwater_core.ports import CallFailed, Transport
from highwater_simulator.tasks import NodeRuntime
from highwater_wire.kafka.messages import (
    CONSUMER,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchPartition,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    ProducePartition,
    ProduceRequest,
    TopicToCreate,
)

ACKS_ALL = -1
CALL_TIMEOUT_MS = 5_000
RETRY_MS = 50
FETCH_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a send ended; offset is -1 unless it was acknowledged."""

    type: OperationType
    offset: int = -1
    error: str = ""
    tries: int = 1


@dataclass(frozen=True, slots=True)
class ReadRecord:
    offset: int
    value: bytes


class SimulatedClient:
    """One client process."""

    def __init__(
        self,
        runtime: NodeRuntime,
        transport: Transport,
        bootstrap: Sequence[Endpoint],
        note: Callable[..., None],
    ) -> None:
        self._runtime = runtime
        self._transport = transport
        self._bootstrap = tuple(bootstrap)
        self._note = note
        self._leaders: dict[tuple[str, int], Endpoint] = {}
        self._next_bootstrap = 0
        self._next_operation_id = 0
        self.history: list[HistoryEvent] = []

    # ------------------------------------------------------------ topics

    async def create_topic(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        within_ms: int,
        configs: tuple[tuple[str, str | None], ...] = (),
    ) -> ErrorCode:
        """Return NONE or TOPIC_ALREADY_EXISTS once it exists, or the last error in time."""
        wanted = TopicToCreate(name, partition_count, replication_factor, configs=configs)
        deadline_ms = self._runtime.now_ms() + within_ms
        error = ErrorCode.REQUEST_TIMED_OUT
        while (left_ms := deadline_ms - self._runtime.now_ms()) > 0:
            timeout_ms = min(left_ms, CALL_TIMEOUT_MS)
            response = await self._ask_any(CreateTopicsRequest((wanted,), timeout_ms), timeout_ms)
            if response is not None:
                error = response.topics[0].error
                if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    break
            await self._runtime.sleep(RETRY_MS)
        self._note("topic created", topic=name, error=error.name)
        return error

    async def delete_topic(self, name: str, within_ms: int) -> ErrorCode:
        """Return NONE or UNKNOWN_TOPIC_OR_PARTITION once it is gone, or the last error in time."""
        deadline_ms = self._runtime.now_ms() + within_ms
        error = ErrorCode.REQUEST_TIMED_OUT
        while (left_ms := deadline_ms - self._runtime.now_ms()) > 0:
            timeout_ms = min(left_ms, CALL_TIMEOUT_MS)
            response = await self._ask_any(DeleteTopicsRequest((name,), timeout_ms), timeout_ms)
            if response is not None:
                error = response.topics[0].error
                if error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    break
            await self._runtime.sleep(RETRY_MS)
        self._note("topic deleted", topic=name, error=error.name)
        return error

    async def metadata(self, topics: tuple[str, ...] | None = None) -> MetadataResponse | None:
        """Return what some broker says, None when none answers."""
        response: MetadataResponse | None = await self._ask_any(
            MetadataRequest(topics), CALL_TIMEOUT_MS
        )
        return response

    async def _ask_any(self, request: Any, timeout_ms: int) -> Any:
        """Return the answer of the first broker that has one; each call begins with the next."""
        first = self._next_bootstrap
        self._next_bootstrap = (first + 1) % len(self._bootstrap)
        for endpoint in (*self._bootstrap[first:], *self._bootstrap[:first]):
            try:
                return await self._transport.call(endpoint, "admin", request, timeout_ms)
            except CallFailed:
                continue
        return None

    # ------------------------------------------------------------ writing

    async def send(
        self, topic: str, partition: int, value: str, within_ms: int, acks: int = ACKS_ALL
    ) -> Outcome:
        """Write one record and return how it ended; acks is ACKS_ALL or 1."""
        check(acks != 0, "with acks=0 nothing is answered, so nothing is known")
        operation_id = self._next_operation_id
        self._next_operation_id += 1

        def record(kind: OperationType, offset: int = -1, error: str = "") -> None:
            now_ns = self._runtime.now_ns()
            name = self._runtime.node_name
            self.history.append(
                HistoryEvent(
                    now_ns, kind, operation_id, name, "send", topic, partition, value, offset, error
                )
            )

        record(OperationType.INVOKE)
        outcome = await self._try_to_send(topic, partition, value, within_ms, acks)
        record(outcome.type, outcome.offset, outcome.error)
        self._note(
            "send",
            value=value,
            outcome=outcome.type,
            offset=outcome.offset,
            tries=outcome.tries,
            **({"error": outcome.error} if outcome.error else {}),
        )
        return outcome

    async def _try_to_send(
        self, topic: str, partition: int, value: str, within_ms: int, acks: int
    ) -> Outcome:
        batch = build_batch([(None, value.encode(), self._runtime.wall_clock_ms())])
        deadline_ms = self._runtime.now_ms() + within_ms
        tries, may_be_there, error = 0, False, ""
        while (left_ms := deadline_ms - self._runtime.now_ms()) > 0:
            timeout_ms = min(left_ms, CALL_TIMEOUT_MS)
            request = ProduceRequest(acks, timeout_ms, (ProducePartition(topic, partition, batch),))
            leader = await self._leader_of(topic, partition)
            if leader is not None:
                tries += 1
                try:
                    response = await self._transport.call(leader, "produce", request, timeout_ms)
                except CallFailed as failure:
                    may_be_there |= failure.sent
                    error = str(failure)
                else:
                    result = response.partitions[0]
                    meaning = MEANINGS[result.error]
                    if result.error is ErrorCode.NONE:
                        return Outcome(OperationType.OK, result.base_offset, tries=tries)
                    error = result.error.name
                    may_be_there |= not meaning.definite
                    if not meaning.retriable:
                        break
                self._leaders.pop((topic, partition), None)
            await self._runtime.sleep(RETRY_MS)
        kind = OperationType.INFO if may_be_there else OperationType.FAIL
        return Outcome(kind, error=error or "no leader was found", tries=tries)

    # ------------------------------------------------------------ reading

    async def read_all(self, topic: str, partition: int, within_ms: int) -> list[ReadRecord]:
        """Read from offset 0 up to the high watermark that the leader has when it is reached."""
        records: list[ReadRecord] = []
        deadline_ms = self._runtime.now_ms() + within_ms
        next_offset = 0
        while self._runtime.now_ms() < deadline_ms:
            result = await self._fetch(topic, partition, next_offset)
            if result is None or result.error is not ErrorCode.NONE:
                self._leaders.pop((topic, partition), None)
                await self._runtime.sleep(RETRY_MS)
                continue
            for batch in split_batches(bytes(result.records)):
                for record in decode_records(batch.data):
                    if record.offset >= next_offset:
                        records.append(ReadRecord(record.offset, record.value or b""))
                        next_offset = record.offset + 1
            if next_offset >= result.high_watermark:
                break
        self._note("read", topic=topic, partition=partition, records=len(records))
        return records

    async def _fetch(self, topic: str, partition: int, offset: int) -> Any:
        """Return the partition's result, None when no leader answers."""
        leader = await self._leader_of(topic, partition)
        if leader is None:
            return None
        wanted = FetchPartition(
            topic=topic,
            partition=partition,
            fetch_offset=Offset(offset),
            max_bytes=FETCH_MAX_BYTES,
        )
        request = FetchRequest(CONSUMER, 500, 1, FETCH_MAX_BYTES, (wanted,))
        try:
            response = await self._transport.call(leader, "fetch", request, CALL_TIMEOUT_MS)
        except CallFailed:
            return None
        return response.partitions[0]

    async def _leader_of(self, topic: str, partition: int) -> Endpoint | None:
        known = self._leaders.get((topic, partition))
        if known is not None:
            return known
        response = await self.metadata((topic,))
        if response is None:
            return None
        brokers = {broker.broker_id: broker for broker in response.brokers}
        for found in response.topics:
            for item in found.partitions:
                broker = brokers.get(item.leader)
                if broker is not None:
                    endpoint = Endpoint(broker.host, broker.port)
                    self._leaders[found.name, item.partition] = endpoint
        return self._leaders.get((topic, partition))
