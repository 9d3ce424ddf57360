"""`highwater judge`: the exit code is the worst verdict's, and every run is in the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from tests.support.run_on_disk import segment, write_run


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Path]:
    found = {name: write_run(tmp_path / name) for name in ("passed", "failed", "unknown")}
    segment(found["failed"], 1).write_bytes(b"")
    (found["unknown"] / "promises.json").unlink()
    return found


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["passed"], 0),
        (["failed"], 1),
        (["unknown"], 2),
        (["passed", "unknown"], 2),
        (["unknown", "failed", "passed"], 1),
    ],
    ids=["passed", "failed", "unknown", "one unknown", "one failed"],
)
def test_the_exit_code_is_that_of_the_worst_verdict(
    runs: dict[str, Path], names: list[str], code: int
) -> None:
    arguments = ["judge", *(str(runs[name]) for name in names)]
    result = CliRunner().invoke(make_app("judge"), arguments)
    assert result.exit_code == code, result.output
    told = json.loads(CliRunner().invoke(make_app("judge"), [*arguments, "--json"]).stdout)
    assert list(told) == [str(runs[name]) for name in names]


def test_a_failed_runs_finding_is_told_with_its_place(runs: dict[str, Path]) -> None:
    result = CliRunner().invoke(make_app("judge"), ["judge", str(runs["failed"])])
    assert "I1: t-0, offset 0, broker 1, p0's send 0: 'v0' was acknowledged" in result.stdout


def test_a_folder_that_is_not_there_is_bad_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(make_app("judge"), ["judge", str(tmp_path / "none")])
    assert result.exit_code == 2
