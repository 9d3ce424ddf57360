"""InitProducerId as values: how a producer gets the id that makes its retries idempotent.

Source: KIP-98, KIP-360.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_core.errors import ErrorCode
from highwater_core.ids import ProducerId
from highwater_wire.kafka.record_batch import NO_PRODUCER_ID

NO_PRODUCER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    """producer_id and producer_epoch: what the producer has by now, both -1 where it has none."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class InitProducerIdResponse:
    error: ErrorCode
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
