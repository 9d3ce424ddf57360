"""`highwater run`, `sim shrink` and `sim scenario` as users type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from highwater.checkout import commit_here
from highwater.cli import make_app
from highwater.errors import HarnessError
from highwater_chaos import faults as f
from highwater_chaos.plan import (
    Expected,
    Observed,
    Plan,
    PlanTopology,
    Step,
    Topic,
    When,
    Workload,
    decode_plan,
    encode_plan,
)

SCENARIOS = Path(__file__).parent.parent / "scenarios"
WITHOUT_ITS_EPOCH = SCENARIOS / "a_leader_without_its_epoch.json"
LAGGING = SCENARIOS / "truncation_to_a_lagging_high_watermark.json"
LEADER_KILLED = SCENARIOS / "leader_killed.json"
DEPOSED_ACTS = SCENARIOS / "a_controller_acts_after_its_session.json"
NOT_PERSISTED = "epoch_not_persisted_on_election"
SMALL = Plan(seed=1, topology=PlanTopology(controllers=1), quiet_after_ms=300)
NOTHING_PROVEN = {
    "too few replicas for acks=all": replace(
        SMALL,
        topology=PlanTopology(brokers=2, controllers=1),
        workload=Workload(topics=(Topic(replication_factor=2, min_insync_replicas=2),)),
        steps=(Step(0, f.Kill("broker-1")),),
        core=("broker-0", "controller-1000"),
    ),
    "no producers": replace(SMALL, workload=Workload(producers=())),
    "nobody to act on": replace(SMALL, steps=(Step(5, f.Kill("leader of t-7")),)),
    "after the end": replace(SMALL, steps=(Step(900, f.Kill("broker-0")),)),
    "a takeover that never was": replace(SMALL, expected=Expected(least_takeovers=1)),
    "too few records": replace(SMALL, expected=Expected(least_acknowledged=9_999)),
}
"""Plans whose runs have no violation and prove nothing: their verdict is unknown."""


def highwater(command: str, *arguments: object) -> Result:
    texts = [command, *(str(each) for each in arguments)]
    return CliRunner().invoke(make_app(command), texts)


def written(plan: Plan, folder: Path) -> Path:
    path = folder / "plan.json"
    path.write_bytes(encode_plan(plan))
    return path


def padded(path: Path) -> Plan:
    """Return a scenario's plan with faults that its violation does not need."""
    plan = decode_plan(path.read_bytes())
    idle = (Step(5, f.Pause("broker-0", 2)), Step(9, f.SlowZooKeeper(3, 50)))
    return replace(plan, title="padded", steps=(*idle, *plan.steps), expected=None)


def without_toggles(path: Path) -> Plan:
    """Return a scenario's plan without its toggles: nodes have every fix but the planted bug."""
    plan = decode_plan(path.read_bytes())
    return replace(plan, topology=replace(plan.topology, toggles={}))


# ---------------------------------------------------------------- sim shrink


def test_shrink_writes_the_minimal_plan_and_says_it_in_words(tmp_path: Path) -> None:
    out = tmp_path / "minimal.json"
    result = highwater("sim", "shrink", written(padded(WITHOUT_ITS_EPOCH), tmp_path), "--out", out)
    assert result.exit_code == 0
    minimal = decode_plan(out.read_bytes())
    assert minimal.steps == ()
    assert minimal.title == "I10, shrunk from padded"
    assert minimal.expected == Expected("fail", "I10")
    assert minimal.commit == commit_here()
    assert "this broke I10" in result.stdout
    assert f"highwater run {out} --events" in result.stdout
    assert highwater("run", out, "--out", tmp_path / "run").exit_code == 1


def test_shrink_that_used_its_runs_up_ends_with_one_and_keeps_the_best(tmp_path: Path) -> None:
    out = tmp_path / "minimal.json"
    plan = written(padded(LAGGING), tmp_path)
    result = highwater("sim", "shrink", plan, "--out", out, "--max-runs", 5, "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["is_minimal"], report["runs"], report["invariant"]) == (False, 5, "I11")
    assert report["rows"] == [1]
    assert len(decode_plan(out.read_bytes()).steps) <= 3


def test_an_interrupted_shrink_keeps_the_best_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(text: str) -> None:
        if "1 step left" in text:
            raise KeyboardInterrupt

    monkeypatch.setattr("highwater.commands.sim.shrink.say", interrupt)
    out = tmp_path / "minimal.json"
    result = highwater("sim", "shrink", written(padded(LAGGING), tmp_path), "--out", out)
    assert result.exit_code == 130
    assert "then interrupted: it may be cut further" in result.stdout
    best = decode_plan(out.read_bytes())
    assert [type(step.do) for step in best.steps] == [f.Kill]
    assert best.expected == Expected("fail", "I11", (1,))
    assert highwater("run", out, "--out", tmp_path / "run").exit_code == 1


def test_a_shrunk_plan_has_its_planted_bug_wherever_it_is_run(tmp_path: Path) -> None:
    out = tmp_path / "minimal.json"
    plan = written(replace(without_toggles(WITHOUT_ITS_EPOCH), expected=None), tmp_path)
    arguments = ("--planted", NOT_PERSISTED, "--out", out, "--max-runs", 5)
    assert highwater("sim", "shrink", plan, *arguments).exit_code in (0, 1)
    assert decode_plan(out.read_bytes()).planted == NOT_PERSISTED
    for arguments in (("sim", "replay", out), ("run", out, "--out", tmp_path / "run")):
        result = highwater(*arguments)
        assert result.exit_code == 1
        assert f"every node has the planted bug {NOT_PERSISTED}" in result.stdout


def test_shrinking_a_passing_plan_is_bad_usage(tmp_path: Path) -> None:
    result = highwater("sim", "shrink", LEADER_KILLED, "--out", tmp_path / "minimal.json")
    assert isinstance(result.exception, HarnessError)
    assert "nothing to shrink" in str(result.exception)


# ---------------------------------------------------------------- sim scenario


def test_scenario_writes_the_runs_findings_as_the_plans_expectation(tmp_path: Path) -> None:
    plan = written(padded(LAGGING), tmp_path)
    arguments = (plan, "--name", "padded", "--title", "A story", "--folder", tmp_path / "kept")
    assert highwater("sim", "scenario", *arguments).exit_code == 0
    kept = decode_plan((tmp_path / "kept" / "padded.json").read_bytes())
    assert (kept.title, kept.expected) == ("A story", Expected("fail", "I11", (1,)))
    assert "is there" in str(highwater("sim", "scenario", *arguments).exception)
    assert highwater("sim", "scenario", *arguments, "--force").exit_code == 0


def test_a_plan_with_a_step_that_does_nothing_is_no_scenario(tmp_path: Path) -> None:
    never = When(Observed.LEADER_EPOCH, "t-0", count=50)
    plan = written(Plan(seed=1, steps=(Step(0, f.Kill("broker-0"), never),)), tmp_path)
    result = highwater("sim", "scenario", plan, "--name", "idle", "--folder", tmp_path)
    assert "not done" in str(result.exception)
    assert not (tmp_path / "idle.json").exists()


@pytest.mark.parametrize(("name", "plan"), list(NOTHING_PROVEN.items()))
def test_a_plan_whose_run_proves_nothing_is_no_scenario_and_passes_nowhere(
    name: str, plan: Plan, tmp_path: Path
) -> None:
    path = written(plan, tmp_path)
    kept = highwater("sim", "scenario", path, "--name", "idle", "--folder", tmp_path)
    assert isinstance(kept.exception, HarnessError)
    assert not (tmp_path / "idle.json").exists()
    replayed = highwater("sim", "replay", path, "--json")
    run = highwater("run", path, "--out", tmp_path / "run", "--json")
    assert replayed.exit_code == run.exit_code == 2
    assert json.loads(replayed.stdout)["verdict"] == "unknown"
    assert "verdict: unknown" in highwater("sim", "replay", path).stdout


def test_a_scenario_belongs_to_no_commit_but_keeps_its_planted_bug(tmp_path: Path) -> None:
    expected = Expected("fail", "I10", planted=NOT_PERSISTED)
    plan = replace(without_toggles(WITHOUT_ITS_EPOCH), commit="c0ffee", expected=expected)
    arguments = ("--name", "kept", "--folder", tmp_path / "kept")
    assert highwater("sim", "scenario", written(plan, tmp_path), *arguments).exit_code == 0
    kept = decode_plan((tmp_path / "kept" / "kept.json").read_bytes())
    assert (kept.commit, kept.expected) == ("", expected)


def test_a_scenarios_name_is_a_plain_word(tmp_path: Path) -> None:
    result = highwater("sim", "scenario", LEADER_KILLED, "--name", "../up", "--folder", tmp_path)
    assert "--name" in str(result.exception)


# ---------------------------------------------------------------- run


@pytest.mark.parametrize("path", [LAGGING, DEPOSED_ACTS, LEADER_KILLED], ids=lambda path: path.stem)
def test_a_replay_and_a_run_of_one_plan_give_one_verdict(path: Path, tmp_path: Path) -> None:
    replayed = highwater("sim", "replay", path, "--json")
    run = highwater("run", path, "--out", tmp_path / "run", "--json")
    expected = decode_plan(path.read_bytes()).expected or Expected()
    report, verdict = json.loads(replayed.stdout), json.loads(run.stdout)["verdict"]
    assert report["verdict"] == verdict["outcome"] == expected.verdict
    assert (report["invariant"], tuple(report["rows"])) == (expected.invariant, expected.rows)
    findings = [finding for check in verdict["checks"] for finding in check["findings"]]
    assert {tuple(each["rows"]) for each in findings} == ({expected.rows} if findings else set())
    assert replayed.exit_code == run.exit_code == (1 if findings else 0)


def test_a_replay_says_that_a_flaw_is_documented() -> None:
    result = highwater("sim", "replay", LAGGING)
    assert "verdict: fail (a documented flaw)" in result.stdout
    assert "catalogue row 1 (" in result.stdout


def test_a_replay_says_at_which_commit_its_plan_was_kept(tmp_path: Path) -> None:
    plan = replace(decode_plan(LEADER_KILLED.read_bytes()), commit="c0ffee")
    result = highwater("sim", "replay", written(plan, tmp_path))
    assert ("kept at commit c0ffee" in result.stdout) is bool(commit_here())


def test_a_run_with_its_events_prints_the_same_as_a_replay(tmp_path: Path) -> None:
    options = ("--events", "--around-violation", 3)
    run = highwater("run", LAGGING, *options, "--out", tmp_path / "run")
    replayed = highwater("sim", "replay", LAGGING, *options[1:])
    assert run.stdout.startswith(replayed.stdout)
    assert replayed.stdout.splitlines()[-1].startswith("digest ")
    assert run.exit_code == replayed.exit_code == 1
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [(("--json",), "one of the two"), (("--world", "docker"), "--world sim")],
)
def test_events_are_lines_of_a_run_in_virtual_time(
    options: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    result = highwater("run", LEADER_KILLED, "--events", *options, "--out", out)
    assert isinstance(result.exception, HarnessError)
    assert says in str(result.exception)
    assert not out.exists()


def test_run_in_the_simulator_leaves_a_run_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = highwater("run", LEADER_KILLED, "--out", out, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verdict"]["outcome"] == "pass"
    assert decode_plan((out / "plan.json").read_bytes()) == decode_plan(LEADER_KILLED.read_bytes())
    assert (out / "trace" / "broker-0-1.jsonl").exists()
    assert "plan" in (out / "trace.txt").read_text()
    assert {path.name for path in (out / "history").iterdir()} >= {"p0.jsonl", "c0.jsonl"}
    assert (out / "report.html").exists()
    assert (out / "junit.xml").exists()


def test_run_fails_with_the_planted_bug_that_the_plan_names(tmp_path: Path) -> None:
    expected = Expected("fail", "I10", planted=NOT_PERSISTED)
    plan = replace(without_toggles(WITHOUT_ITS_EPOCH), expected=expected)
    result = highwater("run", written(plan, tmp_path), "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert f"planted bug {NOT_PERSISTED}" in result.stdout


def test_a_step_that_was_not_done_makes_a_run_unknown(tmp_path: Path) -> None:
    plan = Plan(seed=1, steps=(Step(0, f.Kill("leader of t-7")),), quiet_after_ms=200)
    result = highwater("run", written(plan, tmp_path), "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "verdict: unknown" in result.stdout


def test_faults_impossible_on_containers_are_refused_before_anything_starts(tmp_path: Path) -> None:
    out = tmp_path / "run"
    plan = written(Plan(seed=1, steps=(Step(9, f.ClockRate("broker-0", 3)),)), tmp_path)
    result = highwater("run", plan, "--world", "docker", "--out", out)
    assert isinstance(result.exception, HarnessError)
    assert "unsupported here: at 9 ms: let the timers of broker-0 run 3 ppm faster" in str(
        result.exception
    )
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments", [("run",), ("sim", "replay"), ("sim", "shrink")], ids=" ".join
)
def test_faults_impossible_in_the_simulator_are_refused_with_the_reason(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    limit = f.LimitBandwidth("broker-0", "broker-1", "replication", 500)
    plan = written(Plan(seed=1, steps=(Step(9, limit),)), tmp_path)
    result = highwater(*arguments, plan)
    assert isinstance(result.exception, HarnessError)
    assert "limit broker-0 -> broker-1 on replication to 500 kbit/s" in str(result.exception)
    assert "no bandwidth" in str(result.exception)


def test_a_file_that_is_no_plan_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("{}")
    assert str(path) in str(highwater("run", path).exception)
