"""Any partition's folder can be created, set aside, deleted and recognized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_adapters.files import RealFileSystem
from highwater_broker.log.folders import (
    DELETE_SUFFIX,
    NAME_BYTES_MAX,
    STRAY_SUFFIX,
    can_be_hosted,
    list_deleted_folders,
    list_partitions,
    list_strays,
    parse_partition_folder,
    partition_folder,
    rename_aside,
    topic_aside,
)
from highwater_broker.log.log_config import LogConfig
from highwater_core.ids import Offset, TopicPartition
from tests.support.open_logs import open_log

TOPICS = st.text(
    st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"),
    min_size=1,
    max_size=249,
).filter(lambda topic: topic not in (".", "..")) | st.integers(200, 249).map(lambda n: "t" * n)


@given(TOPICS, st.integers(0, 2**31 - 1), st.sampled_from([DELETE_SUFFIX, STRAY_SUFFIX]))
def test_every_legal_partition_has_names_that_fit_and_can_be_read_back(
    new_machine: Any, topic: str, number: int, suffix: str
) -> None:
    partition = TopicPartition(topic, number)
    if not can_be_hosted(partition):
        assert len(partition_folder(partition)) > NAME_BYTES_MAX
        return
    files = new_machine().files
    aside = []
    for _ in range(12):
        files.make_folder(partition_folder(partition))
        assert list_partitions(files) == [partition]
        aside.append(rename_aside(files, partition_folder(partition), suffix))
    assert max(map(len, aside)) <= NAME_BYTES_MAX - 7, "room for nine digits"
    assert all(parse_partition_folder(name) is None for name in aside)
    if suffix == STRAY_SUFFIX:
        told = TopicPartition(topic_aside(topic), number)
        assert list_strays(files) == [(told, name) for name in sorted(aside)]
    else:
        assert list_deleted_folders(files) == sorted(aside)


@pytest.mark.parametrize("length", [226, 227, 244, 245, 249])
@pytest.mark.parametrize("number", [0, 99_999])
def test_a_log_with_a_long_name_is_deleted_on_a_real_disk(
    tmp_path: Path, length: int, number: int
) -> None:
    files = RealFileSystem(tmp_path)
    partition = TopicPartition("t" * length, number)
    for _ in range(2):
        log, _ = open_log(
            files,
            partition_folder(partition),
            LogConfig(),
            clean_shutdown=False,
            recovery_point=Offset(0),
        )
        log.set_aside()
    assert [stray.topic for stray, _ in list_strays(files)] == [topic_aside(partition.topic)] * 2
    log, _ = open_log(
        files,
        partition_folder(partition),
        LogConfig(),
        clean_shutdown=False,
        recovery_point=Offset(0),
    )
    log.delete()
    assert len(files.list("")) == 2
    files.close()


def test_long_topics_that_begin_alike_have_different_folders() -> None:
    names = {topic_aside("t" * 240 + end) for end in ("a", "b", "ab")}
    assert len(names) == 3


def test_folders_that_were_set_aside_under_whole_long_names_are_still_known(machine: Any) -> None:
    topic = "t" * 240
    for suffix in ("stray", "delete"):
        machine.files.make_folder(f"{topic}-0.0-{suffix}")
    assert list_strays(machine.files) == [(TopicPartition(topic, 0), f"{topic}-0.0-stray")]
    assert list_deleted_folders(machine.files) == [f"{topic}-0.0-delete"]


@pytest.mark.parametrize(
    ("topic", "number"),
    [(".", 0), ("..", 0), ("", 0), ("a b", 0), ("a/b", 0), ("../evil", 0), ("t", -1), ("é", 0),
     ("t" * 250, 0), ("t" * 249, 100_000), ("t" * 245, 2**31 - 1), ("t", 2**31), ("t", 10**10),
     ("a\n", 0), ("a~b", 0)],
)  # fmt: skip
def test_a_name_without_a_folder_of_its_own_cannot_be_hosted(topic: str, number: int) -> None:
    assert not can_be_hosted(TopicPartition(topic, number))


@pytest.mark.parametrize(
    ("topic", "number"), [("t" * 249, 99_999), ("t" * 244, 2**31 - 1), ("a.b_c-1", 3), ("...", 0)]
)
def test_a_name_that_fits_can_be_hosted(topic: str, number: int) -> None:
    assert can_be_hosted(TopicPartition(topic, number))
