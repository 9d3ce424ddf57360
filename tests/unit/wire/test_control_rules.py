"""A node refuses bad names, numbers and addresses in a decodable control message."""

from __future__ import annotations

import pytest

from highwater_wire import control
from highwater_wire.v1 import broker_control_pb2, common_pb2


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (broker_control_pb2.StopReplicaRequest(request_type_id=4, version_id=1), "request_type_id"),
        (broker_control_pb2.StopReplicaRequest(request_type_id=5, version_id=2), "version_id"),
        (
            broker_control_pb2.StopReplicaRequest(
                request_type_id=5,
                version_id=1,
                partitions=[broker_control_pb2.StopReplicaPartition()],
            ),
            "without its topic",
        ),
        (
            broker_control_pb2.StopReplicaRequest(
                request_type_id=5,
                version_id=1,
                partitions=[
                    broker_control_pb2.StopReplicaPartition(
                        topic_partition=common_pb2.TopicPartition(topic="t", partition=-1)
                    )
                ],
            ),
            "partition -1",
        ),
    ],
)
def test_command_that_breaks_a_rule_is_malformed(
    message: broker_control_pb2.StopReplicaRequest, what: str
) -> None:
    path = f"/{control.BROKER_SERVICE}/StopReplica"
    with pytest.raises(control.MalformedControlMessage, match=what):
        control.decode_control_request(path, message.SerializeToString())


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_endpoint_with_an_impossible_port_is_malformed(port: int) -> None:
    at = common_pb2.Endpoint(host="h", port=port)
    broker = common_pb2.BrokerEndpoints(client=at, client_external=at, replication=at, control=at)
    message = broker_control_pb2.UpdateMetadataRequest(
        request_type_id=6, version_id=1, live_brokers=[broker]
    )
    path = f"/{control.BROKER_SERVICE}/UpdateMetadata"
    with pytest.raises(control.MalformedControlMessage, match="port"):
        control.decode_control_request(path, message.SerializeToString())


@pytest.mark.parametrize("host", ["", "a b", "unix:/run/x", "h\n", "x" * 256])
def test_endpoint_with_a_host_that_nobody_has_is_malformed(host: str) -> None:
    at = common_pb2.Endpoint(host=host, port=1)
    broker = common_pb2.BrokerEndpoints(client=at, client_external=at, replication=at, control=at)
    message = broker_control_pb2.UpdateMetadataRequest(
        request_type_id=6, version_id=1, live_brokers=[broker]
    )
    path = f"/{control.BROKER_SERVICE}/UpdateMetadata"
    with pytest.raises(control.MalformedControlMessage, match="host"):
        control.decode_control_request(path, message.SerializeToString())
