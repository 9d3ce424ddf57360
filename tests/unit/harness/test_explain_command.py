"""`highwater explain`: how a run failed, told from its files alone."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from highwater.bugs.kept import bug_of
from highwater.cli import make_app
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import simulate
from highwater_checker.history import decode, encode
from highwater_checker.judging import judge_run
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


KILL = {"fault": "kill", "node": "broker-0", "for_ms": 4000}
KILLED = "kill broker-0, started again after 4000 ms"
PHASES: tuple[dict[str, Any], ...] = (
    {"at_ns": 1_000_000, "number": 1, "phase": "intended", "fault": KILL},
    {"at_ns": 9_000_000, "number": 1, "phase": "acting", "node": 0, "acted_ns": 2_000_000},
    {"at_ns": 9_500_000, "number": 1, "phase": "reverting"},
    {"at_ns": 12_000_000, "number": 1, "phase": "reverted"},
    {"at_ns": 12_000_000, "number": 2, "phase": "intended", "fault": KILL},
    {"at_ns": 13_000_000, "number": 2, "phase": "not_done", "why": "nobody is there"},
    {"at_ns": 14_000_000, "number": 3, "phase": "intended", "fault": {"fault": "of_tomorrow"}},
    {"at_ns": 15_000_000, "number": 3, "phase": "acting"},
)
TOLD = (
    f"2.000 plan > acts: {KILLED} on=0",
    f"9.500 plan > being undone: {KILLED}",
    f"12.000 plan > undone: {KILLED}",
    f"12.000 plan > begun: {KILLED}",
    f"13.000 plan > not done: {KILLED} why=nobody is there",
    "14.000 plan > begun: of_tomorrow",
    "15.000 plan > acts: of_tomorrow",
)


def failed_run(folder: Path, *, ends_ns: int = 99) -> Path:
    """Return a run that has lost its record, with a clock; its final look is at that time."""
    write_run(folder)
    segment(folder, 1).write_bytes(b"")
    (folder / "clock.json").write_text('{"start_monotonic_ns": 0, "start_wall_ns": 0}')
    at_the_end = FINAL_LOOK.read(folder)
    assert at_the_end is not None
    (folder / FINAL_LOOK.name).write_bytes(FINAL_LOOK.encode(replace(at_the_end, time_ns=ends_ns)))
    return folder


def told_of_the_plan(folder: Path) -> list[str]:
    said = [line.split() for line in explained(folder).stdout.splitlines()]
    return [" ".join(words) for words in said if words[1:2] == ["plan"]]


def test_a_fault_is_told_when_it_acted_and_while_it_was_undone(tmp_path: Path) -> None:
    folder = failed_run(tmp_path / "failed", ends_ns=20_000_000)
    (folder / names.INTENTS).write_text("".join(f"{json.dumps(each)}\n" for each in PHASES))
    assert told_of_the_plan(folder) == list(TOLD)


def test_a_damaged_intent_costs_its_line_alone(tmp_path: Path) -> None:
    folder = failed_run(tmp_path / "failed", ends_ns=20_000_000)
    lines = [json.dumps(each) for each in PHASES]
    (folder / names.INTENTS).write_text("\n".join([lines[0], "{", "[" * 9_999, *lines[1:], "{"]))
    assert told_of_the_plan(folder) == list(TOLD)


def test_an_intent_of_an_earlier_version_is_told_by_its_intention_and_its_proof(
    tmp_path: Path,
) -> None:
    """It acted from some moment between the two."""
    folder = failed_run(tmp_path / "failed", ends_ns=20_000_000)
    acting = {key: value for key, value in PHASES[1].items() if key != "acted_ns"}
    (folder / names.INTENTS).write_text(f"{json.dumps(PHASES[0])}\n{json.dumps(acting)}\n")
    assert told_of_the_plan(folder) == [
        f"1.000 plan > begun: {KILLED}",
        f"9.000 plan > acts: {KILLED} on=0",
    ]


def test_what_is_missing_is_said_below_the_story(tmp_path: Path) -> None:
    folder = failed_run(tmp_path / "failed")
    (folder / "clock.json").unlink()
    (folder / names.TRACE / "broker-1-1.jsonl").unlink()
    lines = explained(folder).stdout.splitlines()
    below = lines[lines.index("What is missing, or did not happen") :]
    assert below[1].startswith("without clock.json clients and faults are left out")
    assert any("node 1, incarnation 1: no trace" in line for line in below)


def test_a_pipe_among_a_runs_files_does_not_hold_it_up(tmp_path: Path) -> None:
    folder = failed_run(tmp_path / "failed")
    os.mkfifo(folder / names.INTENTS)
    assert explained(folder).exit_code == 1


def test_of_a_poll_the_findings_record_alone_is_told(tmp_path: Path) -> None:
    folder = failed_run(tmp_path / "failed")
    read = decode((folder / names.HISTORY / "c0.jsonl").read_bytes().splitlines())[0]
    others = [
        replace(read, value="another record", offset=5),
        replace(read, value="another partition", partition=1),
        replace(read, value="another topic", topic="u"),
    ]
    history = b"".join(encode(each) + b"\n" for each in (read, *others))
    (folder / names.HISTORY / "c0.jsonl").write_bytes(history)
    story = explained(folder, "--finding", str(number_of(folder, "c0's poll", 0))).stdout
    story = story[: story.index("What the replicas have there")]
    assert "c0's poll 0: ok  value=v0  offset=0" in story
    assert "value=another" not in story


def number_of(folder: Path, operation: str, offset: int) -> int:
    """Return the number of the first finding of that operation and offset of t-0."""
    wanted = ("t", 0, offset)
    return next(
        number
        for number, each in enumerate(judge_run(folder).findings, 1)
        if each.operation.startswith(operation)
        and (each.topic, each.partition, each.offset) == wanted
    )


def test_the_findings_record_is_told_by_its_operation_and_other_findings_are_counted(
    tmp_path: Path,
) -> None:
    folder = failed_run(tmp_path / "failed")
    result = explained(folder)
    assert "p0's send 0: invoke  value=v0" in result.stdout
    assert "p0's send 0: ok  value=v0  offset=0" in result.stdout
    assert "history/p0.jsonl:1: " in result.stdout
    told = json.loads(explained(folder, "--json").stdout)
    assert (told["outcome"], told["told"]["finding"]["invariant"]) == ("fail", "I1")
    last = told["told"]["story"][-1]
    assert last["who"] == "judge"
    assert "! I1: t-0, offset 0, broker 1" in last["line"]


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
