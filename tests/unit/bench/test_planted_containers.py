"""The table of planted bugs in containers: counts and sums by bug, controls apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from bench import planted_containers
from bench.machine import Machine
from bench.planted_containers import (
    PlantedResult,
    markdown,
    read_runs,
    table_rows,
    wanted_plans,
)
from highwater.errors import HarnessError
from highwater.runs.chaos.detecting import Detection
from highwater.runs.chaos.planted_plans import CONTROLS, PLANTED_PLANS
from highwater_checker.verdict import Outcome

MACHINE = Machine("a processor", 2, 8.0, "6.1", "20.10", "3.11", "2.0", 1.0, 1.5)


def ran(bug: str, outcome: Outcome, to_verdict_s: float, violation_s: float | None) -> Detection:
    named = ("I1",) if outcome is Outcome.FAIL else ()
    invariant = "I1" if bug else ""
    return Detection(bug, "killed", invariant, outcome, named, to_verdict_s, violation_s)


RUNS = (
    ran("early", Outcome.FAIL, 30.0, 4.0),
    ran("", Outcome.PASS, 20.0, None),
    ran("early", Outcome.PASS, 34.0, None),
    ran("early", Outcome.FAIL, 40.0, 6.0),
)


def test_a_row_counts_right_runs_and_gives_medians_of_their_measures() -> None:
    assert table_rows(RUNS) == [
        ["`early`", "I1", "2 of 3", "34.0", "5.00"],
        ["none: killed", "must pass", "passed 1 of 1", "20.0", "–"],
    ]


def test_runs_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "planted.json"
    path.write_bytes(msgspec.json.encode(PlantedResult("today", MACHINE, RUNS)))
    assert read_runs(path) == RUNS
    assert "| `early` | I1 | 2 of 3 | 34.0 | 5.00 |" in markdown(
        PlantedResult("today", MACHINE, RUNS)
    )


def test_all_plans_are_wanted_or_those_that_are_named() -> None:
    assert len(wanted_plans([])) == len(PLANTED_PLANS) + len(CONTROLS)
    assert [plan.planted for plan in wanted_plans(["truncate_nothing"])] == ["truncate_nothing"]
    assert [plan.planted for plan in wanted_plans(["none"])] == [""] * len(CONTROLS)
    with pytest.raises(HarnessError, match="no_such"):
        wanted_plans(["no_such"])


def test_an_interrupted_measurement_keeps_every_run_that_was_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def measured(*_: object) -> Iterator[Detection]:
        yield from RUNS[:2]
        raise KeyboardInterrupt

    engine = SimpleNamespace(version=lambda: {"Version": "20.10"})
    monkeypatch.setattr(planted_containers, "measure", measured)
    monkeypatch.setattr(planted_containers, "connect_engine", lambda: engine)
    path = tmp_path / "not there yet" / "planted.json"
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            planted_containers.bench_planted(repeat=5, bug=None, results=path, into=None)
    assert read_runs(path) == RUNS[:2] * 2
