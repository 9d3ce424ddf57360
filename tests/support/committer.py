"""Commits and fetches a group's offsets without being a member, one after another.

A consumer that assigns its own partitions does the same. Every operation gets its outcome in the
history. A commit is unknown if no answer came, or if its error may have come after the append.
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_checker.history import COMMIT, FETCH_COMMITTED, OperationType
from highwater_client.metadata import METADATA_TIMEOUT_MS, Brokers
from highwater_client.offset_history import OffsetHistory
from highwater_client.outcomes import TryResult, judge_answer, judge_failure
from highwater_client.recorder import HistoryRecorder
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, Offset, TopicPartition
from highwater_core.ports import CallFailed, Transport
from highwater_core.runtime import Runtime
from highwater_wire.kafka.committed_messages import (
    GroupToFetch,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetToCommit,
)
from highwater_wire.kafka.messages import FindCoordinatorRequest

REQUEST_TIMEOUT_MS = 7_000
"""Longer than a coordinator waits for a commit by default."""
NO_COORDINATOR = TryResult("no coordinator was found", may_be_there=False, may_retry=True)


class OffsetCommitter:
    """One client of one group."""

    def __init__(
        self,
        runtime: Runtime,
        transport: Transport,
        bootstrap: Sequence[Endpoint],
        group_id: str,
        recorder: HistoryRecorder,
    ) -> None:
        self._runtime = runtime
        self._transport = transport
        self._brokers = Brokers(transport, bootstrap)
        self._group_id = group_id
        self._history = OffsetHistory(recorder, group_id)
        self._coordinator: Endpoint | None = None

    async def commit(self, at: TopicPartition, offset: int) -> OperationType:
        """Send one commit of the offset, and return its outcome."""
        operation_id = self._history.begin(COMMIT, at, offset)
        coordinator = await self._find()
        if coordinator is None:
            return self._end(operation_id, COMMIT, at, offset, NO_COORDINATOR)
        item = OffsetToCommit(at.topic, at.partition, Offset(offset))
        request = OffsetCommitRequest(self._group_id, (item,))
        try:
            response = await self._transport.call(
                coordinator, "committer", request, REQUEST_TIMEOUT_MS
            )
            result = judge_answer(response.partitions[0].error)
        except CallFailed as failure:
            result = judge_failure(failure)
        return self._end(operation_id, COMMIT, at, offset, result)

    async def fetch(self, at: TopicPartition) -> int | None:
        """Return the committed offset, -1 where there is none, None after an error."""
        operation_id = self._history.begin(FETCH_COMMITTED, at)
        coordinator = await self._find()
        result, offset = NO_COORDINATOR, -1
        if coordinator is not None:
            request = OffsetFetchRequest((GroupToFetch(self._group_id, (at,)),))
            try:
                response = await self._transport.call(
                    coordinator, "committer", request, REQUEST_TIMEOUT_MS
                )
                (group,) = response.groups
                result = judge_answer(group.error or group.partitions[0].error)
                offset = -1 if result.error else group.partitions[0].offset
            except CallFailed as failure:
                result = judge_failure(failure)
        self._end(operation_id, FETCH_COMMITTED, at, offset, result)
        return None if result.error else offset

    async def _find(self) -> Endpoint | None:
        if self._coordinator is None:
            response = await self._brokers.ask_any(
                "committer", FindCoordinatorRequest((self._group_id,)), METADATA_TIMEOUT_MS * 2
            )
            if response is not None and response.coordinators[0].error is ErrorCode.NONE:
                found = response.coordinators[0]
                self._coordinator = Endpoint(found.host, found.port)
        return self._coordinator

    def _end(
        self, operation_id: int, function: str, at: TopicPartition, offset: int, result: TryResult
    ) -> OperationType:
        """Record the outcome; after an error the coordinator is looked for anew."""
        if result.error:
            self._coordinator = None
        return self._history.end(operation_id, function, at, offset, result)
