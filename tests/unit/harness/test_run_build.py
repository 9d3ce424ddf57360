"""A run's folder names the code that ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.run_folder import RunFolder
from highwater.runs import build as run_build
from highwater.runs.build import write_build
from highwater_checker.run_folder.documents import BUILD, RunBuild


@pytest.mark.parametrize("commit", ["c0ffee-dirty", ""])
def test_the_commit_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str
) -> None:
    monkeypatch.setattr(run_build, "commit_here", lambda: commit)
    build = write_build(RunFolder(tmp_path / "run"))
    assert BUILD.read(tmp_path / "run") == build == RunBuild(commit)
