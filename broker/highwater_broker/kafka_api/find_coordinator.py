"""FindCoordinator: a group's coordinator is the leader of its partition of `__consumer_offsets`.

placement chooses the partition; the topic is created when it is first needed. There are no
transaction coordinators: all clients take TRANSACTIONAL_ID_AUTHORIZATION_FAILED as final. After
UNSUPPORTED_VERSION librdkafka asks again for ever.
Source: KIP-699 (many keys at once).
"""

from __future__ import annotations

from highwater_broker.coordinator.logic.placement import offsets_partition
from highwater_broker.kafka_api.metadata import endpoint_for
from highwater_broker.kafka_api.offsets_topic import OffsetsTopic
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_wire.kafka.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FoundCoordinator,
)

GROUP, TRANSACTION = 0, 1
NO_NODE = NodeId(-1)


class FindCoordinatorHandler:
    """Answers FindCoordinator."""

    def __init__(self, metadata: MetadataCache, offsets_topic: OffsetsTopic, turns: Turns) -> None:
        self._metadata = metadata
        self._offsets_topic = offsets_topic
        self._turns = turns

    async def handle(
        self, request: FindCoordinatorRequest, listener: str
    ) -> FindCoordinatorResponse:
        """Return each key's coordinator, or an error."""
        count = 0
        if request.key_type == GROUP and request.keys:
            count = await self._offsets_topic.partition_count()
        found = await self._turns.each(
            lambda key: self._find(key, request.key_type, count, listener), request.keys
        )
        return FindCoordinatorResponse(tuple(found))

    def _find(self, key: str, key_type: int, count: int, listener: str) -> FoundCoordinator:
        if key_type == TRANSACTION:
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return _refused(key, error, "this cluster coordinates no transactions")
        if key_type != GROUP:
            return _refused(key, ErrorCode.INVALID_REQUEST, f"no coordinator of type {key_type}")
        if not count:
            message = self._offsets_topic.failure or f"{OFFSETS_TOPIC} is being made"
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        number = offsets_partition(key, count)
        partition = self._metadata.partition(OFFSETS_TOPIC, number)
        leader = None if partition is None else self._metadata.endpoints(partition.leader)
        if leader is None:
            message = f"{OFFSETS_TOPIC}-{number} has no leader at present"
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        endpoint = endpoint_for(leader, listener)
        return FoundCoordinator(
            key, ErrorCode.NONE, None, leader.broker_id, endpoint.host, endpoint.port
        )


def _refused(key: str, error: ErrorCode, message: str) -> FoundCoordinator:
    return FoundCoordinator(key, error, message, NO_NODE, "", -1)
