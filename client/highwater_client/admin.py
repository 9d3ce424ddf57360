"""Administers topics and partitions: tries one broker after another until one answers.

Each method ends in time, with the last answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from highwater_client.metadata import Brokers
from highwater_core.admin_messages import ElectionType, ReassignmentItem
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_core.ids import Endpoint, NodeId, TopicPartition
from highwater_core.ports import Transport
from highwater_core.runtime import Runtime
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    PartitionsToCreate,
)
from highwater_wire.kafka.config_messages import (
    AlteredConfigResult,
    AlteredResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from highwater_wire.kafka.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    KafkaRequest,
    MetadataRequest,
    MetadataResponse,
    TopicToCreate,
)

CALL_TIMEOUT_MS = 5_000
RETRY_MS = 50
NO_ANSWER = "no broker answered"
RequestOf = Callable[[int], KafkaRequest]
"""Makes a request with a timeout in milliseconds."""

_DEFINITE_BUT_PASSING = (ErrorCode.INVALID_REPLICATION_FACTOR,)
"""Definite errors that may pass: too few brokers live, and more may start."""


class Admin:
    """One admin client."""

    def __init__(
        self, runtime: Runtime, transport: Transport, bootstrap: Sequence[Endpoint]
    ) -> None:
        self._runtime = runtime
        self._brokers = Brokers(transport, bootstrap)

    async def create_topic(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        within_ms: int,
        configs: tuple[tuple[str, str | None], ...] = (),
    ) -> ErrorCode:
        """Return NONE or TOPIC_ALREADY_EXISTS once the topic exists, or the last error in time.

        After a lost answer TOPIC_ALREADY_EXISTS may mean this call's own topic.
        """
        wanted = TopicToCreate(name, partition_count, replication_factor, configs=configs)
        return await self._ask_about_topic(
            lambda timeout_ms: CreateTopicsRequest((wanted,), timeout_ms), within_ms
        )

    async def delete_topic(self, name: str, within_ms: int) -> ErrorCode:
        """Return NONE or UNKNOWN_TOPIC_OR_PARTITION once the topic is gone, or the last error."""
        return await self._ask_about_topic(
            lambda timeout_ms: DeleteTopicsRequest((name,), timeout_ms),
            within_ms,
            done=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    async def create_partitions(
        self,
        topic: str,
        total_count: int,
        within_ms: int,
        assignments: tuple[tuple[NodeId, ...], ...] | None = None,
    ) -> ErrorCode:
        """Return NONE once the topic has total_count partitions, or the last error in time.

        After a lost answer INVALID_PARTITIONS may mean partitions that this call has added.
        """
        wanted = PartitionsToCreate(topic, total_count, assignments)
        return await self._ask_about_topic(
            lambda timeout_ms: CreatePartitionsRequest((wanted,), timeout_ms), within_ms
        )

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: tuple[TopicPartition, ...] | None,
        within_ms: int,
    ) -> ElectLeadersResponse:
        """Return the outcomes; partitions None: all that need an election."""
        response: ElectLeadersResponse | None = await self._ask_as_a_whole(
            lambda timeout_ms: ElectLeadersRequest(election_type, partitions, timeout_ms), within_ms
        )
        return response or ElectLeadersResponse(ErrorCode.REQUEST_TIMED_OUT, ())

    async def alter_reassignments(
        self, partitions: tuple[ReassignmentItem, ...], within_ms: int
    ) -> AlterPartitionReassignmentsResponse:
        """Return for each reassignment whether it has begun, or was cancelled."""
        response: AlterPartitionReassignmentsResponse | None = await self._ask_as_a_whole(
            lambda timeout_ms: AlterPartitionReassignmentsRequest(partitions, timeout_ms), within_ms
        )
        return response or AlterPartitionReassignmentsResponse(
            ErrorCode.REQUEST_TIMED_OUT, NO_ANSWER, ()
        )

    async def list_reassignments(
        self, partitions: tuple[TopicPartition, ...] | None, within_ms: int
    ) -> ListPartitionReassignmentsResponse:
        """Return the partitions that are being moved, among the given ones; None: among all."""
        response: ListPartitionReassignmentsResponse | None = await self._ask_as_a_whole(
            lambda timeout_ms: ListPartitionReassignmentsRequest(partitions, timeout_ms), within_ms
        )
        return response or ListPartitionReassignmentsResponse(
            ErrorCode.REQUEST_TIMED_OUT, NO_ANSWER, ()
        )

    async def alter_configs(
        self, resources: tuple[AlteredResource, ...], within_ms: int, *, validate_only: bool = False
    ) -> tuple[AlteredConfigResult, ...]:
        """Return each resource's outcome; () when no broker answered in time.

        More tries would not change the outcomes, unless the time is over.
        """
        response: IncrementalAlterConfigsResponse | None = await self._ask(
            lambda timeout_ms: IncrementalAlterConfigsRequest(resources, validate_only),
            within_ms,
            lambda response: all(_is_final(each.error) for each in response.resources),
        )
        return () if response is None else response.resources

    async def metadata(self, topics: tuple[str, ...] | None = None) -> MetadataResponse | None:
        """Return the metadata of the first broker that answers, None when none does."""
        response: MetadataResponse | None = await self._brokers.ask_any(
            "admin", MetadataRequest(topics), CALL_TIMEOUT_MS
        )
        return response

    async def _ask_about_topic(
        self, request_of: RequestOf, within_ms: int, done: ErrorCode = ErrorCode.NONE
    ) -> ErrorCode:
        """Return the first error that more tries would not change, or the last one in time."""

        def is_final(response: Any) -> bool:
            error = response.topics[0].error
            return error == done or _is_final(error)

        response = await self._ask(request_of, within_ms, is_final)
        return ErrorCode.REQUEST_TIMED_OUT if response is None else response.topics[0].error

    async def _ask_as_a_whole(self, request_of: RequestOf, within_ms: int) -> Any | None:
        """Return the first answer whose request-level error more tries would not change."""
        return await self._ask(request_of, within_ms, lambda response: _is_final(response.error))

    async def _ask(
        self, request_of: RequestOf, within_ms: int, is_final: Callable[[Any], bool]
    ) -> Any | None:
        """Return the first answer that is final, or the last one in time; None if none came."""
        deadline_ms = self._runtime.now_ms() + within_ms
        last = None
        while (left_ms := deadline_ms - self._runtime.now_ms()) > 0:
            timeout_ms = min(left_ms, CALL_TIMEOUT_MS)
            response = await self._brokers.ask_any("admin", request_of(timeout_ms), timeout_ms)
            if response is not None:
                last = response
                if is_final(response):
                    break
            await self._runtime.sleep(RETRY_MS)
        return last


def _is_final(error: ErrorCode) -> bool:
    return error not in _DEFINITE_BUT_PASSING and not MEANINGS[error].retriable
