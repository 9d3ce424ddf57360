"""Holds clients' requests back until this broker knows the cluster.

A broker answers its ports before its logs are loaded, before it is registered and before a
controller has told it of the cluster. Until then it knows no topics, groups or brokers, and does
not answer so: a topic that is unknown ends requests of librdkafka for good (ListOffsets,
OffsetCommit), and a broker that Metadata leaves out is forgotten; after an empty answer librdkafka
cannot reconnect (from 2.10 on, KIP-899). A client's request waits for a moment; then its connection
is closed, and the client tries again, or another broker.

ApiVersions needs no knowledge. To a Produce the broker says that it does not host the partition:
its records are not appended, and every client sends them again; the end of a connection would leave
that open. Followers' requests are answered: replication begins while a cluster starts.
Source: Kafka's broker loads its logs and registers before it processes requests.
"""

from __future__ import annotations

from highwater_broker.kafka_api.group_handlers import Handler
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import (
    ApiVersionsRequest,
    HangUp,
    KafkaAnswer,
    KafkaRequest,
    MetadataRequest,
    ProduceRequest,
    UnsupportedRequest,
)

WAIT_TO_KNOW_MS = 500
"""With a controller, the time from a broker's start to its first UpdateMetadata is seldom longer;
clients wait longer for an answer."""
_ANSWERED_AT_ONCE = (ApiVersionsRequest, ProduceRequest, UnsupportedRequest)


class UntilKnown:
    """Whether this broker knows the cluster, and the requests that come before."""

    def __init__(self, metadata: MetadataCache, runtime: Runtime) -> None:
        self._is_known = runtime.event()
        metadata.when_known(self._is_known.set)

    def holds(self, request: KafkaRequest, listener: str) -> bool:
        """Return whether the request must be given to `answer`."""
        if self._is_known.is_set() or isinstance(request, _ANSWERED_AT_ONCE):
            return False
        return listener in CLIENT_LISTENERS or isinstance(request, MetadataRequest)

    async def answer(self, handler: Handler, request: KafkaRequest, listener: str) -> KafkaAnswer:
        """Return the handler's answer once the cluster is known, or HangUp after a moment."""
        if await self._is_known.wait(WAIT_TO_KNOW_MS):
            return await handler(request, listener)
        name = type(request).__name__.removesuffix("Request")
        return HangUp(f"{name} is asked for, and no controller has told of the cluster yet")
