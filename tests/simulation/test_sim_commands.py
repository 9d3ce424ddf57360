"""`highwater sim run`, `replay` and `planted` as users type them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from highwater.checkout import commit_here
from highwater.cli import make_app
from highwater.errors import HarnessError
from highwater_chaos.plan import Expected, decode_plan, encode_plan
from highwater_core.config import Preset
from highwater_planted import PLANTED
from highwater_simulator.generate import Family, generate
from highwater_simulator.known_marks import read_known_marks

BUG = "acknowledged_on_append"
"""A planted bug that almost every schedule finds."""
TOGGLE_BUG = "truncate_to_high_watermark"
"""A planted bug that is the value of a toggle."""


def sim(*arguments: object) -> Result:
    return CliRunner().invoke(make_app("sim"), ["sim", *(str(each) for each in arguments)])


def report_in(folder: Path) -> dict[str, Any]:
    (file,) = folder.glob("sim-*/search.json")
    content: dict[str, Any] = json.loads(file.read_bytes())
    return content


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Run a search that a planted bug ends; return its folder and its result."""
    folder = tmp_path_factory.mktemp("runs")
    arguments = ("--schedules", 30, "--planted", BUG, "--stop-at-first", "--jobs", 0)
    return folder, sim("run", *arguments, "--out", folder)


def test_a_failing_search_ends_with_one_and_keeps_the_plan(failed: tuple[Path, Result]) -> None:
    folder, result = failed
    assert result.exit_code == 1
    report = report_in(folder)
    assert report["verdict"] == "fail"
    (violation,) = report["violations"]
    assert violation["replay"] in result.stdout
    assert f"--planted {BUG}" in violation["replay"]
    plan = Path(violation["plan"])
    assert plan.parent.parent.parent == folder
    generated = generate(violation["first_seed"], family=Family(violation["family"]))
    expected = Expected("fail", violation["invariant"], planted=BUG)
    kept = replace(generated, commit=commit_here(), expected=expected)
    assert decode_plan(plan.read_bytes()) == kept


def test_a_kept_plan_names_the_commit_whose_code_it_broke(failed: tuple[Path, Result]) -> None:
    (violation,) = report_in(failed[0])["violations"]
    commit = decode_plan(Path(violation["plan"]).read_bytes()).commit
    if not commit_here():
        pytest.skip("there is no checkout")
    assert re.fullmatch("[0-9a-f]{40}(-dirty)?", commit)


def test_a_kept_plan_and_its_seed_show_the_violation_again(failed: tuple[Path, Result]) -> None:
    (violation,) = report_in(failed[0])["violations"]
    from_plan = sim("replay", violation["plan"], "--json")
    from_seed = sim(*violation["replay"].split()[2:], "--json")
    assert from_plan.exit_code == from_seed.exit_code == 1
    assert json.loads(from_plan.stdout) == json.loads(from_seed.stdout)
    report = json.loads(from_plan.stdout)
    assert (report["violation"], report["planted"]) == (violation["message"], BUG)
    digest = sim("replay", violation["plan"], "--digest-only")
    assert (digest.stdout.strip(), digest.exit_code) == (report["digest"], 1)


def test_lines_around_the_violation_end_with_the_oracles_report(
    failed: tuple[Path, Result],
) -> None:
    (violation,) = report_in(failed[0])["violations"]
    result = sim("replay", violation["plan"], "--around-violation", 3)
    lines = [line for line in result.stdout.splitlines() if re.match(r" *[0-9]+\.[0-9]{3}  ", line)]
    assert 1 < len(lines) <= 7
    assert f"oracle          ! {violation['message']}" in result.stdout
    assert f"every node has the planted bug {BUG}" in result.stdout
    assert "verdict: fail" in result.stdout


def test_a_search_for_machines_prints_json_alone_and_records_marks(tmp_path: Path) -> None:
    marks = tmp_path / "marks.json"
    arguments = ("--schedules", 2, "--seed", 2, "--family", "processes", "--jobs", 0, "--json")
    result = sim("run", *arguments, "--out", tmp_path / "runs", "--record-marks", marks)
    report = json.loads(result.stdout)
    assert report == report_in(tmp_path / "runs")
    assert report["schedules"] == 2
    assert report["options"]["families"] == "processes"
    assert report["verdict"] == ("pass" if result.exit_code == 0 else "fail")
    recorded = read_known_marks(marks)
    assert [sorted(families) for families in recorded.values()] == [["processes"]]
    assert sorted(report["marks"]) == recorded[next(iter(recorded))][Family.PROCESSES]


def test_a_replay_has_a_line_for_each_event_and_ends_with_the_digest() -> None:
    shown = sim("replay", 2)
    digest = sim("replay", 2, "--digest-only").stdout.strip()
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert shown.stdout.splitlines()[-1] == f"digest {digest}"
    assert "> faults begin" in shown.stdout
    assert "* started" in shown.stdout
    assert "became_leader" in shown.stdout
    assert "\x1b" not in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("replay", "no-such-file.json"), "no-such-file.json: No such file"),
        (("replay", "{bad}"), "bad.json: "),
        (("replay", "{plan}", "--preset", "v3"), "for seeds"),
        (("replay", "7", "--family", "all"), "processes or disks"),
        (("replay", "7", "--planted", "no_such_bug"), "no planted bug 'no_such_bug'"),
        (("run", "--schedules", "1", "--planted", "no_such_bug"), "no planted bug"),
        (("planted", "no_such_bug"), "no planted bug"),
        (("run", "--preset", "v3", "--planted", TOGGLE_BUG, "--out", "{out}"), "no node would"),
        (("replay", "5", "--preset", "v3", "--planted", TOGGLE_BUG), "no node would have it"),
        (("shrink", "5", "--preset", "v3", "--planted", TOGGLE_BUG), "no node would have it"),
        (("replay", "{old_rules}", "--planted", TOGGLE_BUG), "no node would have it"),
        (("shrink", "1", "--out", "{bad}/plan.json"), "bad.json"),
        (("run", "--schedules", "1", "--out", "{bad}/runs"), "bad.json"),
        (("run", "--schedules", "1", "--out", "{out}", "--record-marks", "{bad}/m"), "bad.json"),
        (("planted", "--find", "--markdown", "{bad}/table.md"), "bad.json"),
        (("scenario", "{plan}", "--name", "a", "--folder", "{bad}/kept"), "bad.json"),
    ],
)
def test_bad_input_is_reported_in_one_line(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.json").write_text('{"seed": "one"}')
    (tmp_path / "plan.json").write_bytes(encode_plan(generate(1)))
    (tmp_path / "v3.json").write_bytes(encode_plan(generate(1, Preset.V3)))
    files = {
        "bad": tmp_path / "bad.json",
        "plan": tmp_path / "plan.json",
        "old_rules": tmp_path / "v3.json",
        "out": tmp_path / "runs",
    }
    result = sim(*(argument.format(**files) for argument in arguments))
    assert isinstance(result.exception, HarnessError)
    assert says in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not list(tmp_path.rglob("sim-*")), "nothing was begun"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--schedules", "0"),
        ("run", "--family", "none"),
        ("run", "--preset", "v9"),
        ("replay",),
        ("replay", "1", "--around-violation", "-1"),
        ("planted", "--find", "--seeds", "0"),
    ],
)
def test_bad_usage_ends_with_two(arguments: tuple[str, ...]) -> None:
    assert sim(*arguments).exit_code == 2


def test_planted_bugs_are_listed_with_their_invariants() -> None:
    listed = json.loads(sim("planted", "--json").stdout)
    assert [bug["name"] for bug in listed] == list(PLANTED)
    one = sim("planted", BUG)
    assert PLANTED[BUG].summary in one.stdout.replace("\n", " ")


def test_a_hunt_finds_a_planted_bug_and_writes_the_table(tmp_path: Path) -> None:
    table = tmp_path / "planted.md"
    arguments = ("--seeds", 1, "--limit", 30, "--jobs", 1, "--markdown", table)
    result = sim("planted", BUG, "--find", *arguments)
    assert result.exit_code == 0
    assert "1 of 1" in result.stdout
    assert table.read_text().splitlines()[2].startswith(f"| {BUG} |")


def test_an_interrupted_measurement_writes_the_table_of_the_hunts_that_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "planted.md"
    monkeypatch.setattr("highwater.commands.sim.planted.say", interrupt)  # as the first one ends
    arguments = ("--seeds", 2, "--limit", 30, "--jobs", 1, "--markdown", table)
    result = sim("planted", BUG, "--find", *arguments)
    assert result.exit_code == 130
    assert "1 of 1" in result.stdout
    assert table.read_text().splitlines()[2].startswith(f"| {BUG} |")


def interrupt(text: str) -> None:
    raise KeyboardInterrupt
