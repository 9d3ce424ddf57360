"""An idempotent producer's id: any broker is asked for one, until a broker gives one."""

from __future__ import annotations

from collections.abc import Callable

from highwater_client.metadata import METADATA_TIMEOUT_MS, Brokers
from highwater_client.settings import backoff_after
from highwater_core.errors import ErrorCode
from highwater_core.runtime import Runtime
from highwater_wire.kafka.producer_messages import InitProducerIdRequest


class ProducerIdentity:
    """The producer's newest id, None before the first; on_known is called with each new one."""

    def __init__(
        self, runtime: Runtime, brokers: Brokers, on_known: Callable[[], None], backoff_ms: int
    ) -> None:
        self.producer_id: int | None = None
        self._runtime = runtime
        self._brokers = brokers
        self._on_known = on_known
        self._backoff_ms = backoff_ms
        self._scope = runtime.scope("ProducerIdentity")
        self._is_asking = False

    def need(self, used_up_id: int | None) -> None:
        """Request an id, unless the producer has one other than used_up_id."""
        if self.producer_id == used_up_id and not self._is_asking:
            self._is_asking = True
            self._scope.spawn("ProducerIdentity", self._ask())

    def close(self) -> None:
        self._scope.cancel()

    async def _ask(self) -> None:
        failures = 0
        while True:
            response = await self._brokers.ask_any(
                "metadata", InitProducerIdRequest(), METADATA_TIMEOUT_MS
            )
            if response is not None and response.error is ErrorCode.NONE:
                break
            failures += 1
            await self._runtime.sleep(backoff_after(failures, self._backoff_ms))
        self._is_asking = False
        self.producer_id = response.producer_id
        self._on_known()
