"""The FileSystem port over the operating system's files."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_adapters import files as files_module
from highwater_adapters.files import RealFileSystem
from highwater_core.check import BugFound

WITHIN_S = 60


@pytest.fixture
def files(tmp_path: Path) -> Iterator[RealFileSystem]:
    file_system = RealFileSystem(tmp_path)
    yield file_system
    file_system.close()


def test_append_returns_the_position_of_the_first_byte(files: RealFileSystem) -> None:
    file = files.open("log")
    assert file.append([b"ab", memoryview(b"cd"), bytearray(b"e")]) == 0
    assert file.append([]) == 5
    assert file.append([b"f"]) == 5
    assert (file.size_bytes, file.pread(0, 100)) == (6, b"abcdef")
    assert file.pread(4, 1) == b"e"
    assert file.pread(6, 1) == b""
    file.close()


def test_an_opened_file_goes_on_at_its_end(files: RealFileSystem) -> None:
    file = files.open("log")
    file.append([b"abc"])
    file.close()
    again = files.open("log")
    assert again.append([b"d"]) == 3
    assert again.pread(0, 9) == b"abcd"
    again.close()


@given(st.lists(st.binary(max_size=5), max_size=12), st.integers(1, 7), st.integers(1, 4))
def test_an_append_writes_everything_however_little_the_kernel_takes(
    buffers: list[bytes], taken_at_once: int, max_buffers: int
) -> None:
    written = bytearray()

    def short_write(descriptor: int, views: list[memoryview], position: int) -> int:
        assert len(views) <= max_buffers
        assert position == len(written)
        chunk = b"".join(views)[:taken_at_once]
        written.extend(chunk)
        return len(chunk)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files_module, "_MAX_BUFFERS", max_buffers)
        patch.setattr(os, "pwritev", short_write)
        total = files_module._write_at(0, 0, buffers)
    assert (total, bytes(written)) == (len(written), b"".join(buffers))


def test_an_append_that_fails_leaves_the_file_as_it_was(
    files: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open("log")
    file.append([b"kept"])
    real_pwritev, calls = os.pwritev, []

    def full_disk(descriptor: int, views: list[memoryview], position: int) -> int:
        calls.append(position)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "no space left on device")
        return real_pwritev(descriptor, [bytes(views[0])[:2]], position)

    monkeypatch.setattr(os, "pwritev", full_disk)
    with pytest.raises(OSError, match="no space"):
        file.append([b"torn", b"batch"])
    monkeypatch.undo()
    assert (file.size_bytes, (tmp_path / "log").read_bytes()) == (4, b"kept")
    assert file.append([b"!"]) == 4
    file.close()


def test_truncate_shortens_and_never_grows(files: RealFileSystem, tmp_path: Path) -> None:
    file = files.open("log")
    file.append([b"abcdef"])
    file.truncate(2)
    assert (file.size_bytes, file.pread(0, 9)) == (2, b"ab")
    assert file.append([b"z"]) == 2
    assert (tmp_path / "log").read_bytes() == b"abz"
    with pytest.raises(BugFound):
        file.truncate(4)
    file.close()


def test_a_file_closed_during_a_sync_keeps_its_descriptor_until_the_sync_ends(
    files: RealFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: order.append("synced"))
    real_close = os.close

    def close(descriptor: int) -> None:
        order.append("closed")
        real_close(descriptor)

    async def main() -> None:
        file = files.open("log")
        sync = asyncio.ensure_future(file.sync())
        await asyncio.sleep(0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "close", close)
            file.close()
            assert "closed" not in order
            await sync
            await asyncio.sleep(0)

    asyncio.run(main())
    assert order == ["synced", "closed"]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_the_error_of_a_sync_whose_waiter_was_cancelled_is_raised_by_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The kernel reports it once: else the flush of a stopping broker would find no error."""
    is_cancelled, has_met = threading.Event(), threading.Event()
    errors = [OSError(errno.EIO, "a write had failed")]

    def fails_once(descriptor: int) -> None:
        assert is_cancelled.wait(WITHIN_S)
        if errors:
            has_met.set()
            raise errors.pop()

    monkeypatch.setattr(os, "fdatasync", fails_once)
    monkeypatch.setattr(os, "fsync", fails_once)
    files = RealFileSystem(tmp_path)

    async def main() -> None:
        file = files.open("file")
        sync = file.sync if what == "file" else lambda: files.sync_folder("")
        cancelled = asyncio.ensure_future(sync())
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        is_cancelled.set()
        assert await asyncio.to_thread(has_met.wait, WITHIN_S)
        with pytest.raises(OSError, match="a write had failed"):
            await sync()
        await sync()
        file.close()

    asyncio.run(main())


def test_sync_reports_the_disks_error(
    files: RealFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    async def main() -> None:
        file = files.open("log")
        monkeypatch.setattr(os, "fdatasync", broken)
        with pytest.raises(OSError, match="input/output"):
            await file.sync()
        file.close()

    asyncio.run(main())


def test_folders_and_names(files: RealFileSystem) -> None:
    files.make_folder("t-0/x")
    files.make_folder("t-0/x")
    files.open("t-0/b").close()
    files.open("t-0/a").close()
    assert files.list("t-0") == ["a", "b", "x"]
    assert files.list("missing") == []
    files.rename("t-0/a", "t-0/b")
    assert (files.exists("t-0/a"), files.exists("t-0/b")) == (False, True)
    files.rename("t-0", "t-0.deleted")
    files.remove("t-0.deleted")
    files.remove("t-0.deleted")
    assert files.list("") == []
    asyncio.run(files.sync_folder(""))


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_a_path_cannot_leave_the_nodes_folder(files: RealFileSystem, path: str) -> None:
    with pytest.raises(BugFound):
        files.exists(path)


def test_a_file_is_no_folder_to_be_synced(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(NotADirectoryError):
        asyncio.run(RealFileSystem(tmp_path).sync_folder("file"))


def test_the_file_system_that_is_synced_for_many_files_is_theirs_not_the_roots(
    files: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log folder may be a disk of its own, mounted in the node's folder."""
    synced: list[Path] = []

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(files_module, "_sync_file_system", note)
    monkeypatch.setattr(files_module, "_is_fuse", lambda place: False)
    files.make_folder("d0")
    names = [f"d0/{number}" for number in range(20)]
    for name in names:
        files.open(name).close()
    asyncio.run(files.sync_many(names, []))
    (place,) = synced
    assert place.is_relative_to(tmp_path / "d0")
