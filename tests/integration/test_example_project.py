"""The example project runs as a stranger's would: with the wheel, away from the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.project import project_root
from tests.support.wheels import environment_with, installed_wheel

EXAMPLE = Path("examples/orders")
WITHIN_S = 400


@pytest.mark.docker
def test_its_tests_pass_and_its_clusters_are_judged(tmp_path: Path) -> None:
    installed = installed_wheel(tmp_path)
    copied = shutil.copytree(project_root() / EXAMPLE, tmp_path / "orders")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=copied,
        env=environment_with(installed) | {"HIGHWATER_REQUIRE_DOCKER": "1"},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "3 passed" in done.stdout
    verdicts = [line for line in done.stdout.splitlines() if f": pass, {copied}/runs/test-" in line]
    assert len(verdicts) == 3, done.stdout
