"""Tests that passed are left out when an ended run goes on; of another commit it is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from highwater.project import project_root
from tests.going_on import OtherCommit, PassedTests


def report(nodeid: str, when: str, outcome: str) -> pytest.TestReport:
    return pytest.TestReport(nodeid, ("f", 1, "d"), {}, cast(Any, outcome), None, cast(Any, when))


def test_only_tests_that_passed_with_their_teardown_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "passed"
    passed = PassedTests(path, "c0ffee")
    for nodeid, call, teardown in (
        ("a::whole", "passed", "passed"),
        ("a::red", "failed", "passed"),
        ("a::red at its end", "passed", "failed"),
        ("a::skipped", "skipped", "passed"),
    ):
        passed.pytest_runtest_logreport(report(nodeid, "setup", "passed"))
        passed.pytest_runtest_logreport(report(nodeid, "call", call))
        passed.pytest_runtest_logreport(report(nodeid, "teardown", teardown))
    assert PassedTests(path, "c0ffee").nodeids == {"a::whole"}
    with path.open("a") as file:
        file.write("a::torn")
    assert PassedTests(path, "c0ffee").nodeids == {"a::whole"}
    with pytest.raises(OtherCommit, match="is of commit c0ffee, and this is 0ff1ce"):
        PassedTests(path, "0ff1ce")


def test_a_run_goes_on_behind_what_passed(tmp_path: Path) -> None:
    path = tmp_path / "passed"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["tests/unit/core/test_common_prefix.py", "--go-on", str(path)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    told = [
        subprocess.run(
            command,
            env=environment,
            cwd=project_root(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        ).stdout
        for _ in range(2)
    ]
    assert "7 passed" in told[0]
    assert "7 deselected" in told[1]
