"""The longest messages between controllers and brokers, which name all partitions of a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater_adapters.control_plane import MAX_MESSAGE_BYTES
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    CommandResponse,
    ControlledShutdownResponse,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    PartitionMetadata,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from highwater_core.topic_plans import MAX_PARTITIONS
from highwater_wire.control import METHODS, encode_control_request, encode_control_response

FEW, MORE = 10, 30
MOST = 2**31 - 1
REPLICAS = tuple(NodeId(MOST - number) for number in range(6))
TOPIC_ID = TopicId("f" * 32)
SENDER = (NodeId(MOST), ControllerEpoch(MOST), BrokerEpoch(2**62))


def keys(count: int) -> list[TopicPartition]:
    """Return partitions of topics with the longest names."""
    return [TopicPartition(f"{number:06}".ljust(249, "x"), MOST) for number in range(count)]


def leader_and_isr(count: int) -> int:
    """Return the size of the command that a broker which starts gets, in bytes."""
    items = tuple(
        LeaderAndIsrPartition(
            key,
            NodeId(MOST),
            LeaderEpoch(MOST),
            REPLICAS,
            PartitionEpoch(MOST),
            REPLICAS,
            topic_id=TOPIC_ID,
        )
        for key in keys(count)
    )
    _, data = encode_control_request(
        LeaderAndIsrRequest(*SENDER, is_init=True, partitions=items, live_leaders=())
    )
    return len(data)


def update_metadata(count: int) -> int:
    items = tuple(
        PartitionMetadata(
            key,
            NodeId(MOST),
            LeaderEpoch(MOST),
            REPLICAS,
            REPLICAS,
            PartitionEpoch(MOST),
            topic_id=TOPIC_ID,
            failed_replicas=REPLICAS,
        )
        for key in keys(count)
    )
    _, data = encode_control_request(UpdateMetadataRequest(*SENDER, (), items, is_full=True))
    return len(data)


def stop_replica(count: int) -> int:
    items = tuple(
        StopReplicaPartition(
            key, delete_partition=True, leader_epoch=LeaderEpoch(MOST), topic_id=TOPIC_ID
        )
        for key in keys(count)
    )
    _, data = encode_control_request(StopReplicaRequest(*SENDER, items))
    return len(data)


def method_of(name: str) -> str:
    (path,) = [path for path in METHODS if path.endswith(f"/{name}")]
    return path


def answer_to_a_command(count: int) -> int:
    errors = tuple((key, ErrorCode.STALE_BROKER_EPOCH) for key in keys(count))
    answer = CommandResponse(ErrorCode.NONE, errors)
    return len(encode_control_response(method_of("LeaderAndIsr"), answer))


def partitions_still_led(count: int) -> int:
    answer = ControlledShutdownResponse(ErrorCode.NONE, tuple(keys(count)))
    return len(encode_control_response(method_of("ControlledShutdown"), answer))


@pytest.mark.parametrize(
    "size_of",
    [leader_and_isr, update_metadata, stop_replica, answer_to_a_command, partitions_still_led],
)
def test_a_message_may_name_all_partitions_that_a_cluster_may_have(
    size_of: Callable[[int], int],
) -> None:
    bytes_each = (size_of(MORE) - size_of(FEW)) / (MORE - FEW)
    assert bytes_each > 249
    assert size_of(FEW) + bytes_each * MAX_PARTITIONS < MAX_MESSAGE_BYTES
