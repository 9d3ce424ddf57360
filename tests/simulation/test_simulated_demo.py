"""`highwater demo` where no engine is to be had: the same acts and verdict in virtual time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.cli import make_app
from highwater.errors import EngineMissing
from highwater.runs import demo as demo_on_containers


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise EngineMissing("no Docker engine answers: run scripts/docker-engine")

    monkeypatch.setattr(demo_on_containers, "connect_engine", missing)


def demo(folder: Path, *arguments: str) -> Result:
    load = ("--records-per-second", "70", "--session-timeout-ms", "1000")
    return CliRunner().invoke(make_app("demo"), ["demo", "--runs", str(folder), *load, *arguments])


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_the_demo_is_played_in_virtual_time_and_says_so(tmp_path: Path) -> None:
    result = demo(tmp_path)
    assert result.exit_code == 0
    assert "PLAYED IN VIRTUAL TIME" in result.stderr
    assert "SIGKILL broker" in result.stderr
    assert "verdict: pass (in virtual time: no container was started)" in result.stdout
    verdict = json.loads((tmp_path / "latest" / "verdict.json").read_bytes())
    assert all(check["examined"] for check in verdict["checks"])
    assert len(verdict["requirements"]) == 9
    for name in ("report.html", "run.png", "history/producer-0.jsonl", "segments/broker-0"):
        assert (tmp_path / "latest" / name).exists()


@pytest.mark.usefixtures("no_engine")
def test_a_demo_that_must_be_on_containers_says_that_there_is_no_engine(tmp_path: Path) -> None:
    result = demo(tmp_path, "--world", "docker")
    assert isinstance(result.exception, EngineMissing)
    assert not list(tmp_path.iterdir())
