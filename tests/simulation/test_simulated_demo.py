"""`highwater demo` without a Docker engine: the same plan and verdict in virtual time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.cli import make_app
from highwater.cluster import engine
from highwater.errors import EngineMissing
from highwater.runs.demo import demo_plan
from highwater.runs.plans.translation import unsupported
from highwater_chaos.plan import decode_plan, problems_of
from highwater_checker.judging import judge_run
from highwater_checker.run_folder.documents import STEPS
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset
from tests.support.presets import CONTROLLED


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise EngineMissing("no Docker engine answers: run scripts/docker-engine")

    monkeypatch.setattr(engine, "connect_engine", missing)


def demo(folder: Path, *arguments: str) -> Result:
    load = ("--records-per-second", "70", "--session-timeout-ms", "1000")
    return CliRunner().invoke(make_app("demo"), ["demo", "--runs", str(folder), *load, *arguments])


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_the_demo_is_played_in_virtual_time_and_says_so(tmp_path: Path) -> None:
    result = demo(tmp_path)
    assert result.exit_code == 0
    assert "PLAYED IN VIRTUAL TIME" in result.stderr
    assert "kill leader of demo-0" in result.stderr
    assert "leads at leader_epoch 1" in result.stderr
    assert "is active at controller_epoch 2" in result.stderr
    assert "demo-0 went " in result.stdout
    assert "verdict: pass (in virtual time: no container was started)" in result.stdout
    latest = tmp_path / "latest"
    for name in ("report.html", "run.png", "history/p0.jsonl", "segments/broker-0"):
        assert (latest / name).exists()
    assert judge_run(latest).outcome is Outcome.PASS
    broker, controller = STEPS.read(latest) or ()
    assert (broker.fired, broker.acted_ms, broker.drift_ms, broker.missed) == (True, 3_000, 0, "")
    assert (broker.node in (0, 1, 2), controller.node in (1000, 1001)) == (True, True)
    assert decode_plan((latest / "plan.json").read_bytes()) == demo_plan(Preset.FENCED, 1_000, 70)


@pytest.mark.usefixtures("no_engine")
def test_the_demo_proves_both_kills_and_their_effects(tmp_path: Path) -> None:
    result = demo(tmp_path, "--world", "sim", "--json")
    told = json.loads(result.stdout)
    assert all(check["examined"] for check in told["verdict"]["checks"])
    proven = {each["name"]: each["evidence"] for each in told["verdict"]["requirements"]}
    starts = [
        "done: at 3000 ms: kill leader of demo-0",
        "done: from 3000 ms on, once the leader epoch of demo-0 is 1, 3000 ms later: kill active",
        "demo-0 changed its leader: kill of broker ",
        "another controller was active: kill of 100",
    ]
    assert [start for start in starts if not any(name.startswith(start) for name in proven)] == []
    assert int(proven["at least 1000 records were acknowledged"].split()[0]) >= 1_000
    (gap,) = told["gaps"]
    assert (gap["topic"], gap["partition"]) == ("demo", 0)
    assert 0.5 < gap["to_s"] - gap["from_s"] < 5


@pytest.mark.usefixtures("no_engine")
def test_a_demo_that_must_be_on_containers_says_that_there_is_no_engine(tmp_path: Path) -> None:
    result = demo(tmp_path, "--world", "docker")
    assert isinstance(result.exception, EngineMissing)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("preset", CONTROLLED)
@pytest.mark.parametrize("session_timeout_ms", [1_000, 2_000, 6_000, 30_000])
def test_the_demo_is_a_plan_for_containers_of_any_preset_and_session_timeout(
    preset: Preset, session_timeout_ms: int
) -> None:
    plan = demo_plan(preset, session_timeout_ms)
    assert problems_of(plan) + unsupported(plan) == []
