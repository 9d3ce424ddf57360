"""What node code may rely on of any FileSystem: one suite for memory and for the real disk."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest

from highwater_adapters.files import RealFileSystem
from highwater_core.check import BugFound
from highwater_core.ports import FileSystem
from highwater_core.runtime import Runtime
from highwater_simulator.files import Disk, SimulatedFileSystem
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime

Body = Callable[[FileSystem], Coroutine[Any, Any, None]]


class World(Protocol):
    name: str

    def run(self, body: Callable[[Runtime], Coroutine[Any, Any, None]]) -> None: ...


Run = Callable[[Body], None]


@pytest.fixture
def run(world: World, tmp_path: Path) -> Run:
    """Run a body with a file system of the world that the test is in."""

    async def with_files(runtime: Runtime, body: Body) -> None:
        if isinstance(runtime, NodeRuntime):
            await body(SimulatedFileSystem(runtime, Disk(SeededRng(1))))
            return
        files = RealFileSystem(tmp_path)
        try:
            await body(files)
        finally:
            files.close()

    return lambda body: world.run(lambda runtime: with_files(runtime, body))


def test_append_returns_where_it_wrote_and_pread_reads_it_back(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        file = files.open("log")
        assert file.size_bytes == 0
        assert file.append([b"abc", memoryview(b"de"), bytearray(b"f")]) == 0
        assert file.append([b"gh"]) == 6
        assert file.append([]) == 8
        assert file.size_bytes == 8
        assert file.path == "log"
        assert file.pread(2, 4) == b"cdef"
        assert file.pread(6, 100) == b"gh"
        assert file.pread(8, 1) == b""
        assert file.pread(100, 1) == b""
        file.close()

    run(body)


def test_what_was_appended_is_there_when_the_file_is_opened_again(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        first = files.open("log")
        first.append([b"abc"])
        first.close()
        again = files.open("log")
        assert again.size_bytes == 3
        assert again.append([b"d"]) == 3
        assert again.pread(0, 10) == b"abcd"
        again.close()

    run(body)


def test_truncated_file_grows_on_from_its_new_end(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        file = files.open("log")
        file.append([b"abcdef"])
        await file.sync()
        file.truncate(2)
        assert file.size_bytes == 2
        assert file.append([b"X"]) == 2
        assert file.pread(0, 10) == b"abX"
        file.truncate(0)
        assert file.pread(0, 10) == b""
        with pytest.raises(BugFound):
            file.truncate(5)
        file.close()

    run(body)


@pytest.mark.parametrize("content", [b"abc", b"abcdef", b"", b"longer than before"])
def test_an_overwritten_file_has_the_new_content_alone(run: Run, content: bytes) -> None:
    async def body(files: FileSystem) -> None:
        file = files.open("log")
        file.append([b"before"])
        await file.sync()
        file.overwrite(content)
        assert file.size_bytes == len(content)
        assert file.pread(0, 100) == content
        await file.sync()
        assert file.append([b"X"]) == len(content)
        file.close()
        again = files.open("log")
        assert again.pread(0, 100) == content + b"X"
        again.close()

    run(body)


def test_sync_leaves_content_and_later_appends_alone(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        files.make_folder("topic-0")
        file = files.open("topic-0/log")
        file.append([b"abc"])
        await file.sync()
        file.append([b"d"])
        await files.sync_folder("topic-0")
        await files.sync_folder("")
        assert file.pread(0, 10) == b"abcd"
        file.close()

    run(body)


@pytest.mark.parametrize("count", [1, 40])
def test_many_are_synced_at_once_and_a_missing_one_is_told(run: Run, count: int) -> None:
    async def body(files: FileSystem) -> None:
        names = [f"f-{number}" for number in range(count)]
        for name in names:
            files.make_folder(name)
            file = files.open(f"{name}/x")
            file.append([b"abc"])
            file.close()
        await files.sync_many([f"{name}/x" for name in names], names)
        assert [files.open(f"{name}/x").pread(0, 9) for name in names] == [b"abc"] * count
        with pytest.raises(FileNotFoundError):
            await files.sync_many(["f-0/y"], ["f-0"])

    run(body)


def test_closed_file_refuses_everything(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        file = files.open("log")
        file.append([b"abc"])
        file.close()
        with pytest.raises(OSError, match="Errno"):
            file.append([b"d"])
        with pytest.raises(OSError, match="Errno"):
            file.pread(0, 1)
        with pytest.raises(BugFound):
            file.close()

    run(body)


def test_file_needs_its_folder(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        with pytest.raises(FileNotFoundError):
            files.open("missing/log")
        files.make_folder("a/b")
        files.make_folder("a/b")
        files.open("a/b/log").close()
        with pytest.raises(IsADirectoryError):
            files.open("a/b")
        assert files.list("a") == ["b"]
        assert files.list("a/b") == ["log"]

    run(body)


def test_the_space_of_a_disk_is_known_or_not(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        files.make_folder("d0")
        space = files.space("d0")
        if isinstance(files, RealFileSystem):
            assert space is not None
        assert space is None or 0 <= space.usable_bytes <= space.total_bytes
        assert space is None or space.total_bytes > 0

    run(body)


def test_list_is_sorted_and_empty_where_there_is_no_folder(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        for name in ("c", "a", "b"):
            files.open(name).close()
        files.make_folder("ab")
        assert files.list("") == ["a", "ab", "b", "c"]
        assert files.list("missing") == []
        assert files.exists("ab")
        assert files.exists("a")
        assert not files.exists("missing/too")

    run(body)


def test_rename_replaces_a_file_and_open_files_keep_their_content(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        files.make_folder("f")
        old, new = files.open("f/checkpoint"), files.open("f/checkpoint.tmp")
        old.append([b"old"])
        new.append([b"new"])
        files.rename("f/checkpoint.tmp", "f/checkpoint")
        assert files.list("f") == ["checkpoint"]
        found = files.open("f/checkpoint")
        assert found.pread(0, 10) == b"new"
        assert old.pread(0, 10) == b"old"
        for file in (old, new, found):
            file.close()
        with pytest.raises(FileNotFoundError):
            files.rename("f/missing", "f/x")

    run(body)


def test_folder_is_renamed_with_all_in_it_but_not_over_a_full_one(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        files.make_folder("t-0")
        files.make_folder("full")
        for path in ("t-0/log", "full/log"):
            files.open(path).close()
        files.rename("t-0", "t-0-stray")
        assert files.list("") == ["full", "t-0-stray"]
        assert files.list("t-0-stray") == ["log"]
        with pytest.raises(OSError, match="Errno"):
            files.rename("t-0-stray", "full")

    run(body)


def test_remove_takes_a_file_or_a_whole_folder_and_ignores_what_is_missing(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        files.make_folder("t-0/deep")
        files.open("t-0/deep/log").close()
        files.open("single").close()
        files.remove("single")
        files.remove("t-0")
        files.remove("t-0")
        files.remove("missing/too")
        assert files.list("") == []

    run(body)


def test_removed_file_stays_readable_while_it_is_open(run: Run) -> None:
    async def body(files: FileSystem) -> None:
        file = files.open("log")
        file.append([b"abc"])
        files.remove("log")
        assert file.pread(0, 3) == b"abc"
        file.close()
        assert not files.exists("log")

    run(body)


LONGEST = 255
"""Bytes of a name: NAME_MAX of Linux's file systems."""


@pytest.mark.parametrize("name", ["n" * LONGEST, "n" + "\u00e9" * (LONGEST // 2)])
def test_a_name_has_at_most_255_bytes(run: Run, name: str) -> None:
    async def body(files: FileSystem) -> None:
        files.open(name).close()
        files.rename(name, "short")
        files.make_folder(name)
        files.open(f"{name}/{name}").close()
        too_long = f"{name}x"
        for refused in (
            lambda: files.open(too_long),
            lambda: files.open(f"{too_long}/log"),
            lambda: files.make_folder(too_long),
            lambda: files.make_folder(f"{name}/{too_long}/deep"),
            lambda: files.rename("short", too_long),
            lambda: files.rename(name, too_long),
            lambda: files.exists(too_long),
            lambda: files.list(too_long),
            lambda: files.remove(too_long),
        ):
            with pytest.raises(OSError, match="name too long"):
                refused()
        assert files.list("") == [name, "short"]

    run(body)


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../outside"])
def test_path_that_leaves_the_nodes_folder_is_a_bug(run: Run, path: str) -> None:
    async def body(files: FileSystem) -> None:
        with pytest.raises(BugFound):
            files.open(path)

    run(body)
