"""Knows each partition's leader from the last metadata, and refreshes it on request.

Any broker may answer: known ones first, then the bootstrap list, each time beginning with another
one. A leader is kept until its client forgets it or newer metadata replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from highwater_client.settings import backoff_after
from highwater_core.ids import Endpoint
from highwater_core.ports import CallFailed, Transport
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import MetadataRequest, MetadataResponse

METADATA_TIMEOUT_MS = 1_000
"""A broker answers from memory; after this time the next one is tried."""


class Brokers:
    """The brokers that a client knows, and calls to the first one that answers."""

    def __init__(self, transport: Transport, bootstrap: Sequence[Endpoint]) -> None:
        self._transport = transport
        self._bootstrap = tuple(bootstrap)
        self._endpoints = self._bootstrap
        self._next = 0

    def learn(self, response: MetadataResponse) -> None:
        """Try these brokers first from now on."""
        known = [Endpoint(broker.host, broker.port) for broker in response.brokers]
        others = [endpoint for endpoint in self._bootstrap if endpoint not in known]
        self._endpoints = (*known, *others)

    async def ask_any(self, connection: str, request: Any, timeout_ms: int) -> Any:
        """Return the first answer of a broker, None without one."""
        endpoints = self._endpoints
        first = self._next % len(endpoints)
        self._next = first + 1
        for endpoint in (*endpoints[first:], *endpoints[:first]):
            try:
                return await self._transport.call(endpoint, connection, request, timeout_ms)
            except CallFailed:
                continue
        return None


class Leaders:
    """The leader of each partition of the topics that its client requested.

    A background task refreshes: at once when a leader is missing, after a backoff when the last
    answer did not have it, and every max_age_ms.
    on_refresh: called after each answer, and after each round without an answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        brokers: Brokers,
        on_refresh: Callable[[], None],
        *,
        backoff_ms: int,
        max_age_ms: int,
    ) -> None:
        self._runtime = runtime
        self._brokers = brokers
        self._on_refresh = on_refresh
        self._backoff_ms = backoff_ms
        self._max_age_ms = max_age_ms
        self._topics: dict[str, None] = {}
        self._leaders: dict[tuple[str, int], Endpoint] = {}
        self._is_needed = runtime.event()
        self._scope = runtime.scope("Leaders")
        self._has_started = False

    def find(self, topic: str, partition: int) -> Endpoint | None:
        return self._leaders.get((topic, partition))

    def forget(self, topic: str, partition: int, leader: Endpoint) -> None:
        """Forget this broker as the leader; a leader learnt since stays."""
        if self._leaders.get((topic, partition)) == leader:
            del self._leaders[topic, partition]

    def need(self, topic: str) -> None:
        """Request the topic's leaders."""
        self._topics[topic] = None
        self._is_needed.set()
        if not self._has_started:
            self._has_started = True
            self._scope.spawn("Leaders", self._refresh_when_needed())

    def close(self) -> None:
        self._scope.cancel()

    async def _refresh_when_needed(self) -> None:
        failures = 0
        while True:
            await self._is_needed.wait(self._max_age_ms)
            response = await self._brokers.ask_any(
                "metadata", MetadataRequest(tuple(self._topics)), METADATA_TIMEOUT_MS
            )
            if response is not None:
                self._take(response)
            self._is_needed.clear()
            self._on_refresh()
            failures = failures + 1 if self._is_needed.is_set() else 0
            if failures:
                await self._runtime.sleep(backoff_after(failures, self._backoff_ms))

    def _take(self, response: MetadataResponse) -> None:
        self._brokers.learn(response)
        endpoints = {
            broker.broker_id: Endpoint(broker.host, broker.port) for broker in response.brokers
        }
        answered = [topic.name for topic in response.topics]
        kept = {key: leader for key, leader in self._leaders.items() if key[0] not in answered}
        for topic in response.topics:
            for item in topic.partitions:
                leader = endpoints.get(item.leader)
                if leader is not None:
                    kept[topic.name, item.partition] = leader
        self._leaders = kept
