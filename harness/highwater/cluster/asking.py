"""Sends a request to a running cluster's brokers, one after another, until one answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.cluster.cluster import Cluster
from highwater.cluster.wire_client import ConnectionClosed, WireClient
from highwater.errors import HarnessError
from highwater_core.ids import NodeId
from highwater_wire.kafka.messages import KafkaRequest


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
        NoBrokerAnswers: none did; the request may have been carried out.
    """
    why = "the cluster has no such broker"
    for broker in cluster.topology.broker_ids if brokers is None else brokers:
        try:
            with WireClient(cluster.external_endpoint(broker), timeout_s=timeout_s) as client:
                return client.call(request)
        except (OSError, ConnectionClosed) as error:
            why = f"broker {broker} does not answer: {error}"
    raise NoBrokerAnswers(why)
