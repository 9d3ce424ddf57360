"""Sends a request to a running cluster's brokers, one after another, until one answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.cluster.cluster import Cluster
from highwater.cluster.wire_client import ConnectionClosed, WireClient
from highwater.errors import HarnessError
from highwater_core.ids import NodeId
from highwater_wire.kafka.codec import VERSION_PROFILE, api_key_of, encode_request
from highwater_wire.kafka.entities import NOT_ENCODABLE
from highwater_wire.kafka.messages import KafkaRequest
from highwater_wire.kafka.text import shortened


class DoesNotFit(HarnessError):
    """A request has a number or a text that does not fit its field, and cannot be sent."""


class NoBrokerAnswers(HarnessError):
    """No broker answered a request; the message says why the last one did not."""


def ask_any(
    cluster: Cluster,
    request: KafkaRequest,
    timeout_s: float,
    brokers: Sequence[NodeId] | None = None,
) -> Any:
    """Return the response of the first broker that answers, among the given ones or all.

    Raises:
        DoesNotFit: no broker was asked.
        NoBrokerAnswers: none did; the request may have been carried out.
    """
    _check_fits(request)
    why = "the cluster has no such broker"
    for broker in cluster.topology.broker_ids if brokers is None else brokers:
        try:
            with WireClient(cluster.external_endpoint(broker), timeout_s=timeout_s) as client:
                return client.call(request)
        except (OSError, ConnectionClosed) as error:
            why = f"broker {broker} does not answer: {error}"
    raise NoBrokerAnswers(why)


def _check_fits(request: KafkaRequest) -> None:
    version = VERSION_PROFILE.offered[api_key_of(request)][1]
    try:
        encode_request(request, version, 0, None)
    except NOT_ENCODABLE as error:
        what = f"{type(request).__name__}: a value does not fit its field: {error}"
        raise DoesNotFit(shortened(what)) from error
