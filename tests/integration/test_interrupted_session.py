"""Ctrl-C in a test with a cluster: the cluster goes, and pytest still sums the session up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_AN_ENGINE = """
from pathlib import Path

from highwater import pytest_plugin
from highwater.errors import HarnessError
from highwater.runs.judged import cluster

pytest_plugin._engine_is_missing = lambda: ""
pytest_plugin._end_the_session_without_answer = lambda item: None

class FakeCluster:
    has_failed = False

    def __init__(self, topology, folder, *, may_stay, **disks):
        self.folder = folder

    def __enter__(self):
        return self

    def __exit__(self, *_):
        Path("removed").touch()

    def start(self):
        self.folder.mkdir(parents=True)

    def judge(self, accepted):
        raise HarnessError("nothing to judge")

cluster.JudgedCluster = FakeCluster
"""
TWO_TESTS = """
import pytest

pytestmark = pytest.mark.highwater(verdict_in=["pass"])

def test_that_fails_before():
    assert False, "the first failure"

def test_with_a_cluster({fixture}):
    raise {ending}
"""
INTERRUPTED = 2
SOME_FAILED = 1


@pytest.mark.parametrize("fixture", ["highwater_cluster", "highwater_module_cluster"])
def test_an_interrupted_session_removes_its_cluster_and_sums_up(
    tmp_path: Path, fixture: str
) -> None:
    """Found: the cluster's verdict ended the session with a traceback and without a summary."""
    code, said = run(tmp_path, fixture, "KeyboardInterrupt")
    assert code == INTERRUPTED, said
    assert "the first failure" in said
    assert "Traceback" not in said
    assert (tmp_path / "removed").exists()


def test_a_session_that_is_not_interrupted_reports_the_verdict(tmp_path: Path) -> None:
    code, said = run(tmp_path, "highwater_module_cluster", "ValueError")
    assert code == SOME_FAILED, said
    assert "the verdict is not pass" in said
    assert (tmp_path / "removed").exists()


def run(folder: Path, fixture: str, ending: str) -> tuple[int, str]:
    """Run the two tests in the folder, and return pytest's exit code and its report."""
    (folder / "conftest.py").write_text(WITHOUT_AN_ENGINE)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    tests = TWO_TESTS.format(fixture=fixture, ending=ending)
    (folder / "test_two.py").write_text(tests)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_two.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr
