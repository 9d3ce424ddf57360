"""The data that a power loss leaves on a disk: all synced data, and no impossible contents."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater_simulator.disk import Disk
from highwater_simulator.files import SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.power_loss import Loss
from highwater_simulator.rng import SeededRng

SEEDS = range(60)
OLD, NEW = b"o" * 600, b"n" * 900


class Machine:
    """A disk and the incarnation that writes to it."""

    def __init__(self, seed: int) -> None:
        self.kernel = Kernel()
        self.disk = Disk(SeededRng(seed))
        self.runtime = self.kernel.runtime("node")
        self.files = SimulatedFileSystem(self.runtime, self.disk)

    def write(self, path: str, *contents: bytes) -> Any:
        file = self.files.open(path)
        file.append(contents)
        return file

    def sync(self, *work: Any) -> None:
        for one in work:
            self.runtime.start("sync", one)
        self.kernel.run_for(100)

    def lose_power(self) -> tuple[Loss, ...]:
        self.runtime.kill()
        return self.disk.lose_power()


def outcomes(story: Callable[[Machine], None]) -> list[tuple[dict[str, bytes], tuple[Loss, ...]]]:
    """Return files and losses after the story and a power loss, for each seed."""
    found = []
    for seed in SEEDS:
        machine = Machine(seed)
        story(machine)
        losses = machine.lose_power()
        found.append((machine.disk.files(), losses))
    return found


def test_synced_bytes_survive_every_power_loss() -> None:
    def story(m: Machine) -> None:
        m.files.make_folder("t-0")
        log = m.write("t-0/log", OLD)
        m.sync(log.sync(), m.files.sync_folder("t-0"), m.files.sync_folder(""))

    assert all(found == ({"t-0/log": OLD}, ()) for found in outcomes(story))


def test_unsynced_bytes_survive_as_a_prefix_that_may_be_torn() -> None:
    def story(m: Machine) -> None:
        log = m.write("log", OLD)
        m.sync(log.sync(), m.files.sync_folder(""))
        log.append([NEW])

    kinds: dict[str, int] = {}
    for files, losses in outcomes(story):
        content = files["log"]
        assert content.startswith(OLD)
        assert len(content) <= len(OLD + NEW)
        kept = len(OLD) + len(content[len(OLD) :]) - len(content[len(OLD) :].lstrip(b"n"))
        what = losses[0].what if losses else "nothing"
        kinds[what] = kinds.get(what, 0) + 1
        if losses:
            assert losses == (Loss("log", kept, len(OLD + NEW) - kept, losses[0].what),)
        if what == "torn":
            tail = content[kept:]
            assert tail
            assert not tail.strip(b"\0") or kept >= (len(content) - 1) // 512 * 512
    assert set(kinds) == {"nothing", "cut", "torn"}


def test_unsynced_truncation_may_be_undone_or_mixed_with_later_writes() -> None:
    def story(m: Machine) -> None:
        log = m.write("log", OLD)
        m.sync(log.sync(), m.files.sync_folder(""))
        log.truncate(100)
        log.append([b"n" * 50])

    contents = {files["log"] for files, _ in outcomes(story)}
    assert OLD in contents
    assert OLD[:100] in contents
    assert OLD[:100] + b"n" * 50 in contents
    assert OLD[:100] + b"n" * 50 + OLD[150:] in contents
    assert {loss.what for _, losses in outcomes(story) for loss in losses} >= {
        "cut", "truncation undone"
    }  # fmt: skip


def test_synced_truncation_is_never_undone() -> None:
    def story(m: Machine) -> None:
        log = m.write("log", OLD)
        m.sync(log.sync(), m.files.sync_folder(""))
        log.truncate(100)
        m.sync(log.sync())

    assert all(found == ({"log": OLD[:100]}, ()) for found in outcomes(story))


def test_unsynced_rename_happened_or_not_and_its_file_may_be_empty() -> None:
    def story(m: Machine) -> None:
        old = m.write("checkpoint", b"old")
        m.sync(old.sync(), m.files.sync_folder(""))
        m.write("checkpoint.tmp", b"new")
        m.files.rename("checkpoint.tmp", "checkpoint")

    found = outcomes(story)
    contents = {files["checkpoint"] for files, _ in found}
    assert {b"old", b"new", b""} <= contents
    assert all("checkpoint" in files for files, _ in found)
    for files, losses in found:
        if files == {"checkpoint": b"old"}:
            assert losses == (Loss("checkpoint", 0, 3, "older file is back"),)
        if "checkpoint.tmp" in files:
            assert losses[-1] == Loss("checkpoint.tmp", 0, 0, "name is back")


def test_rename_after_a_sync_of_the_content_leaves_the_old_or_the_new_file_whole() -> None:
    def story(m: Machine) -> None:
        old = m.write("checkpoint", b"old")
        m.sync(old.sync(), m.files.sync_folder(""))
        new = m.write("checkpoint.tmp", b"new")
        m.sync(new.sync())
        m.files.rename("checkpoint.tmp", "checkpoint")

    assert {files["checkpoint"] for files, _ in outcomes(story)} == {b"old", b"new"}


def test_unsynced_creation_and_removal_happened_or_not() -> None:
    def story(m: Machine) -> None:
        gone = m.write("gone", b"abc")
        m.sync(gone.sync(), m.files.sync_folder(""))
        m.files.remove("gone")
        made = m.write("made", b"def")
        m.sync(made.sync())

    found = {tuple(sorted(files.items())): losses for files, losses in outcomes(story)}
    assert found[("gone", b"abc"),] == (
        Loss("gone", 0, 0, "name is back"),
        Loss("made", 0, 3, "name gone"),
    )
    assert found[("made", b"def"),] == ()
    assert found[()] == (Loss("made", 0, 3, "name gone"),)


def test_changes_of_one_folder_survive_in_their_order() -> None:
    def story(m: Machine) -> None:
        for number in range(6):
            m.files.open(str(number))

    survivors = {len(files) for files, _ in outcomes(story)}
    assert {0, 6} < survivors
    for files, _ in outcomes(story):
        assert sorted(files) == [str(number) for number in range(len(files))]


def test_interrupted_removal_of_a_folder_leaves_some_of_its_files() -> None:
    def story(m: Machine) -> None:
        m.files.make_folder("f")
        for number in range(4):
            m.files.open(f"f/{number}")
        m.sync(m.files.sync_folder("f"), m.files.sync_folder(""))
        m.files.remove("f")

    counts = {len(files) for files, _ in outcomes(story)}
    assert {0, 4} < counts


def test_power_loss_leaves_only_durable_things_behind() -> None:
    machine = Machine(5)
    log = machine.write("log", OLD)
    machine.files.make_folder("folder")
    machine.sync(log.sync())
    log.append([NEW])
    machine.lose_power()
    once = machine.disk.files()
    assert machine.disk.lose_power() == ()
    assert machine.disk.files() == once


def test_without_a_power_loss_nothing_is_ever_lost() -> None:
    machine = Machine(5)
    machine.write("log", OLD)
    machine.runtime.kill()
    assert machine.disk.files() == {"log": OLD}


def test_one_seed_loses_the_same_and_syncs_take_as_long_as_without() -> None:
    def lost() -> tuple[tuple[Loss, ...], int]:
        machine = Machine(9)
        machine.write("log", OLD, NEW)
        return machine.lose_power(), machine.disk.sync_duration_ns()

    assert lost() == lost()
    assert lost()[1] == Machine(9).disk.sync_duration_ns()


STEPS = st.lists(
    st.sampled_from(["append", "sync", "cut", "rename", "sync folder", "remove", "lose power"]),
    max_size=25,
)


@given(STEPS, st.integers(0, 1_000))
@settings(max_examples=60, deadline=None)
def test_power_loss_never_takes_bytes_synced_under_a_synced_name(
    steps: list[str], seed: int
) -> None:
    """A model of one file: the least that must be there, as (name, content)."""
    machine = Machine(seed)
    file, synced, names = None, b"", set[str]()
    for step in steps:
        if file is None:
            file = machine.files.open("a")
            synced, names = b"", set()
        path = "a" if machine.files.exists("a") else "b"
        if step == "append":
            file.append([bytes([97 + file.size_bytes % 26])])
        elif step == "sync":
            machine.sync(file.sync())
            synced = file.pread(0, 1000)
        elif step == "cut":
            file.truncate(file.size_bytes // 2)
            synced = synced[: file.size_bytes]
        elif step == "rename":
            machine.files.rename(path, "b" if path == "a" else "a")
            names = set()
        elif step == "sync folder":
            machine.sync(machine.files.sync_folder(""))
            names = {path}
        elif step == "remove":
            machine.files.remove(path)
            file = None
        else:
            machine.lose_power()
            machine.runtime = machine.kernel.runtime("node")
            machine.files = SimulatedFileSystem(machine.runtime, machine.disk)
            for name in sorted(names):
                content = machine.disk.content(name)
                assert content is not None
                assert content.startswith(synced)
            file = None
            machine.files.remove("a")
            machine.files.remove("b")
            machine.sync(machine.files.sync_folder(""))


def test_losses_come_in_the_order_of_their_paths() -> None:
    machine = Machine(2)
    for name in ("c", "a", "b"):
        machine.write(name, NEW)
    machine.runtime.kill()
    losses = machine.disk.lose_power(spares_nothing=True)
    assert [loss.path for loss in losses] == ["a", "b", "c"]
    assert all(one.path < other.path for one, other in pairwise(losses))
    assert losses[0] == Loss("a", 0, len(NEW), "name gone")
