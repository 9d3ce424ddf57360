"""Holds back what a broker could only answer wrongly, until it knows the cluster.

A broker answers its ports before its logs are loaded, before it is registered and before a
controller has told it of the cluster. Until then it knows no topics, groups or brokers. Some
requests would get an answer that a client takes for true or final: librdkafka ends ListOffsets of
an unknown topic for good, though another broker has just named this one as its leader, and it
forgets every broker that Metadata leaves out (KIP-899). Such a request of a client waits for a
moment; then its connection is closed, and the client tries again, or another broker.

Others are answered at once. Clients send them again: Produce and Fetch upon
UNKNOWN_TOPIC_OR_PARTITION, groups' requests upon NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE. The
controller answers requests that change the cluster. Followers are served: replication begins while
a cluster starts.
Deviation: Kafka's broker loads its logs and registers before it processes any request.
"""

from __future__ import annotations

from highwater_broker.kafka_api.group_handlers import Handler
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.runtime import Runtime
from highwater_wire.kafka.config_messages import DescribeConfigsRequest
from highwater_wire.kafka.group_messages import ListGroupsRequest
from highwater_wire.kafka.log_dir_messages import DescribeLogDirsRequest
from highwater_wire.kafka.messages import (
    HangUp,
    KafkaAnswer,
    KafkaRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
)

WAIT_TO_KNOW_MS = 500
"""With a controller, the time from a broker's start to its first UpdateMetadata is seldom longer;
clients wait longer for an answer."""
_NEED_KNOWLEDGE = (
    MetadataRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ListGroupsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
)


class UntilKnown:
    """Whether this broker knows the cluster, and the requests that it holds back before."""

    def __init__(self, metadata: MetadataCache, runtime: Runtime) -> None:
        self._is_known = runtime.event()
        metadata.when_known(self._is_known.set)

    def holds(self, request: KafkaRequest, listener: str) -> bool:
        """Return whether the request must be given to `answer`."""
        if self._is_known.is_set() or not isinstance(request, _NEED_KNOWLEDGE):
            return False
        return listener in CLIENT_LISTENERS or isinstance(request, MetadataRequest)

    async def answer(self, handler: Handler, request: KafkaRequest, listener: str) -> KafkaAnswer:
        """Return the handler's answer once the cluster is known, or HangUp after a moment."""
        if await self._is_known.wait(WAIT_TO_KNOW_MS):
            return await handler(request, listener)
        name = type(request).__name__.removesuffix("Request")
        return HangUp(f"{name} is asked for, and no controller has told of the cluster yet")
