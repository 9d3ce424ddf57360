"""The example project runs as a stranger's would: with the wheel, away from the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.project import project_root
from tests.support.wheels import built_wheel, environment_with, installed_wheel

EXAMPLE = Path("examples/orders")
WITHIN_S = 400
_PYTHON = Path(sys.executable).resolve().parent
"""Where this Python's own python3 is, which is of no virtual environment."""


@pytest.mark.docker
@pytest.mark.full
def test_a_stranger_installs_and_runs_it_as_its_readme_says(tmp_path: Path) -> None:
    """In an empty environment: with what the wheel itself asks for, and nothing of this one."""
    copied = shutil.copytree(project_root() / EXAMPLE, tmp_path / "orders")
    built_wheel(copied / "wheels")
    (listed,) = re.findall(r"```\n(.*?)```", (copied / "README.md").read_text(), re.DOTALL)
    commands = [line for line in listed.splitlines() if "path/to/highwater" not in line]
    assert commands == [
        "python3 -m venv .venv",
        ".venv/bin/pip install --requirement requirements.txt",
        ".venv/bin/pytest",
    ]
    ours = ("PYTHON", "PYTEST", "VIRTUAL_ENV")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    environment |= {"HIGHWATER_REQUIRE_DOCKER": "1", "PATH": f"{_PYTHON}:{os.environ['PATH']}"}
    said = [printed_by(command.split(), copied, environment) for command in commands]
    assert "3 passed" in said[-1]


@pytest.mark.docker
def test_its_tests_pass_and_its_clusters_are_judged(tmp_path: Path) -> None:
    installed = installed_wheel(tmp_path)
    copied = shutil.copytree(project_root() / EXAMPLE, tmp_path / "orders")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = environment_with(installed) | {"HIGHWATER_REQUIRE_DOCKER": "1"}
    said = printed_by(command, copied, environment)
    assert "3 passed" in said
    verdicts = [line for line in said.splitlines() if f": pass, {copied}/runs/test-" in line]
    assert len(verdicts) == 3, said


def printed_by(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Return what the command printed to stdout; it must have succeeded."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
