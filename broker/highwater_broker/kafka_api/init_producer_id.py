"""InitProducerId: a new id for an idempotent producer; transactions are refused.

A producer that sends its present id gets a new one as well, with epoch 0: only a transaction's
coordinator raises epochs, and an idempotent producer raises its own (KIP-360).
"""

from __future__ import annotations

from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.kafka_api.rest_of_broker import ProducerIdSource
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.producer_messages import (
    NO_PRODUCER_EPOCH,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from highwater_wire.kafka.record_batch import NO_PRODUCER_ID


class InitProducerIdHandler:
    """Answers InitProducerId."""

    def __init__(self, producer_ids: ProducerIdSource) -> None:
        self._producer_ids = producer_ids

    async def handle(self, request: InitProducerIdRequest, listener: str) -> InitProducerIdResponse:
        """Return a producer id with epoch 0.

        A transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients
        take as final, as in FindCoordinator's answer before.
        """
        if request.transactional_id is not None:
            return InitProducerIdResponse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if listener not in CLIENT_LISTENERS or not _is_consistent(request):
            return InitProducerIdResponse(ErrorCode.INVALID_REQUEST)
        producer_id = await self._producer_ids.next_id()
        if producer_id is None:
            return InitProducerIdResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return InitProducerIdResponse(ErrorCode.NONE, producer_id, producer_epoch=0)


def _is_consistent(request: InitProducerIdRequest) -> bool:
    """Return whether the producer sends an id and an epoch, or neither."""
    has_id = request.producer_id != NO_PRODUCER_ID
    has_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
    return has_id == has_epoch and request.producer_id >= NO_PRODUCER_ID
