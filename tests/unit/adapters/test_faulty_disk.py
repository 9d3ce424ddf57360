"""A faulty disk knows what was synced, and a power loss leaves that: without a mount.

tests/integration/test_more_faults_in_containers.py mounts it.
"""

from __future__ import annotations

import errno
import io
import json
import os
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from highwater.faults.disks import on_mount
from highwater_adapters.faulty_disk import kernel
from highwater_adapters.faulty_disk.ailing import ANSWER, ORDERS, Ailing, read_orders
from highwater_adapters.faulty_disk.durable import BALLAST, Durable, boot_id_of, store_of
from highwater_adapters.faulty_disk.loss import Loss, kept_of, lose_unsynced, loss_of
from highwater_adapters.faulty_disk.tree import ROOT_KEY, Tree

LOG = "t-0/00000000000000000000.log"


class LoseAll(random.Random):
    """Draws that nothing unsynced survives."""

    def choice(self, seq: object) -> object:
        return seq[0]  # type: ignore[index]


class Disk:
    """A folder that is served by calls instead of a mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self.durable = Durable(folder, self.root)

    def write(self, path: str, content: bytes, position: int = 0) -> None:
        entry = self.durable.tree.find(path)
        if entry is None:
            above, _, name = path.rpartition("/")
            folder = self.durable.tree.find(above)
            assert folder is not None
            entry = self.durable.create(folder, name, is_folder=False)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, dir_fd=self.root)
        self.durable.changed(entry, position)
        os.pwrite(descriptor, content, position)
        os.close(descriptor)

    def truncate(self, path: str, size: int) -> None:
        entry = self.durable.tree.find(path)
        assert entry is not None
        self.durable.changed(entry, size)
        os.truncate(self.folder / path, size)

    def sync(self, path: str) -> None:
        self._with(path, self.durable.sync)

    def fail_sync(self, path: str) -> None:
        self._with(path, self.durable.lose)

    def _with(self, path: str, act: Callable[..., None]) -> None:
        entry = self.durable.tree.find(path)
        descriptor = os.open(path, os.O_RDWR, dir_fd=self.root)
        act(entry, descriptor)
        os.close(descriptor)

    def sync_folder(self, path: str) -> None:
        entry = self.durable.tree.find(path)
        assert entry is not None
        self.durable.sync_folder(entry)

    def make_folder(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        folder = self.durable.tree.find(above)
        assert folder is not None
        (self.folder / path).mkdir()
        self.durable.create(folder, name, is_folder=True)

    def rename(self, source: str, target: str) -> None:
        entry = self.durable.tree.find(source)
        above, _, name = target.rpartition("/")
        folder = self.durable.tree.find(above)
        assert entry is not None
        assert folder is not None
        (self.folder / source).rename(self.folder / target)
        self.durable.rename(entry, folder, name)

    def remove(self, path: str) -> None:
        entry = self.durable.tree.find(path)
        assert entry is not None
        (self.folder / path).unlink()
        self.durable.remove(entry)

    def lose_power(self) -> dict[str, bytes]:
        """Lose all that was not synced; return the files that are left."""
        lose_unsynced(self.folder, LoseAll())
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


Start = Callable[[], Disk]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Returns a disk of the test's folder: at each call that of another incarnation."""
    with ExitStack() as ends:

        def begin() -> Disk:
            made = Disk(tmp_path / "data")
            ends.callback(os.close, made.root)
            ends.callback(made.durable.close)
            return made

        yield begin


@pytest.fixture
def disk(start: Start) -> Disk:
    return start()


def test_what_was_synced_survives_and_nothing_else(disk: Disk) -> None:
    disk.write("log", b"synced")
    disk.sync("log")
    disk.sync_folder("")
    disk.write("log", b"lost", 6)
    disk.write("new", b"synced, and without a name")
    disk.sync("new")
    assert disk.lose_power() == {"log": b"synced"}


def test_a_name_is_on_the_disk_with_its_folder_and_the_content_with_the_file(disk: Disk) -> None:
    disk.write("log", b"never synced")
    disk.sync_folder("")
    assert disk.lose_power() == {"log": b""}


def test_a_folder_that_was_synced_is_gone_if_the_one_above_was_not(disk: Disk) -> None:
    disk.make_folder("t-0")
    disk.write("t-0/log", b"a")
    disk.sync("t-0/log")
    disk.sync_folder("t-0")
    assert disk.lose_power() == {}


def test_an_unsynced_rename_leaves_the_old_name_and_the_replaced_file(disk: Disk) -> None:
    for name, content in (("checkpoint", b"old"), ("checkpoint.tmp", b"new")):
        disk.write(name, content)
        disk.sync(name)
    disk.sync_folder("")
    disk.rename("checkpoint.tmp", "checkpoint")
    assert disk.lose_power() == {"checkpoint": b"old", "checkpoint.tmp": b"new"}


def test_a_synced_rename_replaces_and_an_unsynced_removal_is_undone(disk: Disk) -> None:
    for name, content in (("a", b"old"), ("b", b"new"), ("c", b"kept")):
        disk.write(name, content)
        disk.sync(name)
    disk.rename("b", "a")
    disk.sync_folder("")
    disk.remove("c")
    assert disk.lose_power() == {"a": b"new", "c": b"kept"}


def test_a_truncation_is_undone_unless_it_was_synced(disk: Disk) -> None:
    disk.write("log", b"0123456789")
    disk.sync("log")
    disk.sync_folder("")
    disk.truncate("log", 4)
    disk.write("log", b"xy", 4)
    assert disk.lose_power() == {"log": b"0123456789"}


def test_a_synced_truncation_stays(disk: Disk) -> None:
    disk.write("log", b"0123456789")
    disk.sync("log")
    disk.sync_folder("")
    disk.truncate("log", 4)
    disk.write("log", b"xy", 4)
    disk.sync("log")
    assert disk.lose_power() == {"log": b"0123xy"}


def test_a_failed_sync_loses_its_bytes_for_good(disk: Disk) -> None:
    """fsyncgate: the kernel takes the pages for clean, and the next sync does not write them."""
    disk.write("log", b"kept")
    disk.sync("log")
    disk.sync_folder("")
    disk.write("log", b"lost", 4)
    disk.fail_sync("log")
    disk.write("log", b"after", 8)
    disk.sync("log")
    assert disk.lose_power() == {"log": b"kept\0\0\0\0after"}


def test_what_was_not_synced_before_a_kill_is_not_synced_by_a_start(
    disk: Disk, start: Start
) -> None:
    disk.write("log", b"synced")
    disk.sync("log")
    disk.sync_folder("")
    disk.write("log", b"-more", 6)
    disk.write("new", b"x")
    again = start()  # the process was killed, and starts
    again.write("log", b"-end", 11)
    assert again.lose_power() == {"log": b"synced"}


def test_a_sync_after_a_start_takes_all_of_the_file(disk: Disk, start: Start) -> None:
    disk.write("log", b"synced")
    disk.sync("log")
    disk.sync_folder("")
    disk.write("log", b"-more", 6)
    again = start()
    again.sync("log")
    assert again.lose_power() == {"log": b"synced-more"}


def test_what_a_helper_changed_counts_as_synced(disk: Disk, start: Start) -> None:
    (disk.folder / "t-0").mkdir()
    (disk.folder / "t-0" / "log").write_bytes(b"put there")
    again = start()
    assert again.lose_power() == {"t-0/log": b"put there"}


def test_a_torn_line_of_the_journal_is_left_out(disk: Disk, start: Start) -> None:
    disk.write("log", b"a")
    disk.sync("log")
    disk.sync_folder("")
    with (store_of(disk.folder) / "names.jsonl").open("ab") as journal:
        journal.write(b'["create", "t')
    again = start()
    again.write("b", b"b")
    assert again.lose_power() == {"log": b"a"}


def test_copies_that_nothing_refers_to_are_removed(disk: Disk) -> None:
    for name in ("a", "b"):
        disk.write(name, b"x")
        disk.sync(name)
    disk.sync_folder("")
    disk.remove("a")
    assert len(list((store_of(disk.folder) / "files").iterdir())) == 2
    disk.sync_folder("")
    assert len(list((store_of(disk.folder) / "files").iterdir())) == 1


class Killed(BaseException):
    """The process ended here."""


def kill(*arguments: object, **more: object) -> None:
    raise Killed


def test_a_first_start_that_is_killed_is_made_anew(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "log").write_bytes(b"put there")
    with monkeypatch.context() as killed:
        killed.setattr(Durable, "sync_path", kill)
        with pytest.raises(Killed):
            start()
    assert start().lose_power() == {"log": b"put there"}


def test_a_start_that_is_killed_loses_no_names_and_no_copies(
    disk: Disk, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("log", "old"):
        disk.write(name, b"synced")
        disk.sync(name)
    disk.sync_folder("")
    (disk.folder / "old").unlink()  # by a helper: the start takes it in
    with monkeypatch.context() as killed:
        killed.setattr(Path, "replace", kill)
        with pytest.raises(Killed):
            start()
    assert disk.lose_power() == {"log": b"synced", "old": b"synced"}


def test_a_kill_during_the_first_sync_after_a_start_loses_no_synced_byte(
    disk: Disk, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.write("log", b"synced")
    disk.sync("log")
    disk.sync_folder("")
    again = start()
    again.write("log", b"-more", 6)
    with monkeypatch.context() as killed:
        killed.setattr(os, "pread", kill)
        with pytest.raises(Killed):
            again.sync("log")
    assert again.lose_power() == {"log": b"synced"}


def test_a_loss_where_nothing_was_served_since_the_last_one_loses_nothing(disk: Disk) -> None:
    disk.write("log", b"synced")
    disk.sync("log")
    disk.sync_folder("")
    assert disk.lose_power() == disk.lose_power() == {"log": b"synced"}


def test_the_ballast_of_a_full_disk_is_neither_kept_nor_lost(disk: Disk, start: Start) -> None:
    ballast = disk.folder / BALLAST
    ballast.write_bytes(b"full")
    again = start()
    assert list(again.durable.tree.walk()) == []
    assert lose_unsynced(disk.folder, LoseAll()) == []
    assert ballast.read_bytes() == b"full"


def test_a_line_of_the_journal_for_which_there_is_no_room_is_not_begun(
    disk: Disk, start: Start
) -> None:
    class Full(io.FileIO):
        def write(self, data: object) -> int:
            return super().write(b'["cre')

    disk.write("log", b"synced")
    disk.sync("log")
    disk.sync_folder("")
    sound = disk.durable._journal
    with Full(store_of(disk.folder) / "names.jsonl", "ab") as disk.durable._journal:
        for _ in range(2):
            with pytest.raises(OSError, match="no room"):
                disk.durable.remove(disk.durable.tree.walk().__next__())
    disk.durable._journal = sound
    disk.write("more", b"")
    disk.sync_folder("")
    assert start().lose_power() == {"log": b"synced", "more": b""}


def test_after_a_power_loss_the_machine_has_another_boot_id(disk: Disk) -> None:
    assert not boot_id_of(disk.folder).exists()
    disk.lose_power()
    (boot_id,) = boot_id_of(disk.folder).read_text().splitlines()
    assert str(uuid.UUID(boot_id)) == boot_id


def test_the_losses_are_told(disk: Disk) -> None:
    disk.write("log", b"synced")
    disk.sync("log")
    disk.sync_folder("")
    disk.write("log", b"!!!!", 6)
    disk.write("new", b"xyz")
    assert lose_unsynced(disk.folder, LoseAll()) == [
        Loss("log", 6, 4, "cut"),
        Loss("new", 0, 3, "name gone"),
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_prefix_of_unsynced_bytes_survives_perhaps_with_zeros_at_its_end(seed: int) -> None:
    synced, seen = b"synced", b"synced and seen"
    kept = kept_of(synced, seen, random.Random(seed))  # noqa: S311
    assert kept.startswith(synced)
    assert len(kept) <= len(seen)
    assert seen.startswith(kept.rstrip(b"\0"))


def test_nothing_all_and_torn_ends_are_all_drawn() -> None:
    kept = {kept_of(b"", b"abcd", random.Random(seed)) for seed in range(200)}  # noqa: S311
    assert {b"", b"abcd", b"ab", b"abc\0"} <= kept


@pytest.mark.parametrize(
    ("before", "after", "loss"),
    [
        (b"ab", b"ab", None),
        (b"abcd", b"ab", Loss("f", 2, 2, "cut")),
        (b"abcd", b"ab\0\0", Loss("f", 2, 2, "torn")),
        (b"ab", b"abcd", Loss("f", 2, 0, "truncation undone")),
        (b"ab", None, Loss("f", 0, 2, "name gone")),
        (None, b"ab", Loss("f", 2, 0, "name is back")),
    ],
)
def test_a_loss_is_told_by_what_readers_find(
    before: bytes | None, after: bytes | None, loss: Loss | None
) -> None:
    assert loss_of("f", before, after) == loss


def test_a_journal_makes_the_same_tree_again() -> None:
    tree = Tree.replayed(
        [
            ["create", "a", 2, True],
            ["create", "a/x", 3, False],
            ["sync", "a"],
            ["sync", ""],
            ["rename", "a/x", "a/y"],
            ["create", "b", 4, False],
            ["remove", "b"],
        ]
    )
    assert [entry.path for entry in tree.walk()] == ["a", "a/y"]
    assert list(tree.durable_files()) == ["a/", "a/x"]
    assert (tree.next_key, tree.keys(), tree.root.key) == (5, {3}, ROOT_KEY)


# ---------------------------------------------------------------- orders


def test_orders_are_carried_out_and_answered(tmp_path: Path) -> None:
    ailing = Ailing(tmp_path, random.Random(1))  # noqa: S311
    assert not ailing.look()
    (tmp_path / ORDERS).write_text('{"number": 3, "percent": {"sync": 100}, "sync_delay_ms": 0}')
    assert ailing.look()
    assert not ailing.look()
    with pytest.raises(OSError, match="refuses to sync") as refused:
        ailing.maybe_refuse("sync", LOG)
    assert refused.value.errno == errno.EIO
    ailing.maybe_refuse("append", LOG)
    ailing.look()
    assert json.loads((tmp_path / ANSWER).read_text()) == {
        "number": 3,
        "refused": {"sync": 1},
        "delayed": 0,
    }
    (tmp_path / ORDERS).write_text('{"number": 4, "percent": {}, "sync_delay_ms": 0}')
    assert ailing.look()
    ailing.maybe_refuse("sync", LOG)


def test_orders_may_be_for_chosen_files_and_a_probe_meets_them_all_the_same(
    tmp_path: Path,
) -> None:
    told = {"number": 1, "percent": {"read": 100, "sync": 100}, "within": {"read": "t-0/"}}
    (tmp_path / ORDERS).write_text(json.dumps({**told, "sync_delay_ms": 0}))
    ailing = Ailing(tmp_path)
    ailing.look()
    for path in (LOG, "1/t-0/leader-epoch-checkpoint", on_mount.PROBE, on_mount.RENAMED):
        with pytest.raises(OSError, match="refuses to read"):
            ailing.maybe_refuse("read", path)
    for path in ("t-10/00000000000000000000.log", "recovery-point-offset-checkpoint", ""):
        ailing.maybe_refuse("read", path)
        with pytest.raises(OSError, match="refuses to sync"):
            ailing.maybe_refuse("sync", path)


def test_of_a_refused_write_a_part_is_written_and_never_all(tmp_path: Path) -> None:
    ailing = Ailing(tmp_path, random.Random(1))  # noqa: S311
    parts = [ailing.part_of(3) for _ in range(100)]
    assert set(parts) == {0, 1, 2}
    assert ailing.part_of(0) == 0


def test_counts_of_refusals_outlive_a_start(tmp_path: Path) -> None:
    (tmp_path / ORDERS).write_text('{"number": 1, "percent": {"sync": 100}, "sync_delay_ms": 1}')
    for count in (1, 2):
        ailing = Ailing(tmp_path)
        ailing.look()
        ailing.wait_for_sync()
        with pytest.raises(OSError, match="refuses to sync"):
            ailing.maybe_refuse("sync", LOG)
        ailing.look()
        answer = json.loads((tmp_path / ANSWER).read_text())
        assert (answer["refused"], answer["delayed"]) == ({"sync": count}, count)


def test_orders_of_the_same_moment_are_told_apart(tmp_path: Path) -> None:
    """The engine writes files with a fixed time of change."""
    ailing = Ailing(tmp_path)
    for number in (1, 2):
        text = f'{{"number": {number}, "percent": {{}}, "sync_delay_ms": 0}}'
        (tmp_path / ORDERS).write_text(text)
        os.utime(tmp_path / ORDERS, (0, 0))
        assert ailing.look()


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"number": 1}', b'{"number": 1, "percent": 3, "sync_delay_ms": 0}']
)
def test_what_is_no_order_changes_nothing(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the one that it promises)
        read_orders(text)
    (tmp_path / ORDERS).write_bytes(text)
    assert not Ailing(tmp_path).look()


# ---------------------------------------------------------------- the kernel's protocol


def test_the_sizes_of_answers_are_the_kernels(tmp_path: Path) -> None:
    about = tmp_path.stat()
    init = kernel.Request(kernel.Op.INIT, 1, 0, bytes(16))
    sizes = {
        "init": len(kernel.init_reply(init)),
        "entry": len(kernel.entry(1, about)),
        "attributes": len(kernel.attr_reply(about)),
        "open": len(kernel.open_reply(1)),
        "write": len(kernel.write_reply(1)),
        "statfs": len(kernel.statfs_reply(os.statvfs(tmp_path))),
    }
    assert sizes == {
        "init": 64,
        "entry": 128,
        "attributes": 104,
        "open": 16,
        "write": 8,
        "statfs": 80,
    }


def test_a_folder_is_listed_in_pieces(tmp_path: Path) -> None:
    about = tmp_path.stat()
    entries = [(name, about) for name in ("a", "long name", "c")]
    assert [len(kernel.dirents(entries, at, 80)) for at in (0, 1, 2, 3)] == [72, 72, 32, 0]
