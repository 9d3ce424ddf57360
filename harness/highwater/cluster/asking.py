"""Sends a request to a running cluster's brokers, one after another, until one answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Asked:
    """A response, and the brokers that got the request before and did not answer."""

    response: Any
    unanswered: tuple[NodeId, ...] = ()

    @property
    def doubt(self) -> str:
        """Return why a refusal may be of work that this request has done itself, "" if none."""
        if not self.unanswered:
            return ""
        brokers = ", ".join(str(each) for each in self.unanswered)
        return f"(sent to broker {brokers} before, without an answer: it may have been done there)"


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
    return ask_in_turn(cluster, request, timeout_s, brokers).response


def ask_in_turn(
    cluster: Cluster,
    request: KafkaRequest,
    timeout_s: float,
    brokers: Sequence[NodeId] | None = None,
) -> Asked:
    """As ask_any, with the brokers that may have carried the request out unheard."""
    _check_fits(request)
    why = "the cluster has no such broker"
    unanswered: list[NodeId] = []
    for broker in cluster.topology.broker_ids if brokers is None else brokers:
        try:
            with WireClient(cluster.external_endpoint(broker), timeout_s=timeout_s) as client:
                unanswered.append(broker)
                return Asked(client.call(request), tuple(unanswered[:-1]))
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
