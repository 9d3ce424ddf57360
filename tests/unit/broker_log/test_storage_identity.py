"""When a broker's logs count as whole, and when as other contents."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.log.storage_identity import STORAGE_IDENTITY, StorageIdentity
from highwater_core.ids import NO_STORAGE_ID, StorageId
from highwater_simulator.rng import SeededRng

FIRST_SEGMENT = f"{0:020d}.log"
BOOT, NEXT_BOOT = "boot-1", "boot-2"


def start(machine: Any, boot_id: str, *, stopped_cleanly: bool = False, seed: int = 0) -> StorageId:
    """Return the storage id that a broker registers when it starts now."""
    identity = StorageIdentity(machine.files, SeededRng(seed), boot_id)
    machine.run(identity.settle(stopped_cleanly=stopped_cleanly))
    return identity.storage_id


@pytest.fixture
def first(machine: Any) -> StorageId:
    return start(machine, BOOT, seed=1)


def test_an_empty_folder_gets_an_id_that_survives_a_power_loss(
    machine: Any, first: StorageId
) -> None:
    assert len(first) == 32
    machine.lose_power()
    assert machine.disk.content(STORAGE_IDENTITY).startswith(
        f"version=0\nboot.id={BOOT}\nstorage.id={first}\n#crc32c=".encode()
    )


@pytest.mark.parametrize(
    ("boot_id", "stopped_cleanly", "is_kept"),
    [
        (BOOT, False, True),
        (BOOT, True, True),
        (NEXT_BOOT, True, True),
        (NEXT_BOOT, False, False),
        ("", True, True),
        ("", False, False),
    ],
)
def test_contents_are_the_same_after_a_clean_stop_and_within_one_boot(
    machine: Any, first: StorageId, boot_id: str, stopped_cleanly: bool, is_kept: bool
) -> None:
    later = start(machine, boot_id, stopped_cleanly=stopped_cleanly, seed=2)
    assert (later == first) == is_kept


def test_the_first_cluster_that_the_logs_join_is_kept_with_them(
    machine: Any, first: StorageId
) -> None:
    identity = StorageIdentity(machine.files, SeededRng(2), BOOT)
    machine.run(identity.settle(stopped_cleanly=False))
    assert identity.cluster_id == ""
    for cluster_id in ("ours", "another"):
        machine.run(identity.join(cluster_id))
    machine.lose_power()
    later = StorageIdentity(machine.files, SeededRng(3), BOOT)
    machine.run(later.settle(stopped_cleanly=True))
    assert (later.cluster_id, later.storage_id) == ("ours", first)


def test_an_unknown_boot_equals_no_other(machine: Any) -> None:
    first = start(machine, "", seed=1)
    assert start(machine, "", seed=2) != first


def test_a_clean_stop_counts_for_the_boot_after_it_too(machine: Any, first: StorageId) -> None:
    """The process may die again before it has taken the marker away, or long after."""
    assert start(machine, NEXT_BOOT, stopped_cleanly=True, seed=2) == first
    assert start(machine, NEXT_BOOT, seed=3) == first


def test_another_id_is_kept_from_then_on(machine: Any, first: StorageId) -> None:
    second = start(machine, NEXT_BOOT, seed=2)
    assert second != first
    assert start(machine, NEXT_BOOT, seed=3) == second


@pytest.mark.parametrize(
    ("boot_id", "noted", "is_known"),
    [(BOOT, True, True), (BOOT, False, False), (NEXT_BOOT, True, False), ("", True, False)],
)
def test_that_all_logs_were_opened_counts_for_the_boot_in_which_it_is_noted(
    machine: Any, boot_id: str, noted: bool, is_known: bool
) -> None:
    first = StorageIdentity(machine.files, SeededRng(1), BOOT if boot_id else "")
    machine.run(first.settle(stopped_cleanly=False))
    if noted:
        machine.run(first.note_opened())
    machine.lose_power()  # it is on the disk
    later = StorageIdentity(machine.files, SeededRng(2), boot_id)
    machine.run(later.settle(stopped_cleanly=True))
    assert later.were_opened == is_known


def test_a_flipped_bit_never_makes_other_contents_pass_for_these(
    machine: Any, first: StorageId
) -> None:
    content = machine.disk.content(STORAGE_IDENTITY)
    whole = bytes(content)
    for bit in range(8 * whole.index(b"#crc32c")):
        content = machine.disk.content(STORAGE_IDENTITY)
        content[:] = whole
        content[bit // 8] ^= 1 << bit % 8
        if bytes(content).split() != whole.split():  # of the line ends, any white space will do
            assert start(machine, BOOT, seed=2) != first


@pytest.mark.parametrize("stored", ["", "x", "A" * 32, "a" * 31, "a" * 33, "a" * 31 + "*"])
def test_an_id_that_no_registration_may_name_is_drawn_anew(machine: Any, stored: str) -> None:
    """Else every controller would call the registration malformed, for the whole boot."""
    text = f"version=0\nboot.id={BOOT}\nstorage.id={stored}\n"
    machine.files.open(STORAGE_IDENTITY).append([text.encode()])
    found = start(machine, BOOT, seed=2)
    assert found != stored
    assert len(found) == 32
    assert start(machine, BOOT, seed=3) == found


def test_an_id_of_former_times_without_a_checksum_is_kept(machine: Any) -> None:
    text = f"version=0\nboot.id={BOOT}\nstorage.id={'a' * 32}\n"
    machine.files.open(STORAGE_IDENTITY).append([text.encode()])
    assert start(machine, BOOT, seed=2) == "a" * 32


def test_an_id_that_the_disk_refused_is_not_used(machine: Any) -> None:
    identity = StorageIdentity(machine.files, SeededRng(1), BOOT)

    async def settle() -> str:
        try:
            await identity.settle(stopped_cleanly=False)
        except OSError as refused:
            return str(refused)
        return "nothing"

    machine.disk.fill()
    assert "no space" in machine.run(settle())
    assert identity.storage_id == NO_STORAGE_ID


@pytest.mark.parametrize("stopped_cleanly", [True, False])
def test_a_full_disk_has_room_for_what_a_start_notes(
    machine: Any, first: StorageId, stopped_cleanly: bool
) -> None:
    """Otherwise the broker could not start, and its retention never make room."""
    machine.disk.fill()
    later = StorageIdentity(machine.files, SeededRng(2), NEXT_BOOT)
    machine.run(later.settle(stopped_cleanly=stopped_cleanly))
    machine.run(later.note_folders({"d0": "an id", "d1": ""}))
    machine.run(later.note_opened())
    assert (later.storage_id == first) == stopped_cleanly
    machine.lose_power()
    assert start(machine, NEXT_BOOT, seed=3) == later.storage_id
    assert machine.files.list("") == [STORAGE_IDENTITY]


def test_a_power_loss_as_a_full_disk_is_overwritten_leaves_one_of_both_ids_or_none(
    machine: Any, first: StorageId
) -> None:
    machine.disk.fill()
    identity = StorageIdentity(machine.files, SeededRng(2), NEXT_BOOT)
    machine.runtime.start("settle", identity.settle(stopped_cleanly=False))
    before = bytes(machine.disk.content(STORAGE_IDENTITY))
    machine.kernel.run_until(
        lambda: bytes(machine.disk.content(STORAGE_IDENTITY)) != before, 60_000
    )
    written = bytes(machine.disk.content(STORAGE_IDENTITY))
    assert len(written) == len(before)
    for kept in range(len(before) + 1):
        machine.disk.content(STORAGE_IDENTITY)[:] = written[:kept] + before[kept:]
        found = start(machine, NEXT_BOOT, seed=3)
        assert found != first
        assert len(found) == 32


# ---------------------------------------------------------------- losses found by recovery


@pytest.fixture
def filled(machine: Any, tools: Any) -> Any:
    """Four batches of two records, the process killed."""
    log, _ = machine.open()
    for number in range(4):
        tools.append(log, b"a", bytes(number))
    machine.crash()
    return machine


def test_a_batch_whose_append_never_ended_is_no_loss(filled: Any) -> None:
    del filled.content(FIRST_SEGMENT)[-3:]
    _, report = filled.open()
    assert (report.truncated_bytes > 0, report.has_lost_batches) == (True, False)


def test_after_a_clean_stop_even_a_torn_batch_is_a_loss(filled: Any) -> None:
    del filled.content(FIRST_SEGMENT)[-3:]
    assert filled.open(clean=True)[1].has_lost_batches


def test_a_damaged_batch_is_a_loss(filled: Any) -> None:
    filled.content(FIRST_SEGMENT)[-3] ^= 1
    assert filled.open()[1].has_lost_batches


def test_a_log_that_ends_before_its_start_is_a_loss(filled: Any) -> None:
    assert filled.open(log_start=20)[1].has_lost_batches


def test_a_whole_log_has_lost_nothing(filled: Any) -> None:
    assert not filled.open()[1].has_lost_batches
