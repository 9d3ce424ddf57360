"""`highwater chaos ...` and `highwater run` as users type them, without an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.cli import make_app
from highwater.errors import HarnessError
from highwater.faults.intents import IntentLog
from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, Producer, Step, Workload, decode_plan, encode_plan
from highwater_checker.run_folder.intents import Phase

SHORT = ("--seed", 7, "--for", "10s")


def chaos(*arguments: object) -> Result:
    return CliRunner().invoke(make_app("chaos"), ["chaos", *(str(each) for each in arguments)])


def run(*arguments: object) -> Result:
    return CliRunner().invoke(make_app("run"), ["run", *(str(each) for each in arguments)])


def written(plan: Plan, folder: Path) -> Path:
    path = folder / "plan.json"
    path.write_bytes(encode_plan(plan))
    return path


def short_plan(*steps: Step) -> Plan:
    workload = Workload(producers=(Producer(rate_per_s=10),))
    return Plan(seed=1, workload=workload, steps=steps, quiet_after_ms=2_500)


def test_a_seeds_plan_is_the_same_on_stdout_and_in_a_file_and_can_be_run(tmp_path: Path) -> None:
    out = tmp_path / "made" / "plan.json"
    assert chaos("plan", *SHORT, "--out", out).exit_code == 0
    printed = chaos("plan", *SHORT)
    assert printed.stdout.encode() == out.read_bytes()
    assert decode_plan(out.read_bytes()).quiet_after_ms == 10_000
    validated = chaos("validate", out)
    assert validated.exit_code == 0
    assert "the quorum is kept: at most 1 of the brokers" in validated.stdout


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--seed", 7, "--for", "9s"), "at least 10 s"),
        (("--seed", 7, "--for", "soon"), "no length of time"),
    ],
)
def test_a_plan_that_cannot_be_drawn_is_refused(options: tuple[object, ...], why: str) -> None:
    result = chaos("plan", *options)
    assert isinstance(result.exception, HarnessError)
    assert why in str(result.exception)


def test_validate_lists_faults_impossible_on_containers_and_times_without_quorum(
    tmp_path: Path,
) -> None:
    impossible = written(short_plan(Step(0, f.ClockRate("broker-0", 1_000))), tmp_path)
    result = chaos("validate", impossible)
    assert isinstance(result.exception, HarnessError)
    assert "let the timers of broker-0" in str(result.exception)
    both = (Step(500, f.Kill(f"controller-{each}", 900)) for each in (1000, 1001))
    lost = chaos("validate", written(short_plan(*both), tmp_path))
    assert lost.exit_code == 0
    assert "more are out at 500 ms than 2 of the brokers and 1 of the controllers" in lost.stdout


def test_a_dry_run_outlines_the_faults_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = written(short_plan(Step(500, f.Pause("leader of t-0", 700))), tmp_path)
    result = run(plan, "--world", "docker", "--dry-run")
    assert result.exit_code == 0
    said = "0.50 s to    1.20 s:  pause leader of t-0 for 700 ms; acts on whoever is leader of t-0"
    assert said in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_repeated_runs_each_have_a_folder_and_their_verdicts_are_counted(tmp_path: Path) -> None:
    plan = written(short_plan(Step(500, f.Pause("leader of t-0", 700))), tmp_path)
    out = tmp_path / "often"
    result = run(plan, "--world", "sim", "--repeat", 2, "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("of 2 runs: pass 2 times\n")
    assert sorted(path.name for path in out.iterdir()) == ["often-1", "often-2"]
    verdict = json.loads((out / "often-2" / "verdict.json").read_bytes())
    assert verdict["outcome"] == "pass"


def test_a_run_that_proves_nothing_ends_with_two_and_is_counted_as_unknown(tmp_path: Path) -> None:
    plan = written(short_plan(Step(500, f.Kill("leader of u-0", 700))), tmp_path)
    out = tmp_path / "vain"
    result = run(plan, "--world", "sim", "--out", out, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["verdict"]["outcome"] == "unknown"


def test_results_of_repeated_runs_are_one_document(tmp_path: Path) -> None:
    plan = written(short_plan(Step(500, f.Kill("leader of u-0", 700))), tmp_path)
    result = run(plan, "--repeat", 2, "--out", tmp_path / "vain", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["verdicts"]) == (2, {"unknown": 2})
    assert [Path(each["folder"]).name for each in told["runs"]] == ["vain-1", "vain-2"]


def test_a_dry_run_lists_faults_that_its_world_cannot_do(tmp_path: Path) -> None:
    jump = written(short_plan(Step(500, f.ClockRate("broker-0", 1_000))), tmp_path)
    assert run(jump, "--dry-run").exit_code == 0
    refused = run(jump, "--dry-run", "--world", "docker")
    assert refused.exit_code == 2
    assert "unsupported here" in refused.stdout


@pytest.mark.parametrize(
    "options",
    [(), ("PLAN", "--seed", 1)],
)
def test_a_run_has_a_seed_or_a_plan(options: tuple[object, ...], tmp_path: Path) -> None:
    plan = written(short_plan(), tmp_path)
    result = run(*(plan if each == "PLAN" else each for each in options))
    assert isinstance(result.exception, HarnessError)
    assert "one of the two" in str(result.exception)


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_the_simulator_has_clients_of_its_own_only(client: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = run(*SHORT, "--world", "sim", "--client", client, "--out", out)
    assert isinstance(result.exception, HarnessError)
    assert "--world docker" in str(result.exception)
    assert not out.exists()


def test_status_shows_acting_faults_by_the_intent_log_alone(tmp_path: Path) -> None:
    log = IntentLog(tmp_path / "some-run" / "intent.jsonl", lambda: 5)
    for number in (log.begin(f.Pause("broker-0")), log.begin(f.Kill("broker-1", 100))):
        log.write(number, Phase.ACTING, node=number - 1, proof="seen")
    log.write(2, Phase.REVERTING)
    log.write(2, Phase.REVERTED, seen="running")
    log.close()
    result = chaos("status", "--run", "some-run", "--runs", tmp_path, "--json")
    assert result.exit_code == 0
    (acting,) = json.loads(result.stdout)
    assert (acting["number"], acting["phase"], acting["node"]) == (1, "acting", 0)
    pause = {"fault": "pause", "node": "broker-0", "for_ms": None, "by": "freezer"}
    assert acting["fault"] == pause


def test_status_of_a_run_without_faults_says_so(tmp_path: Path) -> None:
    result = chaos("status", "--run", "no-run", "--runs", tmp_path)
    assert isinstance(result.exception, HarnessError)
    IntentLog(tmp_path / "idle" / "intent.jsonl", lambda: 0).close()
    idle = chaos("status", "--run", "idle", "--runs", tmp_path)
    assert (idle.exit_code, idle.stdout) == (0, "idle: no fault acts\n")
