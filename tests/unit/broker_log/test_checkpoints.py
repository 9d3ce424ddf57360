"""Checkpoint files are whole or empty; the identity of a folder's disk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_broker.log.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    Checkpoint,
    OffsetCheckpoint,
    PartitionMetadata,
    WrongBrokerFolder,
    claim_folder,
    encode_rows,
    read_partition_metadata,
    take_clean_shutdown_marker,
    write_clean_shutdown_marker,
    write_partition_metadata,
)
from highwater_broker.log.folders import (
    list_deleted_folders,
    list_partitions,
    list_strays,
    parse_partition_folder,
    rename_aside,
)
from highwater_broker.log.record_batch import LogRefused
from highwater_chaos.faults import DiskOperation
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_TOPIC_ID, NodeId, Offset, TopicId, TopicPartition

ENTRIES = {TopicPartition("b", 0): Offset(5), TopicPartition("a-b", 12): Offset(0)}


def checkpoint(machine: Any) -> OffsetCheckpoint:
    return OffsetCheckpoint(machine.files, HIGH_WATERMARK_CHECKPOINT)


def put(machine: Any, path: str, content: bytes) -> None:
    machine.files.remove(path)
    machine.files.open(path).append([content])


def test_a_checkpoint_is_kafkas_text_and_survives_a_power_loss(machine: Any) -> None:
    machine.run(checkpoint(machine).write(ENTRIES))
    machine.lose_power()
    assert checkpoint(machine).read() == Checkpoint(ENTRIES)
    (name, content), *others = machine.disk.files().items()
    assert (name, others) == (HIGH_WATERMARK_CHECKPOINT, [])
    assert content.startswith(b"0\n3\na-b 12 0\nb 0 5\n#crc32c 0 ")


def test_a_flipped_bit_anywhere_in_a_checkpoint_is_found(machine: Any) -> None:
    machine.run(checkpoint(machine).write(ENTRIES))
    content = machine.disk.content(HIGH_WATERMARK_CHECKPOINT)
    for position in range(len(content)):
        for bit in range(8):
            content[position] ^= 1 << bit
            found = checkpoint(machine).read()
            assert (dict(found.entries), found.problem is None) == ({}, False)
            content[position] ^= 1 << bit
    assert checkpoint(machine).read().entries == ENTRIES


def test_a_checkpoint_that_is_on_the_disk_is_not_written_again(machine: Any) -> None:
    machine.run(checkpoint(machine).write(ENTRIES))
    file = checkpoint(machine)
    changes: list[str] = []
    file.read()
    machine.disk.changed = lambda path, operation: changes.append(operation)
    machine.run(file.write(ENTRIES))  # the entries read may be in the page cache alone
    written = list(changes)
    machine.run(file.write(dict(ENTRIES)))
    assert written
    assert changes == written
    machine.run(file.write({**ENTRIES, TopicPartition("b", 0): Offset(6)}))
    assert changes == written * 2


def test_a_checkpoint_is_written_again_after_a_write_that_failed(machine: Any) -> None:
    file, (kept, _) = checkpoint(machine), ENTRIES
    machine.run(file.write(ENTRIES))
    machine.disk.fail(DiskOperation.SYNC)
    machine.run(refused(file, {kept: Offset(7)}))
    machine.disk.heal()
    machine.run(file.write(ENTRIES))
    machine.run(file.write({kept: Offset(7)}))
    assert file.read().entries == {kept: 7}


async def refused(file: OffsetCheckpoint, entries: dict[TopicPartition, Offset]) -> None:
    with pytest.raises(LogRefused):
        await file.write(entries)


def test_an_entry_is_forgotten_even_while_an_older_write_that_has_it_is_under_way(
    machine: Any,
) -> None:
    file, (kept, gone) = checkpoint(machine), ENTRIES
    machine.run(file.write(ENTRIES))
    machine.runtime.start("older", file.write({kept: Offset(7), gone: Offset(9)}))
    machine.runtime.start("forget", file.forget([gone]))
    machine.kernel.run_for(1_000)
    assert file.read().entries == {kept: 7}
    before = machine.disk.files()
    machine.run(file.forget([gone]))
    assert machine.disk.files() == before


@pytest.mark.parametrize("wait_ms", range(0, 12, 2))
def test_a_forgotten_entry_is_not_listed_while_a_newer_write_is_under_way(
    machine: Any, wait_ms: int
) -> None:
    """Whoever creates that topic again asks at once; and a power loss brings nothing back."""
    file, (kept, gone) = checkpoint(machine), ENTRIES
    machine.run(file.write(ENTRIES))
    found: list[object] = []

    async def forget() -> None:
        await file.forget([gone])
        found.append(file.entries.get(gone))

    async def write_later() -> None:
        await machine.runtime.sleep(wait_ms)
        await file.write({kept: Offset(8)})

    machine.runtime.start("forget", forget())
    machine.runtime.start("periodic", write_later())
    machine.kernel.run_until(lambda: bool(found), 1_000)
    assert found == [None]
    machine.lose_power()
    assert gone not in checkpoint(machine).read().entries


def test_an_entry_that_could_not_be_forgotten_for_certain_is_still_listed(machine: Any) -> None:
    """The file may list it after a power loss: whoever asks again has it written again."""
    file, (kept, gone) = checkpoint(machine), ENTRIES
    machine.run(file.write(ENTRIES))

    async def forget() -> ErrorCode | None:
        try:
            await file.forget([gone])
        except LogRefused as refused:
            return refused.error
        return None

    real = machine.files.sync_folder

    async def refuse(path: str) -> None:
        raise OSError(5, "input/output error", path)

    machine.files.sync_folder = refuse
    assert machine.run(forget()) is ErrorCode.KAFKA_STORAGE_ERROR
    machine.files.sync_folder = real
    assert gone in file.entries
    assert machine.run(forget()) is None
    machine.lose_power()
    assert set(checkpoint(machine).read().entries) == {kept}


@given(st.dictionaries(st.tuples(st.text(), st.integers(0, 2**31)), st.integers(0, 2**63 - 1)))
def test_every_written_checkpoint_can_be_read(
    new_machine: Any, written: dict[tuple[str, int], int]
) -> None:
    """One row that the reader refused would cost every partition its offset."""
    machine = new_machine()
    entries = {TopicPartition(*key): Offset(at) for key, at in written.items()}
    machine.run(checkpoint(machine).write(entries))
    assert checkpoint(machine).read() == Checkpoint(entries)


@pytest.mark.parametrize("topic", ["a b", "a\nb", "", "#crc32c", "%20", "\ud800", "é"])
def test_names_that_are_no_topics_spoil_no_checkpoint(machine: Any, topic: str) -> None:
    entries = {TopicPartition(topic, 0): Offset(1), TopicPartition("orders", 0): Offset(500)}
    machine.run(checkpoint(machine).write(entries))
    assert checkpoint(machine).read() == Checkpoint(entries)


def test_a_missing_checkpoint_is_empty(machine: Any) -> None:
    assert checkpoint(machine).read() == Checkpoint({})


def rows(*row: str, columns: int = 3) -> bytes:
    return encode_rows([row], columns).encode()


@pytest.mark.parametrize(
    "content",
    [b"", b"0", b"0\n", b"0\n1\n", b"0\n1\na 0 5", b"0\n1\na 0 5\n", b"0\n0\n",
     rows("a", "0", "5").replace(b"0\n", b"1\n", 1), rows("a", "0", "5").replace(b"2", b"3", 1),
     rows("a", "0", "5")[:-1], rows("a", "0", "5")[:9], rows("a", "0"), rows("a", "x", "5"),
     rows("a", "0", "-5"), rows("a", "0", "5", "6"), rows("0", "5", columns=2),
     rows("a", "0", str(2**63)),
     b"\x00", b"\xff\n"],
)  # fmt: skip
def test_a_corrupt_checkpoint_is_empty_and_says_why(machine: Any, content: bytes) -> None:
    put(machine, HIGH_WATERMARK_CHECKPOINT, content)
    found = checkpoint(machine).read()
    assert found.entries == {}
    assert found.problem is not None


@given(st.binary(max_size=60))
def test_no_content_crashes_a_reader(new_machine: Any, content: bytes) -> None:
    machine = new_machine()
    put(machine, HIGH_WATERMARK_CHECKPOINT, content)
    assert checkpoint(machine).read().problem is not None
    machine.files.make_folder("t-0")
    put(machine, "t-0/partition.metadata", content)
    assert read_partition_metadata(machine.files, "t-0").topic_id == NO_TOPIC_ID


def test_of_two_writes_at_once_the_later_stays(machine: Any) -> None:
    file = checkpoint(machine)
    tasks = [
        machine.runtime.start("w", file.write({TopicPartition("t", 0): Offset(offset)}))
        for offset in range(20)
    ]
    machine.kernel.run_until(lambda: all(task.is_done() for task in tasks), 1000)
    assert file.read().entries == {TopicPartition("t", 0): 19}
    assert machine.files.list("") == [HIGH_WATERMARK_CHECKPOINT]


def test_a_failed_write_keeps_the_former_content(machine: Any) -> None:
    file = checkpoint(machine)
    machine.run(file.write(ENTRIES))
    machine.disk_is_full = True
    refused: list[ErrorCode] = []

    async def write() -> None:
        try:
            await file.write({})
        except LogRefused as error:
            refused.append(error.error)

    machine.run(write())
    assert refused == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert file.read().entries == ENTRIES


def test_a_topic_id_is_kept_with_its_partition(machine: Any) -> None:
    machine.files.make_folder("t-0")
    assert read_partition_metadata(machine.files, "t-0") == PartitionMetadata(NO_TOPIC_ID)
    write_partition_metadata(machine.files, "t-0", TopicId("ab" * 16))
    assert read_partition_metadata(machine.files, "t-0") == PartitionMetadata(TopicId("ab" * 16))
    put(machine, "t-0/partition.metadata", b"version: 0\n")
    assert read_partition_metadata(machine.files, "t-0").problem is not None


@pytest.mark.parametrize("name", ["t-0/partition.metadata", "meta.properties"])
def test_no_flipped_bit_makes_another_id_or_another_brokers_folder(machine: Any, name: str) -> None:
    """With another topic's id a log would be set aside, and an empty one lead in its place."""
    machine.files.make_folder("t-0")
    write_partition_metadata(machine.files, "t-0", TopicId("ab" * 16))
    machine.run(claim_folder(machine.files, NodeId(1), "c"))
    whole = bytes(machine.disk.content(name))
    for bit in range(8 * len(whole)):
        machine.disk.content(name)[:] = whole
        machine.disk.content(name)[bit // 8] ^= 1 << bit % 8
        found = read_partition_metadata(machine.files, "t-0")
        assert found.topic_id in (NO_TOPIC_ID, TopicId("ab" * 16))
        machine.run(claim_folder(machine.files, NodeId(1), "c"))


def test_the_clean_shutdown_marker_counts_once(machine: Any) -> None:
    assert machine.run(take_clean_shutdown_marker(machine.files)) is False
    machine.run(write_clean_shutdown_marker(machine.files))
    machine.lose_power()
    assert machine.run(take_clean_shutdown_marker(machine.files)) is True
    machine.lose_power()
    assert machine.run(take_clean_shutdown_marker(machine.files)) is False


def test_a_folder_belongs_to_one_broker_of_one_cluster(machine: Any) -> None:
    put(machine, "x.3.tmp", b"left over")
    machine.run(claim_folder(machine.files, NodeId(1), "c"))
    machine.lose_power()
    machine.run(claim_folder(machine.files, NodeId(1), "c"))
    assert machine.files.list("") == ["meta.properties"]
    refused: list[str] = []

    async def claim(broker_id: int, cluster_id: str) -> None:
        try:
            await claim_folder(machine.files, NodeId(broker_id), cluster_id)
        except WrongBrokerFolder as error:
            refused.append(str(error))

    machine.run(claim(2, "c"))
    machine.run(claim(1, "other"))
    assert len(refused) == 2
    put(machine, "meta.properties", b"\x00\xff")
    machine.run(claim(2, "c"))
    assert len(refused) == 2


# ---------------------------------------------------------------- folders


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("t-0", ("t", 0)),
        ("a-b.c_d-12", ("a-b.c_d", 12)),
        ("t-0-1", ("t-0", 1)),
        ("t-00", None),
        ("t", None),
        ("t-2147483647", ("t", 2**31 - 1)),
        ("t-2147483648", None),
        ("-1", None),
        ("t-0.0-delete", None),
        ("t-0.3-stray", None),
        ("meta.properties", None),
    ],
)
def test_folder_names(name: str, partition: tuple[str, int] | None) -> None:
    expected = None if partition is None else TopicPartition(*partition)
    assert parse_partition_folder(name) == expected


def test_folders_are_listed_by_their_kind(machine: Any) -> None:
    for name in ("t-1", "t-0", "t-2", "u-0"):
        machine.files.make_folder(name)
    assert rename_aside(machine.files, "t-2", "-delete") == "t-2.0-delete"
    assert rename_aside(machine.files, "u-0", "-stray") == "u-0.0-stray"
    assert list_partitions(machine.files) == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert list_strays(machine.files) == [(TopicPartition("u", 0), "u-0.0-stray")]
    assert list_deleted_folders(machine.files) == ["t-2.0-delete"]
