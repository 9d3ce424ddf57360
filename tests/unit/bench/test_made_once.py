"""A folder of the tree's cache is made once, however many processes ask for it together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from bench import made_once as module
from bench.made_once import made_once


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "project_root", lambda: tmp_path)
    return tmp_path / ".cache"


def test_those_who_ask_together_get_one_folder_that_is_made_once(cache: Path) -> None:
    made: list[Path] = []
    together = Barrier(4)

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "a.jar").write_text(str(len(made)))
        made.append(folder)

    def ask(_: int) -> Path:
        together.wait(10)
        return made_once("jars", make)

    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(ask, range(4)))
    assert folders == {cache / "jars"}
    assert [(cache / "jars" / "a.jar").read_text(), len(made)] == ["0", 1]


def test_a_folder_that_could_not_be_made_leaves_nothing_and_is_made_by_the_next(
    cache: Path,
) -> None:
    def half(folder: Path) -> None:
        folder.mkdir()
        (folder / "half").touch()
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError):
        made_once("jars", half)
    assert [path.name for path in cache.iterdir()] == ["made-once.lock"]
    assert made_once("jars", Path.mkdir).is_dir()
