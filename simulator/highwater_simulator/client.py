"""A client process in virtual time: highwater_client on simulated ports, as stories use it.

It writes one record at a time and reads a partition to its end; producers and consumers under
load are made of its ports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from highwater_checker.history import POLL, HistoryEvent
from highwater_client.admin import CALL_TIMEOUT_MS, RETRY_MS, Admin
from highwater_client.consumer import Consumer
from highwater_client.outcomes import Outcome
from highwater_client.recorder import HistoryRecorder
from highwater_client.sender import RecordSender
from highwater_client.settings import ACKS_ALL, ConsumerSettings, ProducerSettings
from highwater_core.admin_messages import ElectionType, PartitionResult, ReassignmentItem
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, NodeId, TopicPartition
from highwater_core.ports import Transport
from highwater_simulator.tasks import NodeRuntime
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
)
from highwater_wire.kafka.config_messages import AlteredConfigResult, AlteredResource
from highwater_wire.kafka.messages import MetadataResponse


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
        stamp_ns: Callable[[], int],
    ) -> None:
        """stamp_ns: the time in histories; it rises over all clients of the world."""
        self.runtime = runtime
        self.stamp_ns = stamp_ns
        self.transport = transport
        self.bootstrap = tuple(bootstrap)
        self._note = note
        self._admin = Admin(runtime, transport, bootstrap)
        self._recorder = HistoryRecorder(stamp_ns, runtime.node_name)
        self._senders: dict[int, RecordSender] = {}
        self.history: list[HistoryEvent] = self._recorder.events

    # ------------------------------------------------------------ topics and partitions

    async def create_topic(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        within_ms: int,
        configs: tuple[tuple[str, str | None], ...] = (),
    ) -> ErrorCode:
        """Return NONE or TOPIC_ALREADY_EXISTS once the topic exists, or the last error in time."""
        error = await self._admin.create_topic(
            name, partition_count, replication_factor, within_ms, configs
        )
        self._note("topic created", topic=name, error=error.name)
        return error

    async def delete_topic(self, name: str, within_ms: int) -> ErrorCode:
        """Return NONE or UNKNOWN_TOPIC_OR_PARTITION once it is gone, or the last error in time."""
        error = await self._admin.delete_topic(name, within_ms)
        self._note("topic deleted", topic=name, error=error.name)
        return error

    async def create_partitions(
        self,
        topic: str,
        total_count: int,
        within_ms: int,
        assignments: tuple[tuple[NodeId, ...], ...] | None = None,
    ) -> ErrorCode:
        """Return NONE once the topic has so many partitions, or the last error in time."""
        error = await self._admin.create_partitions(topic, total_count, within_ms, assignments)
        self._note("partitions created", topic=topic, count=total_count, error=error.name)
        return error

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: tuple[TopicPartition, ...] | None,
        within_ms: int,
    ) -> ElectLeadersResponse:
        """Return the outcomes; partitions None: all that need an election."""
        response = await self._admin.elect_leaders(election_type, partitions, within_ms)
        self._note(
            "leaders elected",
            election_type=election_type.name,
            error=response.error.name,
            partitions=_told(response.partitions),
        )
        return response

    async def alter_reassignments(
        self, partitions: tuple[ReassignmentItem, ...], within_ms: int
    ) -> AlterPartitionReassignmentsResponse:
        """Return for each reassignment whether it has begun, or was cancelled."""
        response = await self._admin.alter_reassignments(partitions, within_ms)
        self._note(
            "reassignments altered",
            error=response.error.name,
            partitions=_told(response.partitions),
        )
        return response

    async def list_reassignments(
        self, partitions: tuple[TopicPartition, ...] | None, within_ms: int
    ) -> ListPartitionReassignmentsResponse:
        """Return the partitions that are being moved, among the given ones; None: among all."""
        return await self._admin.list_reassignments(partitions, within_ms)

    async def alter_configs(
        self, resources: tuple[AlteredResource, ...], within_ms: int
    ) -> tuple[AlteredConfigResult, ...]:
        """Return each resource's outcome; () when no broker answered in time."""
        results = await self._admin.alter_configs(resources, within_ms)
        self._note(
            "configurations altered",
            resources={each.resource_name: each.error.name for each in results},
        )
        return results

    async def metadata(self, topics: tuple[str, ...] | None = None) -> MetadataResponse | None:
        """Return the metadata of the first broker that answers, None when none does."""
        return await self._admin.metadata(topics)

    # ------------------------------------------------------------ records

    async def send(
        self,
        topic: str,
        partition: int,
        value: str,
        within_ms: int,
        acks: int = ACKS_ALL,
        key: str = "",
    ) -> Outcome:
        """Write one record, without a key if it is "", and return how it ended."""
        done = self.runtime.future()
        self._sender(topic, acks).send(
            topic, partition, value, key=key, delivery_timeout_ms=within_ms, on_done=done.set
        )
        outcome: Outcome = await done.wait()
        self._note(
            "send",
            value=value,
            outcome=outcome.type,
            offset=outcome.offset,
            tries=outcome.tries,
            **({"error": outcome.error} if outcome.error else {}),
        )
        return outcome

    def _sender(self, topic: str, acks: int) -> RecordSender:
        """Return the sender for that acks; `topic` is the topic of its first record."""
        if acks not in self._senders:
            settings = ProducerSettings(
                topic, acks=acks, retry_backoff_ms=RETRY_MS, request_timeout_ms=CALL_TIMEOUT_MS
            )
            self._senders[acks] = RecordSender(
                self.runtime, self.transport, self.bootstrap, settings, self._recorder
            )
        return self._senders[acks]

    async def read_all(self, topic: str, partition: int, within_ms: int) -> list[ReadRecord]:
        """Read from the earliest offset to the leader's high watermark at the end."""
        consumer = Consumer(
            self.runtime, self.transport, self.bootstrap, ConsumerSettings(topic, (partition,))
        )
        self.runtime.scope("read_all").spawn("Consumer", consumer.run())
        await consumer.caught_up(within_ms)
        consumer.stop()
        records = [
            ReadRecord(event.offset, event.value.encode())
            for event in consumer.history
            if event.function == POLL and not event.error
        ]
        self._note("read", topic=topic, partition=partition, records=len(records))
        return records


def _told(results: Sequence[PartitionResult]) -> dict[str, str]:
    """Return each partition's outcome, by its name."""
    return {str(result.topic_partition): result.error.name for result in results}
