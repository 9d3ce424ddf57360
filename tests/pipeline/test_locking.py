"""Which processes may have a store open together, and the messages that others get."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from highwater_pipeline.locking import InUse, reading, writing
from tests.pipeline.command import highwater_without_java

HOLDS_UNTIL_KILLED = """
import sys
from pathlib import Path
from highwater_pipeline.locking import writing
with writing(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
WITHIN_S = 60
Lock = Callable[[Path], AbstractContextManager[None]]


@pytest.mark.parametrize(
    ("first", "second"), [(writing, writing), (writing, reading), (reading, writing)]
)
def test_nobody_else_is_there_while_one_writes(tmp_path: Path, first: Lock, second: Lock) -> None:
    with writing(tmp_path / "new" / "folder"):
        pass
    with first(tmp_path / "new" / "folder"):
        at_work = r"another process is at work in .*/new/folder$"
        with pytest.raises(InUse, match=at_work), second(tmp_path / "new" / "folder"):
            pass
        with second(tmp_path):
            pass
    with second(tmp_path / "new" / "folder"):
        pass


def test_several_processes_may_read_and_change_nothing(tmp_path: Path) -> None:
    with reading(tmp_path), reading(tmp_path):
        assert list(tmp_path.iterdir()) == []
    with writing(tmp_path):
        pass
    with reading(tmp_path), reading(tmp_path):
        pass


def test_a_process_that_is_killed_leaves_no_lock(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_UNTIL_KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(InUse), writing(tmp_path):
                pass
        finally:
            holder.kill()
            holder.wait(WITHIN_S)
    with writing(tmp_path):
        pass


COMPARES = ("compare", "--by", "preset", "--a", "x", "--b", "y")


@pytest.mark.parametrize(
    ("arguments", "lock", "is_refused"),
    [
        (("run", "run-1"), writing, True),
        (("run", "run-1"), reading, True),
        (COMPARES, writing, True),
        (COMPARES, reading, False),
        ((*COMPARES, "run-1"), reading, True),
    ],
    ids=["two take in", "one reads", "one compares", "two compare", "one takes in and compares"],
)
def test_a_store_is_not_read_while_runs_are_taken_in(
    tmp_path: Path, arguments: tuple[str, ...], lock: Lock, is_refused: bool
) -> None:
    store = tmp_path / "tables"
    (store / "runs").mkdir(parents=True)
    with writing(store):
        pass
    with lock(store):
        done = highwater_without_java("pipeline", *arguments, "--store", "tables", cwd=tmp_path)
    assert done.returncode == 2
    says = "another process is at work in tables: wait until it has ended, or take another --store"
    assert (says in done.stderr) is is_refused
    assert ("install a JRE" in done.stderr) is not is_refused
    assert "Traceback" not in done.stderr
