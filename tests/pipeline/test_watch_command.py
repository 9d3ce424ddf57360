"""How a watch ends on the command line: its exit code, and what it says of its errors. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.errors import HarnessError
from highwater.report import pipeline_watching
from highwater.report.pipeline_watching import Until, watch_runs
from highwater_checker.verdict import Outcome
from highwater_pipeline.watching.stream import WatchFailed
from highwater_pipeline.watching.told import Ledger, Told, ToldAlert, ToldVerdict

PASS = ToldVerdict("r1", Outcome.PASS, "pass", "pass", 0, "")
FAIL = ToldVerdict("r2", Outcome.FAIL, "fail", "fail", 1, "why")
ALERT = ToldAlert("r3", "I7", "t", 0, -1, 2, "", "two leaders", 1.5, "snapshots.jsonl")


class Watch:
    """Has told these, and leaves so many ended runs without a verdict, or has failed."""

    def __init__(self, told: list[Told], untold: int | Exception = 0) -> None:
        self.ledger: Any = SimpleNamespace(all=tuple(told))
        self._untold = untold

    def idle_s(self) -> float:
        return 9.0

    def stop(self, within_s: float = 0.0) -> None: ...

    def untold(self) -> int:
        if isinstance(self._untold, Exception):
            raise self._untold
        return self._untold


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], int]:
    """Give the watch's exit code; what is given is the watch, or makes it."""

    @contextmanager
    def session(*_: object, **__: object) -> Iterator[None]:
        yield None

    def go(watch: Any) -> int:
        make = watch if callable(watch) else lambda *_: watch
        monkeypatch.setattr(pipeline_watching, "spark_session", session)
        monkeypatch.setattr(pipeline_watching, "Watching", make)
        root, folder = tmp_path / "runs", tmp_path / "watch"
        root.mkdir(exist_ok=True)
        until = Until(idle_s=1.0)
        return watch_runs(root, until, tmp_path / "tables", folder, "local", as_json=True)

    return go


@pytest.mark.parametrize(
    ("watch", "code"),
    [
        (Watch([PASS]), 0),
        (Watch([PASS, FAIL]), 1),
        (Watch([PASS, ALERT]), 1),
        (Watch([]), 2),
        (Watch([PASS], untold=3), 2),
        (Watch([FAIL], untold=3), 1),
    ],
)
def test_runs_that_have_no_verdict_yet_are_no_pass(
    watch: Watch, code: int, run: Callable[[object], int]
) -> None:
    assert run(watch) == code


def test_a_watch_that_failed_while_it_ended_says_so(run: Callable[[object], int]) -> None:
    with pytest.raises(HarnessError, match="the disk is full"):
        run(Watch([PASS], untold=WatchFailed("the disk is full")))


def test_a_damaged_ledger_is_said(run: Callable[[object], int], tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    path.write_bytes(b'{"kind":"verdict"}\n')
    with pytest.raises(HarnessError, match="has a damaged file"):
        run(lambda *_: Ledger(path))


def test_a_checkpoint_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(HarnessError, match="File exists"):
        watch_runs(tmp_path, Until(), tmp_path / "tables", tmp_path / "file", "local", as_json=True)
