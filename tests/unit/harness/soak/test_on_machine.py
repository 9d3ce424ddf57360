"""The machine of a soak waits for its engine, and gives up in time."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import docker.errors
import pytest

from highwater.errors import EngineMissing
from highwater.report.screen import Screen
from highwater.runs.stock.libraries import ClientKind
from highwater.soak import on_machine
from highwater.soak.draws import SoakSettings, draw
from highwater.soak.on_machine import Machine
from highwater.soak.world import CouldNotRun


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


def test_a_plan_waits_once_for_an_engine_that_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_machine, "ENGINE_WITHIN_S", 0.1)
    machine = machine_whose_engine_is_away(10_000, [], monkeypatch)
    waits: list[float] = []
    waiting = on_machine.eventually

    def counted(*arguments: Any, within: float, **words: Any) -> Any:
        waits.append(within)
        return waiting(*arguments, within=within, **words)

    monkeypatch.setattr(on_machine, "eventually", counted)
    with pytest.raises(CouldNotRun, match="no engine"):
        machine.run(draw(SoakSettings(1), 1), Path("soak-1"))
    assert waits == [0.1]


def test_what_the_engine_says_of_leftovers_ends_no_soak_with_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = machine_whose_engine_is_away(0, [], monkeypatch)

    def refuse(*_: object) -> None:
        raise docker.errors.APIError("device or resource busy")

    monkeypatch.setattr(on_machine, "remove_run", refuse)
    with pytest.raises(CouldNotRun, match="soak-1 is not cleaned up: device or resource busy"):
        machine.remove_leftovers("soak-1")


def test_an_engine_that_stays_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    monkeypatch.setattr(on_machine, "ENGINE_WITHIN_S", 0.1)
    machine = machine_whose_engine_is_away(10_000, removed, monkeypatch)
    with pytest.raises(CouldNotRun, match="no engine"):
        machine.remove_leftovers("soak-1")
    assert removed == []


def test_an_error_that_nobody_foresaw_costs_its_plan_and_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Found: a disk that fills in the middle of a plan ended the soak with a traceback."""
    removed: list[str] = []
    machine = machine_whose_engine_is_away(0, removed, monkeypatch)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    said: list[str] = []
    monkeypatch.setattr(on_machine, "run_in_containers", full)
    monkeypatch.setattr(Screen, "say", lambda self, text, **_: said.append(text))
    with pytest.raises(CouldNotRun, match=r"OSError: .*No space left on device"):
        machine.run(draw(SoakSettings(1), 1), tmp_path / "soak-1")
    assert removed == ["soak-1"]
    assert "Traceback" in said[0]


def test_what_virtual_time_cannot_show_in_time_costs_itself_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_machine, "SIMULATED_WITHIN_CPU_S", 0.3)
    drawn = next(
        each
        for each in (draw(SoakSettings(7), number) for number in range(1, 50))
        if each.client is ClientKind.OWN and each.plan.workload.producers[0].rate_per_s >= 100
    )
    told = Machine(Screen(), Path("shrunk")).simulate(drawn)
    assert told.startswith("could not be seen: TookTooLong")
