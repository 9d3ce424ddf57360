"""`highwater runs`: folders listed with their verdicts, and removed."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.commands.runs import prune
from highwater.errors import HarnessError
from highwater.run_folder import point_latest_to
from highwater_checker.judging import judge_run
from highwater_checker.run_folder.documents import BUILD, PLAN, VERDICT, RunBuild
from tests.support.run_on_disk import segment, write_run

PASSED, FAILED, OLD, OPEN = (
    "plan-20260103-000000-aaaa",
    "demo-20260102-000000-bbbb",
    "plan-20260101-000000-cccc",
    "up-20260104-000000-dddd",
)
MIXED = {"broker-0": ("node:a", "node:b"), "broker-1": ("node:a",)}


@pytest.fixture(autouse=True)
def nothing_is_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    up: list[str] = []
    monkeypatch.setattr(prune, "_up", lambda: up)
    return up


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a run of each kind, and a soak's folder."""
    runs = tmp_path / "runs"
    for name in (PASSED, FAILED, OLD):
        folder = write_run(runs / name)
        if name == FAILED:
            segment(folder, 1).write_bytes(b"")
            (folder / BUILD.name).write_bytes(BUILD.encode(RunBuild("abc", "own", MIXED)))
        (folder / VERDICT.name).write_bytes(VERDICT.encode(judge_run(folder)))
    (runs / PASSED / PLAN.name).write_text('{"seed": 7, "title": "a leader dies\\u001b"}')
    write_run(runs / OPEN)
    (runs / "soaks" / "night").mkdir(parents=True)
    point_latest_to(runs, PASSED)
    return runs


def test_a_folder_in_the_place_of_the_link_to_the_latest_run_is_told_and_left(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found: uploaders of CI artefacts follow links, and every later run ended by a traceback."""
    (root / "latest").unlink()
    (root / "latest").mkdir()
    point_latest_to(root, FAILED)
    assert "latest is not set to" in capsys.readouterr().err
    assert [path.name for path in root.iterdir() if path.name.startswith(".")] == []
    point_latest_to(root, None)
    assert (root / "latest").is_dir()


def runs(command: str, root: Path, *options: str) -> Result:
    return CliRunner().invoke(make_app("runs"), ["runs", command, "--runs", str(root), *options])


def listed(root: Path, *options: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(runs("list", root, *options, "--json").stdout)
    return told


def there(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if not path.is_symlink()} - {"soaks"}


def test_runs_are_listed_newest_first_with_their_stored_verdicts(root: Path) -> None:
    told = listed(root)
    assert [(each["run"], each["verdict"]) for each in told] == [
        (OPEN, None),
        (PASSED, "pass"),
        (FAILED, "fail"),
        (OLD, "pass"),
    ]
    assert [each["world"] for each in told] == ["sim", "sim", "docker", "sim"]
    assert told[1]["what"] == "a leader dies\x1b"
    assert told[2]["reason"].startswith("I")
    assert told[2]["builds"] == ["broker-0: node:a -> node:b", "broker-1: node:a"]
    assert told[1]["builds"] == []
    size_bytes = sum(path.stat().st_size for path in (root / OLD).rglob("*") if path.is_file())
    assert told[3]["size_bytes"] == size_bytes
    table = runs("list", root).stdout
    assert "unjudged" in table
    assert "broker-1: node:a" in table
    assert "\x1b" not in table


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--verdict", "fail"), [FAILED]),
        (("--verdict", "fail", "--verdict", "unjudged"), [OPEN, FAILED]),
        (("--named", "leader dies"), [PASSED]),
        (("--named", "demo-"), [FAILED]),
        (("--named", "nobody"), []),
    ],
    ids=["one verdict", "two verdicts", "by plan", "by name", "none"],
)
def test_runs_may_be_chosen(root: Path, options: tuple[str, ...], names: list[str]) -> None:
    assert [each["run"] for each in listed(root, *options)] == names


def test_a_damaged_verdict_is_told_and_no_other_file_is_needed(root: Path) -> None:
    (root / OLD / VERDICT.name).write_text("{")
    (root / "only-a-plan").mkdir()
    (root / "only-a-plan" / PLAN.name).write_text("[]")
    told = {each["run"]: each for each in listed(root)}
    assert told[OLD]["verdict"] is None
    assert "not JSON" in told[OLD]["reason"]
    assert told["only-a-plan"]["what"] == ""


def test_nothing_is_removed_without_yes(root: Path) -> None:
    before = there(root)
    result = runs("prune", root, "--verdict", "pass")
    assert result.exit_code == 0, result.output
    assert "would be removed" in result.stdout
    assert there(root) == before


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (("--verdict", "pass"), {PASSED, OLD}),
        (("--older-than", "1d"), {PASSED, OLD}),
        (("--keep", "2"), {OLD}),
        (("--verdict", "fail"), {FAILED}),
        (("--named", "cccc"), {OLD}),
        (("--older-than", "100000d"), set()),
    ],
    ids=["passed", "old: failed ones stay", "all but the newest", "failed", "named", "too young"],
)
def test_chosen_runs_are_removed(root: Path, options: tuple[str, ...], gone: set[str]) -> None:
    before = there(root)
    result = runs("prune", root, *options, "--yes")
    assert result.exit_code == 0, result.output
    assert there(root) == before - gone
    assert (root / "soaks" / "night").is_dir()


def test_a_run_without_a_verdict_goes_once_nothing_has_changed_for_an_hour(root: Path) -> None:
    runs("prune", root, "--verdict", "unjudged", "--yes")
    assert OPEN in there(root)
    for path in (root / OPEN).rglob("*"):
        os.utime(path, (0, time.time() - 3_700))
    runs("prune", root, "--verdict", "unjudged", "--yes")
    assert OPEN not in there(root)


def test_a_run_whose_cluster_is_up_stays(root: Path, nothing_is_up: list[str]) -> None:
    nothing_is_up.append(OLD)
    runs("prune", root, "--verdict", "pass", "--yes")
    assert there(root) == {OLD, FAILED, OPEN}


def test_latest_points_to_the_newest_run_that_is_left(root: Path) -> None:
    runs("prune", root, "--verdict", "pass", "--yes")
    assert (root / "latest").resolve().name == OPEN


def test_the_callers_own_run_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: the folder in which it was called went, and `latest` led nowhere."""
    monkeypatch.chdir(root / PASSED / "history")
    result = runs("prune", Path("../.."), "--verdict", "pass", "--yes")
    assert result.exit_code == 0, result.output
    assert there(root) == {PASSED, FAILED, OPEN}


def test_latest_may_be_a_link_to_itself(root: Path) -> None:
    (root / "latest").unlink()
    (root / "latest").symlink_to("latest")
    assert runs("prune", root, "--verdict", "pass", "--yes").exit_code == 0
    assert there(root) == {FAILED, OPEN}


def test_a_removal_that_fails_leaves_latest_at_a_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []
    rmtree = shutil.rmtree

    def fails_at_the_second(path: Path) -> None:
        if removed:
            raise PermissionError(13, "Permission denied", str(path))
        removed.append(path)
        rmtree(path)

    monkeypatch.setattr(prune.shutil, "rmtree", fails_at_the_second)
    result = runs("prune", root, "--verdict", "pass", "--yes")
    assert isinstance(result.exception, HarnessError)
    assert removed == [root / PASSED]
    assert (root / "latest").resolve().name == OPEN


def test_strange_folders_are_listed_with_the_others(root: Path) -> None:
    """Found: one name that is no UTF-8, one pipe, one clock ahead, and nothing was listed."""
    strange = os.fsdecode(b"\xff\xfe")
    write_run(root / strange)
    os.mkfifo(root / strange / "test.txt")
    write_run(root / "demo-29991231-000000-abcd")
    names = {each["run"] for each in listed(root)}
    assert {"\ufffd\ufffd", "demo-29991231-000000-abcd", PASSED} <= names


def test_keep_nothing_is_an_answer(root: Path) -> None:
    assert runs("prune", root, "--keep", "0", "--yes").exit_code == 0
    assert there(root) == {FAILED, OPEN}


def test_pruning_must_say_which(root: Path) -> None:
    result = runs("prune", root, "--yes")
    assert isinstance(result.exception, HarnessError)
    assert "say which" in str(result.exception)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert isinstance(runs("list", tmp_path / "none").exception, HarnessError)
