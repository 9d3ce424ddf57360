"""Syncs that do not return: one suite for memory and for the real disk."""

from __future__ import annotations

import errno
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from highwater_adapters.files import RealFileSystem
from highwater_core.ports import FileSystem
from highwater_core.runtime import Runtime
from highwater_simulator.files import Disk, SimulatedFileSystem
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime

TIMEOUT_MS = 60


class World(Protocol):
    name: str

    def run(self, body: Callable[[Runtime], Coroutine[Any, Any, None]]) -> None: ...


class Stage:
    """A file system with the folders a and b, whose syncs have bounds.

    hung: the folders that were told to hang, in this order.
    """

    def __init__(self, runtime: Runtime, files: FileSystem, hang: Callable[[str], None]) -> None:
        self.runtime = runtime
        self.files = files
        self.hang = hang
        """Let no sync return that begins from now on in the folder."""
        self.hung: list[str] = []
        for folder in ("a", "b"):
            files.make_folder(folder)
            files.bound_syncs(folder, TIMEOUT_MS, functools.partial(self.hung.append, folder))


Body = Callable[[Stage], Coroutine[Any, Any, None]]
Run = Callable[[Body], None]


@pytest.fixture
def run(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run a body with a file system of the world that the test is in."""
    is_over = threading.Event()

    def hang(folder: str) -> None:
        within = str(tmp_path / folder)

        def sync(descriptor: int) -> None:
            if str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(within):
                is_over.wait()

        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(os, "fdatasync", sync)

    async def on_stage(runtime: Runtime, body: Body) -> None:
        if isinstance(runtime, NodeRuntime):
            disk = Disk(SeededRng(1))
            await body(Stage(runtime, SimulatedFileSystem(runtime, disk), disk.hang))
            return
        files = RealFileSystem(tmp_path)
        try:
            await body(Stage(runtime, files, hang))
        finally:
            files.close()

    yield lambda body: world.run(lambda runtime: on_stage(runtime, body))
    is_over.set()


def test_a_bound_does_nothing_to_syncs_that_return(run: Run) -> None:
    async def body(stage: Stage) -> None:
        file = stage.files.open("a/log")
        for _ in range(3):
            await file.sync()
            await stage.files.sync_folder("a")
            await stage.files.sync_many(["a/log"], ["a"])
            await stage.files.sync_folder("")
        file.close()
        assert stage.hung == []

    run(body)


def test_a_sync_that_does_not_return_is_given_up_and_every_later_one_of_its_folder(
    run: Run,
) -> None:
    async def body(stage: Stage) -> None:
        files = stage.files
        files.open("a/x").close()
        file, other = files.open("a/log"), files.open("b/log")
        stage.hang("a")
        for sync in (
            file.sync,
            file.sync,
            lambda: files.sync_folder("a"),
            lambda: files.sync_many(["a/x"], ["a"]),
        ):
            with pytest.raises(OSError, match="did not return") as refused:
                await sync()
            assert refused.value.errno == errno.ETIMEDOUT
            assert stage.hung == ["a"]
        file.append([b"goes on in the page cache"])
        file.close()
        await other.sync()
        await files.sync_folder("b")
        other.close()
        assert stage.hung == ["a"]

    run(body)


def test_syncs_under_way_are_given_up_together_and_hold_up_no_other_folders(run: Run) -> None:
    many = 20
    """More than there are threads."""

    async def body(stage: Stage) -> None:
        given_up = stage.runtime.queue()

        async def sync(name: str) -> None:
            file = stage.files.open(f"a/{name}")
            with pytest.raises(OSError, match="did not return"):
                await file.sync()
            file.close()
            given_up.put(list(stage.hung))

        stage.hang("a")
        scope = stage.runtime.scope("syncs")
        for number in range(many):
            scope.spawn(f"sync {number}", sync(str(number)))
        await stage.files.sync_folder("b")
        assert len(given_up) == 0
        assert [await given_up.get(10_000) for _ in range(many)] == [["a"]] * many

    run(body)
