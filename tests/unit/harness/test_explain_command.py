"""`highwater explain`: how a run failed, told from its files alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from highwater.bugs.kept import bug_of
from highwater.cli import make_app
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import simulate
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import FINAL_LOOK
from tests.support.run_on_disk import segment, write_run


@pytest.fixture(scope="module")
def lost_record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run in which an acknowledged record is lost."""
    folder = tmp_path_factory.mktemp("runs") / "lost"
    simulate(bug_of("KAFKA-3410").plan(), RunFolder(folder), Screen(Console(quiet=True)), "")
    return folder


def explained(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(make_app("explain"), ["explain", str(folder), *options])


def test_a_failed_run_is_told_from_its_faults_to_its_finding(lost_record: Path) -> None:
    result = explained(lost_record)
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    story = lines[lines.index("What happened (the run's time in ms)") + 1 :]
    story = story[: story.index("")]
    assert any("> acts: " in line for line in story)
    assert any("leader_elected" in line for line in story)
    assert "judge           ! " in story[-1]
    assert lines[0][:80] in story[-1]
    assert any(line.startswith(f"{lines[0].partition(':')[0]} demands: ") for line in lines)


def test_a_fault_is_told_when_it_was_begun_and_when_it_was_proven(tmp_path: Path) -> None:
    """On containers it acts from some moment between the two."""
    folder = write_run(tmp_path / "failed")
    segment(folder, 1).write_bytes(b"")
    (folder / "clock.json").write_text('{"start_monotonic_ns": 0, "start_wall_ns": 0}')
    fault = {"fault": "kill", "node": "broker-0", "for_ms": 4000}
    phases = [
        {"at_ns": 1_000_000, "number": 1, "phase": "intended", "fault": fault},
        {"at_ns": 9_000_000, "number": 1, "phase": "acting", "node": 0},
        {"at_ns": 9_500_000, "number": 1, "phase": "reverting"},
        {"at_ns": 12_000_000, "number": 1, "phase": "reverted"},
        {"at_ns": 12_000_000, "number": 2, "phase": "intended", "fault": fault},
        {"at_ns": 13_000_000, "number": 2, "phase": "not_done", "why": "nobody is there"},
    ]
    (folder / names.INTENTS).write_text("".join(f"{json.dumps(each)}\n" for each in phases))
    at_the_end = FINAL_LOOK.read(folder)
    assert at_the_end is not None
    late = FINAL_LOOK.encode(replace(at_the_end, time_ns=20_000_000))
    (folder / FINAL_LOOK.name).write_bytes(late)
    said = [line.split() for line in explained(folder).stdout.splitlines()]
    kill = "kill broker-0, started again after 4000 ms"
    assert [" ".join(words) for words in said if words[1:2] == ["plan"]] == [
        f"1.000 plan > begun: {kill}",
        f"9.000 plan > acts: {kill} on=0",
        f"12.000 plan > undone: {kill}",
        f"12.000 plan > begun: {kill}",
        f"13.000 plan > not done: {kill} why=nobody is there",
    ]


def test_the_findings_record_is_told_by_its_operation_and_other_findings_are_counted(
    tmp_path: Path,
) -> None:
    folder = write_run(tmp_path / "failed")
    segment(folder, 1).write_bytes(b"")
    (folder / "clock.json").write_text('{"start_monotonic_ns": 0, "start_wall_ns": 0}')
    result = explained(folder)
    assert "p0's send 0: invoke  value=v0" in result.stdout
    assert "p0's send 0: ok  value=v0  offset=0" in result.stdout
    assert "history/p0.jsonl:1: " in result.stdout
    told = json.loads(explained(folder, "--json").stdout)
    assert (told["outcome"], told["told"]["finding"]["invariant"]) == ("fail", "I1")


@pytest.mark.parametrize(
    ("spoil", "options", "code", "said"),
    [
        ("promises.json", (), 2, "promises.json is missing"),
        ("", (), 0, "verdict: pass"),
        ("", ("--finding", "3"), 0, "verdict: pass"),
    ],
)
def test_a_run_without_findings_has_its_reasons_alone(
    spoil: str, options: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "run")
    if spoil:
        (folder / spoil).unlink()
    result = explained(folder, *options)
    assert result.exit_code == code, result.output
    assert said in result.stdout


@pytest.mark.parametrize("content", [b"", b"{", b'{"start_wall_ns": "x"}', b"\xff\xfe[]"])
@pytest.mark.parametrize("name", ["clock.json", names.INTENTS])
def test_damaged_clocks_and_faults_cost_their_lines_alone(
    name: str, content: bytes, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "failed")
    segment(folder, 1).write_bytes(b"")
    (folder / name).write_bytes(content + b"\n" + content)
    result = explained(folder)
    assert result.exit_code == 1, result.output
    assert "judge           ! I1: t-0, offset 0, broker 1" in result.stdout


def test_a_finding_that_is_not_there_is_bad_usage(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "failed")
    segment(folder, 1).write_bytes(b"")
    result = explained(folder, "--finding", "99")
    assert "none of number 99" in str(result.exception)
