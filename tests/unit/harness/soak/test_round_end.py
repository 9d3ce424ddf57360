"""What a cluster still has of a round's topics, in memory, in ZooKeeper and on its disks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.soak.round_end import in_memory, in_zookeeper, on_disk
from highwater.soak.usage import Sample, append_samples, read_samples, samples_of
from highwater_checker.looks import Look
from highwater_checker.run_folder.documents import Znode
from highwater_core.ids import ControllerEpoch, NodeId
from highwater_core.messages import NodeSnapshot
from tests.support.run_on_disk import broker


def test_replicas_and_silent_nodes_are_left() -> None:
    look = Look(1, {0: broker(0), 1: None})
    assert list(in_memory(look, ["t"])) == ["broker 0 has t-0", "node 1 does not answer"]
    assert list(in_memory(Look(1, {0: broker(0)}), ["t1"])) == []


@pytest.mark.parametrize(
    ("path", "is_left"),
    [
        ("/brokers/topics/t1", True),
        ("/brokers/topics/t1/partitions/0/state", True),
        ("/config/topics/t1", True),
        ("/admin/delete_topics/t1", True),
        ("/brokers/topics/t10", False),
        ("/brokers/topics/__consumer_offsets", False),
    ],
)
def test_znodes_that_have_a_topics_name_are_left(path: str, is_left: bool) -> None:
    znodes = {path: Znode(path, None, 0, 0, 0, 0)}
    assert list(in_zookeeper(znodes, ["t1"])) == ([path] if is_left else [])


@pytest.mark.parametrize(
    ("folders", "left"),
    [
        (["/d/t1-0", "/d/t10-0", "/d"], ["broker 2 has /d/t1-0"]),
        (["/d/t1-0.7-delete"], ["broker 2 has /d/t1-0.7-delete"]),
        (["/d/__consumer_offsets-1"], []),
    ],
)
def test_folders_of_partitions_are_left_until_they_are_removed(
    folders: Sequence[str], left: Sequence[str]
) -> None:
    assert list(on_disk(2, folders, ["t1"])) == left


def snapshot(incarnation: int, resident: int, **counters: int) -> NodeSnapshot:
    return NodeSnapshot(
        NodeId(0),
        "broker",
        incarnation,
        "fenced",
        ControllerEpoch(1),
        resident_bytes=resident,
        counters=tuple(counters.items()),
    )


def test_of_several_looks_the_least_counts_and_a_value_of_zero_is_none() -> None:
    looks = [
        {0: snapshot(1, 5, open_files=1, threads=1)},
        {0: snapshot(2, 90, open_files=40, threads=0)},
        {0: snapshot(2, 80, open_files=42, threads=0)},
    ]
    (sample,) = samples_of(looks, {0: 700}, 3, 4, 17)
    assert sample == Sample(3, 4, 17, 0, "broker", 2, 80, 40, None, 700)


def test_samples_are_read_again_also_behind_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    one = Sample(1, 1, 1, 0, "broker", 1, 80)
    append_samples(path, [one])
    with path.open("ab") as file:
        file.write(b'{"cluster":1,"rou')
    append_samples(path, [one])
    assert read_samples(path) == [one, one]
    assert read_samples(tmp_path / "none") == []
