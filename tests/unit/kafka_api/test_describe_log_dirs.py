"""DescribeLogDirs: the replicas in each log folder, all or those requested."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.log_folders import FolderContent
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_core.ports import DiskSpace
from highwater_wire.kafka.log_dir_messages import DescribedLogDir, DescribeLogDirsRequest
from tests.support.hosted import size_bytes

T0, T1, U0 = (TopicPartition(*each) for each in (("t", 0), ("t", 1), ("u", 0)))
NOWHERE = TopicPartition("t", 7)


@pytest.fixture
def described(world: Any) -> Any:
    for key in (T0, T1, U0):
        world.host(key.topic, key.partition)
    world.log_dirs.folders = (
        FolderContent("d0", False, (T0, U0), DiskSpace(1000, 300)),
        FolderContent("d1", False, (NOWHERE, T1), None),
        FolderContent("d2", True, (TopicPartition("v", 0),), None),
    )

    def ask(*named: TopicPartition, listener: str = "CLIENT") -> tuple[DescribedLogDir, ...]:
        response = world.ask(DescribeLogDirsRequest(named or None), listener)
        assert response.error is ErrorCode.NONE
        folders: tuple[DescribedLogDir, ...] = response.folders
        return folders

    return ask


def replicas(folder: DescribedLogDir) -> list[TopicPartition]:
    return [each.topic_partition for each in folder.replicas]


def test_each_folder_is_listed_with_its_replicas_and_its_disk(described: Any) -> None:
    sound, of_unknown_size, failed = described()
    assert (sound.path, replicas(sound)) == ("/data/d0", [T0, U0])
    assert (sound.total_bytes, sound.usable_bytes) == (1000, 300)
    assert (of_unknown_size.total_bytes, of_unknown_size.usable_bytes) == (-1, -1)
    assert replicas(of_unknown_size) == [T1], "what is not open here is left out"
    assert (failed.error, failed.path) == (ErrorCode.KAFKA_STORAGE_ERROR, "/data/d2")
    assert failed.replicas == ()


def test_the_only_folder_is_the_data_folder_itself(world: Any, described: Any) -> None:
    world.log_dirs.folders = (FolderContent("", False, (T0,), None),)
    assert [each.path for each in described()] == ["/data"]


def test_a_named_replica_is_listed_alone_and_a_missing_one_is_not(described: Any) -> None:
    for listener in ("CLIENT", "EXTERNAL", "REPLICATION"):
        told = described(T1, NOWHERE, T1, listener=listener)
        assert [replicas(each) for each in told] == [[], [T1], []]


def test_the_size_is_that_of_the_batches_and_no_log_ends_below_its_high_watermark(
    world: Any, described: Any
) -> None:
    world.hosted[T0].fill(b"a", b"bc")
    told = [each for folder in described(T0, T1) for each in folder.replicas]
    assert [each.size_bytes for each in told] == [size_bytes(b"a", b"bc"), 0]
    assert [(each.offset_lag, each.is_future) for each in told] == [(0, False)] * 2


def test_a_thousand_replicas_are_listed_in_turns(world: Any, described: Any) -> None:
    many = tuple(TopicPartition("many", number) for number in range(1_000))
    for key in many:
        world.host(key.topic, key.partition)
    world.log_dirs.folders = (FolderContent("", False, many, None),)
    (told,) = described()
    assert replicas(told) == list(many)
