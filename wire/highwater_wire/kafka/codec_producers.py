"""Converts InitProducerId: to kio, and back."""

from __future__ import annotations

from typing import Any

from highwater_core.ids import ProducerId
from highwater_wire.kafka.entities import (
    NO_THROTTLE,
    Schema,
    make,
    read_error,
    read_ms,
    write_ms,
)
from highwater_wire.kafka.producer_messages import (
    NO_PRODUCER_EPOCH,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from highwater_wire.kafka.record_batch import NO_PRODUCER_ID


def read_init_producer_id_request(entity: Any, _version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        entity.transactional_id,
        read_ms(entity.transaction_timeout),
        ProducerId(getattr(entity, "producer_id", NO_PRODUCER_ID)),
        getattr(entity, "producer_epoch", NO_PRODUCER_EPOCH),
    )


def write_init_producer_id_request(value: InitProducerIdRequest, schema: Schema) -> Any:
    return make(
        schema.types.InitProducerIdRequest,
        transactional_id=value.transactional_id,
        transaction_timeout=write_ms(value.transaction_timeout_ms),
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
    )


def read_init_producer_id_response(
    entity: Any, _request: InitProducerIdRequest
) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        read_error(entity.error_code), ProducerId(entity.producer_id), entity.producer_epoch
    )


def write_init_producer_id_response(value: InitProducerIdResponse, schema: Schema) -> Any:
    return make(
        schema.types.InitProducerIdResponse,
        throttle_time=NO_THROTTLE,
        error_code=value.error,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
    )
