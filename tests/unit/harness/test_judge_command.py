"""`highwater judge`: the exit code is that of the worst verdict, and the table has every run."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.report.verdict_json import judged_run
from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.looks import Look, encode_look
from highwater_checker.probes import Probe, encode_probe
from highwater_checker.run_folder.documents import FINAL_LOOK, REQUIREMENTS, VERDICT, WATCHED
from highwater_checker.verdict import Requirement, judge
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, Offset
from highwater_core.messages import ReplicaSnapshot
from highwater_core.traces import decode_events, encode_event
from tests.support.run_on_disk import broker, segment, write, write_run


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Path]:
    found = {name: write_run(tmp_path / name) for name in ("passed", "failed", "unknown")}
    segment(found["failed"], 1).write_bytes(b"")
    (found["unknown"] / "promises.json").unlink()
    return found


def judged_as_json(*folders: Path) -> list[dict[str, Any]]:
    arguments = ["judge", *map(str, folders), "--json"]
    told: list[dict[str, Any]] = json.loads(CliRunner().invoke(make_app("judge"), arguments).stdout)
    return told


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
    told = judged_as_json(*(runs[name] for name in names))
    assert [(run["run"], run["folder"]) for run in told] == [
        (name, str(runs[name].resolve())) for name in names
    ]


def test_a_failed_runs_finding_is_printed_with_its_place(runs: dict[str, Path]) -> None:
    result = CliRunner().invoke(make_app("judge"), ["judge", str(runs["failed"])])
    assert "I1: t-0, offset 0, broker 1, p0's send 0: 'v0' was acknowledged" in result.stdout
    assert "  broker 0: 0 'v0' of epoch 0; the log ends at 1" in result.stdout


@pytest.mark.parametrize(
    ("nodes", "broker", "named"),
    [((), 2, "broker-2"), ((1,), -1, "broker-1"), ((1000,), -1, "controller-1000"),
     ((1, 1000), -1, None), ((), -1, None)],
)  # fmt: skip
def test_a_finding_in_json_names_the_one_node_that_shows_it(
    nodes: tuple[int, ...], broker: int, named: str | None, tmp_path: Path
) -> None:
    """Found: a finding of a controller's trace had no node."""
    traced = tuple(Traced(node, 1, 7) for node in nodes)
    finding = Finding("I12", "why", broker=broker, traced=traced)
    (told,) = judged_run(tmp_path, judge([CheckResult("c", 1, (finding,))], [])).findings
    assert told.node == named


def test_a_finding_in_json_names_its_run_place_and_lines_of_evidence(runs: dict[str, Path]) -> None:
    (told,) = judged_as_json(runs["failed"])
    lost = next(each for each in told["findings"] if each["operation"] == "p0's send 0")
    assert (lost["run"], lost["folder"]) == ("failed", str(runs["failed"].resolve()))
    assert (lost["invariant"], lost["node"], lost["topic"]) == ("I1", "broker-1", "t")
    assert (lost["partition"], lost["offset"]) == (0, 0)
    history = (runs["failed"] / "history" / "p0.jsonl").read_text().splitlines()
    assert [line["file"] for line in lost["evidence"]] == ["history/p0.jsonl"] * 2
    for line in lost["evidence"]:
        assert line["text"] == history[line["line"] - 1]
    told_by_lines = [json.loads(line["text"]) for line in lost["evidence"]]
    assert [(each["type"], each["operation_id"]) for each in told_by_lines] == [
        ("invoke", 0),
        ("ok", 0),
    ]


def test_a_finding_of_traces_names_the_lines_of_its_events(runs: dict[str, Path]) -> None:
    trace = runs["passed"] / "trace" / "broker-1-1.jsonl"
    (first,) = decode_events(trace.read_bytes().splitlines())
    cut = {"from_offset": 1, "high_watermark": 1, "reason": "to the high watermark"}
    told = (
        first,
        replace(first, seq=1, kind=EventKind.LOG_TRUNCATED, detail=cut),
        replace(first, seq=2, kind=EventKind.BECAME_LEADER, detail={"isr": [1], **cut}),
    )
    trace.write_bytes(b"".join(encode_event(event) + b"\n" for event in told))
    (judged,) = judged_as_json(runs["passed"])
    evidence = {
        each["invariant"]: [(line["file"], line["line"]) for line in each["evidence"]]
        for each in judged["findings"]
    }
    assert evidence == {
        "I7": [("trace/broker-0-1.jsonl", 1), ("trace/broker-1-1.jsonl", 3)],
        "I11": [("trace/broker-1-1.jsonl", 2)],
    }
    (finding,) = (each for each in judged["findings"] if each["invariant"] == "I11")
    assert finding["evidence"][0]["text"] == trace.read_text().splitlines()[1]


def lines_by_rule(folder: Path) -> dict[str, list[tuple[str, int]]]:
    """Return the files and numbers of the lines that findings rest on, by their rules."""
    (judged,) = judged_as_json(folder)
    found: dict[str, list[tuple[str, int]]] = {}
    for finding in judged["findings"]:
        lines = [(line["file"], line["line"]) for line in finding["evidence"]]
        found.setdefault(finding["invariant"], []).extend(lines)
        for line in finding["evidence"]:
            text = (folder / line["file"]).read_text()
            assert line["text"] in (text, text.splitlines()[line["line"] - 1])
    return found


def look(time_ns: int, leader: ReplicaSnapshot) -> Look:
    return Look(time_ns, {0: replace(broker(0), replicas=(leader,)), 1: broker(1)})


LEADER = broker(0).replicas[0]
STRANGER = replace(LEADER, isr=(NodeId(0), NodeId(7)))


def test_a_finding_of_looks_names_the_first_line_that_has_it(runs: dict[str, Path]) -> None:
    looks = [look(40, LEADER), look(50, STRANGER), look(60, STRANGER)]
    write(runs["passed"] / "snapshots.jsonl", b"".join(encode_look(x) + b"\n" for x in looks))
    assert lines_by_rule(runs["passed"])["I6"] == [("snapshots.jsonl", 2)]


def test_a_finding_of_the_final_look_names_its_file_where_no_line_has_it(
    runs: dict[str, Path],
) -> None:
    write(runs["passed"] / FINAL_LOOK.name, FINAL_LOOK.encode(look(99, STRANGER)))
    assert lines_by_rule(runs["passed"])["I6"] == [("final_look.json", 1)]
    write(runs["passed"] / "snapshots.jsonl", encode_look(look(99, STRANGER)) + b"\n")
    assert lines_by_rule(runs["passed"])["I6"] == [("snapshots.jsonl", 1)]


def test_a_member_that_lacks_committed_records_names_both_looks(runs: dict[str, Path]) -> None:
    short = replace(broker(1).replicas[0], log_end_offset=Offset(0), high_watermark=Offset(0))
    nodes = {0: broker(0), 1: replace(broker(1), replicas=(short,))}
    looks = [look(10, LEADER), look(20, LEADER), Look(30, nodes)]
    write(runs["passed"] / "snapshots.jsonl", b"".join(encode_look(x) + b"\n" for x in looks))
    assert lines_by_rule(runs["passed"])["I4"] == [("snapshots.jsonl", 2), ("snapshots.jsonl", 3)]


def test_a_log_that_ends_below_its_high_watermark_names_the_final_look(
    runs: dict[str, Path],
) -> None:
    assert lines_by_rule(runs["failed"])["I4"] == [("final_look.json", 1)]


def test_a_finding_of_a_probe_names_its_line_and_the_looks_around_it(runs: dict[str, Path]) -> None:
    looks = [look(time_ns, LEADER) for time_ns in (10, 20, 30, 40)]
    write(runs["passed"] / "snapshots.jsonl", b"".join(encode_look(x) + b"\n" for x in looks))
    sound = Probe(12, 14, 0, "t", 0, 1, high_watermark=1)
    wrong = replace(sound, asked_ns=13, high_watermark=9)
    write(
        runs["passed"] / "probes.jsonl", b"".join(encode_probe(x) + b"\n" for x in (sound, wrong))
    )
    assert lines_by_rule(runs["passed"])["I9"] == [
        ("snapshots.jsonl", 1),
        ("snapshots.jsonl", 3),
        ("probes.jsonl", 2),
    ]


def test_unknown_fields_of_a_finding_are_null_in_json(runs: dict[str, Path]) -> None:
    (told,) = judged_as_json(runs["failed"])
    differs = next(each for each in told["findings"] if each["operation"] is None)
    assert differs["evidence"] == []


def test_runs_of_one_name_have_their_folders_in_json(runs: dict[str, Path], tmp_path: Path) -> None:
    twin = tmp_path / "copied" / "passed"
    shutil.copytree(runs["failed"], twin)
    passed, failed = judged_as_json(runs["passed"], twin)
    assert passed["run"] == failed["run"] == "passed"
    assert (passed["folder"], passed["outcome"]) == (str(runs["passed"].resolve()), "pass")
    assert (failed["folder"], failed["outcome"]) == (str(twin.resolve()), "fail")
    assert {finding["folder"] for finding in failed["findings"]} == {failed["folder"]}


def test_a_folder_that_is_not_there_is_bad_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(make_app("judge"), ["judge", str(tmp_path / "none")])
    assert result.exit_code == 2


@pytest.mark.parametrize(
    "name",
    ["", "history/x\udcff.jsonl", "trace/x\udcff.jsonl", "segments/broker-0/t-0/9\udcff.log"],
)
def test_names_that_are_no_utf_8_have_replacement_characters_in_json(
    runs: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """Found: they ended `judge --json` with a traceback."""
    folder = shutil.copytree(runs["failed"], tmp_path / "run\udcff")
    if name:
        (folder / name).write_bytes(b"{}\n")
    (told,) = judged_as_json(folder)
    assert (told["run"], told["outcome"]) == ("run\ufffd", "fail")
    assert not name or any("\ufffd" in reason for reason in told["reasons"])


def test_a_verdict_names_no_place_on_the_machine(runs: dict[str, Path]) -> None:
    """Found: of a document that could not be read it named the whole path."""
    (runs["unknown"] / "promises.json").mkdir()
    (told,) = judged_as_json(runs["unknown"])
    assert "segments decode: promises.json: unreadable: Is a directory" in told["reasons"]


MANY = 30
"""More reasons than a screen shows of a verdict."""


def with_many_reasons(folder: Path) -> Path:
    required = tuple(Requirement(f"step {number} was done", False, "") for number in range(MANY))
    write(folder / REQUIREMENTS.name, REQUIREMENTS.encode(required))
    return folder


def test_of_many_reasons_the_first_are_printed_and_how_to_have_them_all(
    runs: dict[str, Path],
) -> None:
    """Found: it named a verdict.json that it does not write, and the folder may have none."""
    folder = with_many_reasons(runs["passed"])
    said = CliRunner().invoke(make_app("judge"), ["judge", str(folder)]).stdout
    assert said.count(" was done: ") == 20
    assert "... and 10 more: all are printed with --all or --json" in said
    assert not (folder / VERDICT.name).exists()
    for option in ("--all", "--json"):
        told = CliRunner().invoke(make_app("judge"), ["judge", str(folder), option]).stdout
        assert all(f"step {number} was done: " in told for number in range(MANY))
        assert " more: " not in told


def test_control_characters_of_a_run_do_not_reach_the_terminal(runs: dict[str, Path]) -> None:
    """Found: an ESC in a requirement reached the screen."""
    wiped = Requirement("\x1b[2Jwiped", False, "\x9b2J\r\n\u202e")
    write(runs["passed"] / REQUIREMENTS.name, REQUIREMENTS.encode((wiped,)))
    strange = CheckResult("\x1b]0;", 1, (Finding("I1", "\x1b[31mred"),), (("\x1b[1m", 1),))
    write(runs["passed"] / WATCHED.name, WATCHED.encode(strange))
    said = CliRunner().invoke(make_app("judge"), ["judge", *map(str, runs.values())]).stdout
    assert r"\x1b[2Jwiped: \x9b2J\r\n\u202e" in said
    assert r"I1: \x1b[31mred" in said
    assert not {"\x1b", "\x9b", "\r", "\u202e"} & set(said)
