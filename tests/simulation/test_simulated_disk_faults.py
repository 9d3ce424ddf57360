"""Full, failing and slow disks; flipped bits; a disk without faults draws nothing."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater_chaos.faults import DiskOperation, FileKind
from highwater_simulator.disk import Disk
from highwater_simulator.disk_tree import FileNode
from highwater_simulator.files import SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.rng import SeededRng


class Machine:
    """A disk and the incarnation that writes to it."""

    def __init__(self, seed: int = 1) -> None:
        self.kernel = Kernel()
        self.disk = Disk(SeededRng(seed))
        self.runtime = self.kernel.runtime("node")
        self.files = SimulatedFileSystem(self.runtime, self.disk)

    def refused(self, work: Coroutine[Any, Any, None]) -> int | None:
        """Run the work; return the error's number, None when it succeeded."""
        found: list[int | None] = []

        async def collect() -> None:
            try:
                await work
            except OSError as error:
                found.append(error.errno)
            else:
                found.append(None)

        task = self.runtime.start("test", collect())
        self.kernel.run_until(task.is_done, 60_000)
        return found[0]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def error_of(act: Callable[[], object]) -> int | None:
    try:
        act()
    except OSError as error:
        return error.errno
    return None


def test_full_disk_refuses_operations_that_need_space_alone(machine: Machine) -> None:
    files, disk = machine.files, machine.disk
    file = files.open("log")
    file.append([b"abc"])
    disk.fill()
    assert error_of(lambda: file.append([b"d"])) == errno.ENOSPC
    assert error_of(lambda: files.open("other")) == errno.ENOSPC
    assert error_of(lambda: files.make_folder("folder/below")) == errno.ENOSPC
    assert disk.files() == {"log": b"abc"}
    assert error_of(lambda: file.append([])) is None
    assert machine.refused(file.sync()) is None
    file.truncate(1)
    files.rename("log", "renamed")
    files.open("renamed").close()
    disk.make_room()
    assert file.append([b"d"]) == 1
    assert disk.files() == {"renamed": b"ad"}
    assert disk.faults is None


def test_disk_that_fills_up_takes_bytes_that_still_fit(machine: Machine) -> None:
    file = machine.files.open("log")
    machine.disk.fill(free_bytes=5)
    assert error_of(lambda: file.append([b"abc"])) is None
    assert error_of(lambda: file.append([b"def"])) == errno.ENOSPC
    assert error_of(lambda: file.append([b"de"])) is None
    assert file.pread(0, 10) == b"abcde"


def test_each_operation_fails_by_itself_and_leaves_things_as_they_were(machine: Machine) -> None:
    files, disk = machine.files, machine.disk
    file = files.open("log")
    file.append([b"abc"])
    acts: dict[DiskOperation, Callable[[], object]] = {
        DiskOperation.APPEND: lambda: file.append([b"d"]),
        DiskOperation.READ: lambda: file.pread(0, 1),
        DiskOperation.TRUNCATE: lambda: file.truncate(1),
        DiskOperation.RENAME: lambda: files.rename("log", "other"),
    }
    for operation in acts:
        disk.fail(operation)
        assert error_of(acts[operation]) == errno.EIO
        assert disk.files() == {"log": b"abc"}
        disk.mend(operation)
        assert disk.faults is None
    disk.fail(DiskOperation.SYNC)
    assert machine.refused(file.sync()) == errno.EIO
    assert machine.refused(files.sync_folder("")) == errno.EIO
    assert disk.root.durable_entries == {}


def test_an_operation_may_fail_within_some_files_only(machine: Machine) -> None:
    files = [machine.files.open(f"{name}-0.log") for name in ("bad", "sound")]
    for file in files:
        file.append([b"abc"])
    machine.disk.fail(DiskOperation.READ, count=1, within="bad-0")
    assert [error_of(lambda file=file: file.pread(0, 1)) for file in reversed(files)] == [
        None,
        errno.EIO,
    ]
    assert machine.disk.faults is not None
    assert [error_of(lambda file=file: file.pread(0, 1)) for file in files] == [None, None]


def test_the_next_operations_fail_and_then_no_more(machine: Machine) -> None:
    file = machine.files.open("log")
    machine.disk.fail(DiskOperation.APPEND, count=2)
    found = [error_of(lambda: file.append([b"x"])) for _ in range(4)]
    assert found == [errno.EIO, errno.EIO, None, None]


def test_operations_fail_with_a_probability(machine: Machine) -> None:
    file = machine.files.open("log")
    machine.disk.fail(DiskOperation.APPEND, percent=30)
    found = [error_of(lambda: file.append([b"x"])) for _ in range(300)]
    assert 60 < found.count(errno.EIO) < 120


def test_bytes_of_a_failed_sync_are_never_made_durable_by_a_later_one(machine: Machine) -> None:
    """The kernel marks pages clean even if writing them failed. Source: fsyncgate."""
    file = machine.files.open("log")
    file.append([b"ab"])
    assert machine.refused(file.sync()) is None
    file.append([b"cd"])
    machine.disk.fail(DiskOperation.SYNC, count=1)
    assert machine.refused(file.sync()) == errno.EIO
    file.append([b"ef"])
    assert machine.refused(file.sync()) is None
    node = machine.disk.find("log")
    assert isinstance(node, FileNode)
    assert node.durable() == b"ab"
    assert file.pread(0, 10) == b"abcdef"
    file.truncate(2)
    file.append([b"CD"])
    assert machine.refused(file.sync()) is None
    assert node.durable() == b"abCD"


def test_slow_disk_takes_longer_and_draws_no_more_than_a_fast_one() -> None:
    fast, slow = Machine(4).disk, Machine(4).disk
    slow.slow_down(delay_ms=20, factor=3)
    durations = [(fast.sync_duration_ns(), slow.sync_duration_ns()) for _ in range(5)]
    assert all(longer == 3 * short + 20_000_000 for short, longer in durations)
    slow.speed_up()
    assert slow.faults is None
    assert fast.sync_duration_ns() == slow.sync_duration_ns()


def test_faults_overlap_and_end_each_for_itself_or_all_at_once(machine: Machine) -> None:
    disk = machine.disk
    disk.fill()
    disk.fail(DiskOperation.READ)
    disk.slow_down(delay_ms=1)
    disk.make_room()
    assert error_of(lambda: machine.files.open("log").pread(0, 1)) == errno.EIO
    disk.mend(DiskOperation.READ)
    assert error_of(lambda: machine.files.open("log").pread(0, 1)) is None
    assert disk.faults is not None
    disk.heal()
    assert disk.faults is None


def test_a_fault_moves_no_other_draw() -> None:
    """One more fault in a plan must not change the times of syncs, nor later losses."""

    def story(with_fault: bool) -> tuple[Any, ...]:
        machine = Machine(8)
        if with_fault:
            machine.disk.fail(DiskOperation.READ, percent=50)
            [error_of(lambda: machine.files.open("x").pread(0, 1)) for _ in range(9)]
            machine.disk.heal()
        else:
            machine.files.open("x")
        file = machine.files.open("log")
        file.append([b"0123456789" * 200])
        duration_ns = machine.disk.sync_duration_ns()
        machine.runtime.kill()
        return duration_ns, machine.disk.lose_power(), machine.disk.files()

    assert story(True) == story(False)


PATHS = {
    FileKind.LOG: ["t-0/00000000000000000000.log", "t-0/00000000000000000007.log"],
    FileKind.INDEX: ["t-0/00000000000000000000.index", "t-0/00000000000000000000.timeindex"],
    FileKind.CHECKPOINT: ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"],
    FileKind.EPOCHS: ["t-0/leader-epoch-checkpoint"],
    FileKind.METADATA: ["t-0/partition.metadata"],
    FileKind.IDENTITY: ["meta.properties", "storage.properties"],
}


@pytest.mark.parametrize("kind", list(PATHS))
def test_one_durable_bit_of_a_file_of_the_kind_flips(kind: FileKind) -> None:
    hit: set[str] = set()
    for seed in range(12):
        machine = Machine(seed)
        machine.files.make_folder("t-0")
        for path in sum(PATHS.values(), ["no kind's", "t-0/nor this"]):
            file = machine.files.open(path)
            file.append([b"durable"])
            assert machine.refused(file.sync()) is None
            file.append([b"dirty"])
        before = machine.disk.files()
        machine.runtime.kill()
        flipped = machine.disk.flip_bit(kind)
        assert flipped is not None
        path, position = flipped
        after = machine.disk.files()
        assert path in PATHS[kind]
        assert position < len(b"durable")
        assert (before[path][position] ^ after[path][position]).bit_count() == 1
        changed = [name for name in before if before[name] != after[name]]
        assert changed == [path]
        assert len(after[path]) == len(before[path])
        hit.add(path)
    assert hit == set(PATHS[kind])


def test_nothing_flips_where_nothing_of_the_kind_is_durable(machine: Machine) -> None:
    machine.files.open("recovery-point-offset-checkpoint").append([b"dirty"])
    assert machine.disk.flip_bit(FileKind.CHECKPOINT) is None
    assert machine.disk.flip_bit(FileKind.LOG) is None


def test_wiped_disk_is_empty_and_returns_its_former_content(machine: Machine) -> None:
    machine.files.make_folder("t-0")
    machine.files.open("t-0/b").append([b"abc"])
    machine.files.open("a")
    machine.runtime.kill()
    assert machine.disk.wipe() == (("a", 0, 0, "wiped"), ("t-0/b", 0, 3, "wiped"))
    assert machine.disk.files() == {}
    assert SimulatedFileSystem(machine.kernel.runtime("node"), machine.disk).list("") == []
