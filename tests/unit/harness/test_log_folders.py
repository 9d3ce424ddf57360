"""The log folder of a replica, by the brokers' DescribeLogDirs answers."""

from __future__ import annotations

import pytest

from highwater.cluster.log_folders import folder_of
from highwater.commands.topics import folder_cells
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, NodeId, TopicPartition
from highwater_wire.kafka.log_dir_messages import DescribedLogDir, DescribedReplica
from highwater_wire.kafka.messages import MetadataPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def folder(name: str, *replicas: TopicPartition) -> DescribedLogDir:
    described = tuple(DescribedReplica(each, 9, 0) for each in replicas)
    return DescribedLogDir(ErrorCode.NONE, f"/var/lib/highwater/{name}", described)


FAILED = DescribedLogDir(ErrorCode.KAFKA_STORAGE_ERROR, "/var/lib/highwater/d0")
DESCRIBED = {
    0: (folder("d0", FIRST), folder("d1", SECOND)),
    1: (FAILED, folder("d1", SECOND)),
}


@pytest.mark.parametrize(
    ("broker", "at", "name"),
    [
        (0, FIRST, "d0"),
        (0, SECOND, "d1"),
        (0, TopicPartition("u", 0), "unknown"),
        (1, FIRST, "failed"),
        (1, SECOND, "d1"),
        (2, FIRST, "unknown"),
    ],
)
def test_a_replica_is_in_the_folder_that_lists_it(
    broker: int, at: TopicPartition, name: str
) -> None:
    assert folder_of(DESCRIBED, broker, at) == name


def test_a_partitions_folders_are_in_the_order_of_its_replicas() -> None:
    replicas = tuple(map(NodeId, (2, 0, 1)))
    partition = MetadataPartition(ErrorCode.NONE, 0, NodeId(0), LeaderEpoch(0), replicas, replicas)
    assert folder_cells(DESCRIBED, "t", partition) == ["unknown", "d0", "failed"]
