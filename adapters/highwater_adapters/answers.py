"""Answers as pieces to send; unreadable records cost only their own partition.

A fetch of many partitions is repeated: if the whole answer failed, the other partitions would never
get their records.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from highwater_adapters.response_writer import OwnedPiece, own, own_piece
from highwater_wire.kafka.codec import encode_response
from highwater_wire.kafka.messages import FetchPartitionResult, FetchResponse, KafkaResponse

_LOGGER = logging.getLogger("highwater.listener")


def own_answer(response: KafkaResponse, api_version: int, correlation_id: int) -> list[OwnedPiece]:
    """Return the answer in pieces that stay valid when the log closes their segments.

    A partition whose records cannot be read is answered with KAFKA_STORAGE_ERROR, and no records.

    Raises:
        UnencodableResponse: a value does not fit its field.
        OSError: the disk failed, and not in a fetch's records.
    """
    try:
        return own(encode_response(response, api_version, correlation_id))
    except OSError:
        if not isinstance(response, FetchResponse):
            raise
    results = tuple([_owned(result) for result in response.partitions])
    readable = FetchResponse(results, response.error)
    return own(encode_response(readable, api_version, correlation_id))


def _owned(result: FetchPartitionResult) -> FetchPartitionResult:
    """Return the result with its records read or borrowed, or else with an error."""
    try:
        records: Any = own_piece(result.records)
        return replace(result, records=records)
    except OSError as error:
        _LOGGER.warning("records of %s-%d: %s", result.topic, result.partition, error)
    return result.unreadable()
