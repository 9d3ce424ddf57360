"""`highwater reproduce`: the plan of a finished run again, in that run's world."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from highwater.bugs.kept import bug_of
from highwater.cli import make_app
from highwater.commands import reproduce
from highwater.errors import HarnessError
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater.runs.plans.outcome import PlanResult
from highwater.runs.plans.running import WorldName
from highwater.runs.reproducing import Finished, is_again, notes, read_finished, sum_up
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.fixed import with_every_fix
from highwater_chaos.plan import Plan
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.run_folder.documents import BUILD, PLAN, RunBuild
from highwater_checker.verdict import Outcome, Requirement, Verdict, judge


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "failed"
    run_in_simulator(bug_of("KAFKA-3410").plan(), RunFolder(folder), Screen(Console(quiet=True)))
    return folder


def reproduced(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(make_app("reproduce"), ["reproduce", str(folder), *options])


def test_a_simulated_failure_comes_again_and_says_how_it_is_shrunk(
    failed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = reproduced(failed, "--times", "2")
    assert result.exit_code == 1, result.output
    assert "I4 came again in 2 of 2: 2 fail" in result.stdout
    assert f"smaller: highwater sim shrink {failed / PLAN.name}" in result.stdout
    folders = sorted(each.name for each in (tmp_path / "runs").iterdir() if not each.is_symlink())
    assert len(folders) == 2
    assert all(name.startswith("again-") for name in folders)
    told = json.loads(reproduced(failed, "--json").stdout)
    assert told["violated"] == ["I4"]


def test_a_passed_run_is_run_again_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = with_every_fix(bug_of("KAFKA-3410").plan())
    run_in_simulator(plan, RunFolder(tmp_path / "passed"), Screen(Console(quiet=True)))
    result = reproduced(tmp_path / "passed")
    assert result.exit_code == 0, result.output
    assert "of 1: 1 pass; that run was pass" in result.stdout
    assert "smaller" not in result.stdout
    assert "run 1: runs/again-" in result.stdout


def verdict_of(*invariants: str, met: bool = True) -> Verdict:
    findings = tuple(Finding(each, "why") for each in invariants)
    return judge([CheckResult("c", 1, findings)], [Requirement("r", met, "never")])


@pytest.mark.parametrize(
    ("before", "now", "again"),
    [
        (verdict_of("I1", "I9"), verdict_of("I9"), True),
        (verdict_of("I1"), verdict_of("I7"), False),
        (verdict_of("I1"), verdict_of(), False),
        (verdict_of("I1"), verdict_of(met=False), False),
        (verdict_of(), verdict_of("I1"), False),
    ],
)
def test_a_run_is_the_same_if_it_violates_an_invariant_of_the_finished_one(
    before: Verdict, now: Verdict, again: bool
) -> None:
    finished = Finished(Plan(seed=1), WorldName.DOCKER, ClientKind.OWN, "", before)
    assert is_again(finished, PlanResult(Path(), now)) is again


def test_the_sum_counts_every_verdict() -> None:
    finished = Finished(
        Plan(seed=1), WorldName.DOCKER, ClientKind.OWN, "", verdict_of("I1", "I9", "I1")
    )
    verdicts = (verdict_of("I9"), verdict_of("I7"), verdict_of(), verdict_of(met=False))
    results = [PlanResult(Path(), each) for each in verdicts]
    said = "I1 or I9 came again in 1 of 4: 1 pass, 2 fail, 1 unknown"
    assert sum_up(finished, results) == said


@pytest.mark.parametrize(
    ("build", "world", "client"),
    [
        (None, WorldName.SIM, ClientKind.OWN),
        (RunBuild("c"), WorldName.DOCKER, ClientKind.OWN),
        (RunBuild("c", "confluent"), WorldName.DOCKER, ClientKind.CONFLUENT),
        (RunBuild("c", "of a later version"), WorldName.DOCKER, ClientKind.OWN),
    ],
)
def test_its_world_and_clients_are_those_of_the_finished_run(
    build: RunBuild | None, world: WorldName, client: ClientKind, failed: Path
) -> None:
    if build is not None:
        (failed / BUILD.name).write_bytes(BUILD.encode(build))
    try:
        finished = read_finished(failed)
    finally:
        (failed / BUILD.name).unlink(missing_ok=True)
    assert (finished.world, finished.client) == (world, client)
    is_guessed = build is not None and build.client not in set(ClientKind)
    assert [*notes(finished, world)][: len(finished.guessed)] == [*finished.guessed]
    assert bool(finished.guessed) is is_guessed
    assert finished.verdict.outcome is Outcome.FAIL


def test_what_is_unlike_the_finished_run_is_said() -> None:
    finished = Finished(Plan(seed=1), WorldName.DOCKER, ClientKind.OWN, "0123", verdict_of())
    said = list(notes(finished, WorldName.SIM))
    assert said[-1] == "that run was in the world docker, this is in sim"
    assert said[0].startswith("that run was of commit 0123, this is ") or len(said) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x", "", "has no plan.json"),
        ("test.txt", "tests/test_a.py::test_b\n", "run the test again: tests/test_a.py::test_b"),
        ("plan.json", "{", "plan.json"),
        ("plan.json", "[]", "plan.json"),
    ],
)
def test_a_folder_that_cannot_be_run_again_says_why(
    name: str, content: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(HarnessError, match=said):
        read_finished(tmp_path)


def test_a_run_on_containers_without_its_build_is_known_by_its_zookeeper(failed: Path) -> None:
    tree = failed / "zookeeper.json"
    tree.write_text("{}")
    try:
        finished = read_finished(failed)
    finally:
        tree.unlink()
    assert finished.world is WorldName.DOCKER
    assert finished.guessed == (
        "that run has no build.json: by its zookeeper.json it was on containers",
    )


def test_a_run_that_cannot_be_done_is_counted_and_the_others_go_on(
    failed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done: list[int] = []

    def run_in(*arguments: object, keeps_failed: bool) -> PlanResult:
        done.append(len(done))
        if len(done) == 2:
            raise HarnessError("the engine was away")
        return PlanResult(tmp_path, verdict_of("I4") if len(done) == 1 else verdict_of())

    monkeypatch.setattr(reproduce, "run_in", run_in)
    result = reproduced(failed, "--times", "3")
    assert result.exit_code == 1, result.output
    assert "I4 came again in 1 of 3: 1 pass, 1 fail, 1 could not be done" in result.stdout
    done.append(1)
    assert reproduced(failed, "--times", "2").exit_code == 0
    monkeypatch.setattr(reproduce, "run_in", always_away)
    assert reproduced(failed).exit_code == 2


def always_away(*arguments: object, keeps_failed: bool) -> PlanResult:
    raise HarnessError("the engine was away")


def test_the_cluster_of_the_last_failed_run_stays_up_alone(
    failed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = iter(
        [
            PlanResult(Path("runs/again-1"), verdict_of("I4"), left_up=("see the first",)),
            PlanResult(Path("runs/again-2"), verdict_of("I4"), left_up=("see the second",)),
            PlanResult(Path("runs/again-3"), verdict_of()),
        ]
    )
    removed: list[str] = []

    def run_in(*arguments: object, keeps_failed: bool) -> PlanResult:
        assert keeps_failed
        return next(results)

    monkeypatch.setattr(reproduce, "run_in", run_in)
    monkeypatch.setattr(reproduce, "connect_engine", lambda: None)
    monkeypatch.setattr(reproduce, "remove_run", lambda engine, run_id: removed.append(run_id))
    result = reproduced(failed, "--times", "3", "--keep", "--world", "docker")
    assert removed == ["again-1"]
    assert result.stdout.endswith("again-2 is up:\nsee the second\n")
    assert "see the first" not in result.stdout


def test_of_virtual_time_no_cluster_can_be_kept(failed: Path) -> None:
    result = reproduced(failed, "--keep")
    assert isinstance(result.exception, HarnessError)
    assert "--world docker" in str(result.exception)


def test_names_of_folders_are_printed_as_they_are_and_quoted_in_commands(
    failed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a[/b] c\x1b[1m"
    shutil.copytree(failed, folder)
    result = reproduced(folder)
    assert result.exit_code == 1, result.output
    assert "\x1b" not in result.stdout
    assert "highwater sim shrink '" in result.stdout
    assert "a[" in result.stdout
