"""Plans as tests of a user's project, in virtual time, and what is typed when one is red."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from highwater_checker.run_folder.documents import PLAN, VERDICT

SCENARIOS = Path(__file__).parents[1] / "scenarios"
A_FLAW = "an_election_outside_the_isr"
A_TEST = f"tests/test_plans.py::test_kept[{A_FLAW}]"
TESTS = """
import pytest

@pytest.mark.highwater_plan("kept/*.json", verdict_in=["pass"])
def test_kept(highwater_run):
    raise AssertionError("never reached")

def test_with_a_cluster(highwater_cluster):
    raise AssertionError("never reached")

@pytest.mark.highwater_plan("kept/*.json")
def test_without_the_fixture():
    raise AssertionError("never reached")
"""
SIMULATED = ["pytest", "--highwater-world", "sim", "--junit-xml", "junit.xml"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests" / "kept").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (tmp_path / "tests" / "test_plans.py").write_text(TESTS)
    shutil.copy(SCENARIOS / f"{A_FLAW}.json", tmp_path / "tests" / "kept")
    return tmp_path


def typed(project: Path, command: list[str]) -> str:
    """Return the output of a pytest command that ends with failures."""
    done = subprocess.run(
        [sys.executable, "-m", *command, "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_a_red_plan_is_run_again_as_the_report_says(project: Path) -> None:
    said = typed(project, SIMULATED)
    assert "1 failed, 2 errors" in said
    assert "never reached" not in said
    assert "highwater_plan runs nothing: the test does not take highwater_run" in said
    assert "highwater_cluster is of containers: not with --highwater-world sim" in said
    (told,) = ElementTree.parse(project / "junit.xml").iter("property")  # noqa: S314
    assert told.attrib["value"].startswith(f"{A_TEST}: fail, {project}/runs/test-")

    (again,) = {line for line in said.splitlines() if line.startswith("  again: ")}
    command = shlex.split(again.removeprefix("  again: "))
    red = project / command[command.index("--highwater-replay") + 1]
    before = VERDICT.read(red.parent)
    folders = {*(project / "runs").iterdir()}
    assert "1 failed" in typed(project, command)
    (replayed,) = {*(project / "runs").iterdir()} - folders
    assert VERDICT.read(replayed) == before
    assert (replayed / PLAN.name).read_bytes() == red.read_bytes()
    assert (replayed / "test.txt").read_text() == f"{A_TEST}\n"
