"""Shared by the control plane's converters: their error and the common fields.

Peers' bad content raises MalformedControlMessage and no other error.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_core.admin_messages import TopicResult
from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, Endpoint, NodeId, TopicPartition
from highwater_core.messages import BrokerEndpoints
from highwater_core.znodes import is_host
from highwater_wire.v1 import common_pb2 as pb

_ERRORS = {int(code): code for code in ErrorCode}


class MalformedControlMessage(Exception):
    """A peer sent another content than the documented message; the text says what is wrong."""


def require(condition: object, message: str) -> None:
    """Refuse a peer's message unless the condition holds."""
    if not condition:
        raise MalformedControlMessage(message)


def read_error(code: int) -> ErrorCode:
    """Return the registry's error; a code that is not in it becomes UNKNOWN_SERVER_ERROR."""
    return _ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def read_ids(values: Iterable[int]) -> tuple[NodeId, ...]:
    return tuple(NodeId(value) for value in values)


def read_partition(message: pb.TopicPartition) -> TopicPartition:
    """Return the partition; the receiver checks the topic's name.

    A command can be refused for single partitions, while its other partitions are carried out.
    """
    require(message.topic, "a partition without its topic's name")
    require(message.partition >= 0, f"partition {message.partition} of {message.topic!r}")
    return TopicPartition(message.topic, message.partition)


def write_partition(value: TopicPartition) -> pb.TopicPartition:
    return pb.TopicPartition(topic=value.topic, partition=value.partition)


def read_endpoint(message: pb.Endpoint) -> Endpoint:
    require(is_host(message.host), f"host {message.host[:300]!r}")
    require(0 < message.port < 65_536, f"port {message.port} of {message.host!r}")
    return Endpoint(message.host, message.port)


def write_endpoint(value: Endpoint) -> pb.Endpoint:
    return pb.Endpoint(host=value.host, port=value.port)


def read_broker(message: pb.BrokerEndpoints) -> BrokerEndpoints:
    return BrokerEndpoints(
        broker_id=NodeId(message.broker_id),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        client=read_endpoint(message.client),
        client_external=read_endpoint(message.client_external),
        replication=read_endpoint(message.replication),
        control=read_endpoint(message.control),
    )


def write_broker(value: BrokerEndpoints) -> pb.BrokerEndpoints:
    return pb.BrokerEndpoints(
        broker_id=value.broker_id,
        broker_epoch=value.broker_epoch,
        client=write_endpoint(value.client),
        client_external=write_endpoint(value.client_external),
        replication=write_endpoint(value.replication),
        control=write_endpoint(value.control),
    )


def read_topic_result(message: pb.TopicResult) -> TopicResult:
    return TopicResult(message.name, read_error(message.error_code), message.message)


def write_topic_result(value: TopicResult) -> pb.TopicResult:
    return pb.TopicResult(name=value.name, error_code=value.error, message=value.message)
