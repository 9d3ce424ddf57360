"""Creates and deletes topics, asking one broker after another until it is done or time is up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater_client.metadata import Brokers
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_core.ids import Endpoint
from highwater_core.ports import Transport
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
    MetadataResponse,
    TopicToCreate,
)

CALL_TIMEOUT_MS = 5_000
RETRY_MS = 50

_DEFINITE_BUT_PASSING = (ErrorCode.INVALID_REPLICATION_FACTOR,)
"""Too few brokers live: more may come."""


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
        """Return NONE or TOPIC_ALREADY_EXISTS once it exists, or the last error in time.

        After a lost answer TOPIC_ALREADY_EXISTS may speak of this call's own topic.
        """
        wanted = TopicToCreate(name, partition_count, replication_factor, configs=configs)
        return await self._ask(
            lambda timeout_ms: CreateTopicsRequest((wanted,), timeout_ms), within_ms
        )

    async def delete_topic(self, name: str, within_ms: int) -> ErrorCode:
        """Return NONE or UNKNOWN_TOPIC_OR_PARTITION once it is gone, or the last error in time."""
        return await self._ask(
            lambda timeout_ms: DeleteTopicsRequest((name,), timeout_ms),
            within_ms,
            done=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    async def metadata(self, topics: tuple[str, ...] | None = None) -> MetadataResponse | None:
        """Return what some broker says, None when none answers."""
        response: MetadataResponse | None = await self._brokers.ask_any(
            "admin", MetadataRequest(topics), CALL_TIMEOUT_MS
        )
        return response

    async def _ask(
        self, request_of: Any, within_ms: int, done: ErrorCode = ErrorCode.NONE
    ) -> ErrorCode:
        """Return the first error that more tries would not change, or the last one in time."""
        deadline_ms = self._runtime.now_ms() + within_ms
        error = ErrorCode.REQUEST_TIMED_OUT
        while (left_ms := deadline_ms - self._runtime.now_ms()) > 0:
            timeout_ms = min(left_ms, CALL_TIMEOUT_MS)
            response = await self._brokers.ask_any("admin", request_of(timeout_ms), timeout_ms)
            if response is not None:
                error = response.topics[0].error
                if error == done or _is_final(error):
                    break
            await self._runtime.sleep(RETRY_MS)
        return error


def _is_final(error: ErrorCode) -> bool:
    return error not in _DEFINITE_BUT_PASSING and not MEANINGS[error].retriable
