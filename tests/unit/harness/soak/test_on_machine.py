"""The machine of a soak waits for its engine, and gives up in time."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from highwater.errors import EngineMissing
from highwater.report.screen import Screen
from highwater.soak import on_machine
from highwater.soak.on_machine import Machine
from highwater.soak.running import CouldNotRun


def machine_whose_engine_is_away(
    tries: int, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> Machine:
    answers = iter([EngineMissing("no engine")] * tries)

    def connect() -> Mock:
        for missing in answers:
            raise missing
        return Mock()

    monkeypatch.setattr(on_machine, "connect_engine", connect)
    monkeypatch.setattr(on_machine, "remove_run", lambda _, run_id: removed.append(run_id))
    return Machine(Screen(), Path("shrunk"))


def test_a_killed_runs_containers_are_removed_once_the_engine_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    removed: list[str] = []
    machine_whose_engine_is_away(3, removed, monkeypatch).remove_leftovers("soak-1")
    assert removed == ["soak-1"]


def test_an_engine_that_stays_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    monkeypatch.setattr(on_machine, "ENGINE_WITHIN_S", 0.1)
    machine = machine_whose_engine_is_away(10_000, removed, monkeypatch)
    with pytest.raises(CouldNotRun, match="no engine"):
        machine.remove_leftovers("soak-1")
    assert removed == []
