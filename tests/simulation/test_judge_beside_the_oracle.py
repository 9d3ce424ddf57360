"""The judge of a run's files agrees with the oracle, which sees every event as it happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater_checker.judging import judge_run
from highwater_checker.run_folder.documents import REQUIREMENTS, WATCHED
from highwater_checker.verdict import Outcome, Verdict, judge
from highwater_core.config import Preset
from highwater_simulator.generate import Family, generate
from highwater_simulator.search import Schedule, schedules_of


def id_of(schedule: Schedule) -> str:
    return f"{schedule.family}-{schedule.seed}"


def both(schedule: Schedule, preset: Preset, folder: Path) -> tuple[Verdict, Verdict]:
    """Return what the oracle says of the schedule, and what the judge says of its files."""
    plan = generate(schedule.seed, preset, schedule.family)
    with Screen() as screen:
        result = run_in_simulator(plan, RunFolder(folder), screen)
    assert judge_run(folder) == result.verdict
    watched, requirements = WATCHED.read(folder), REQUIREMENTS.read(folder)
    assert watched is not None
    assert requirements is not None
    return judge([watched], requirements), result.verdict


@pytest.mark.parametrize("schedule", schedules_of(1, 16, tuple(Family)), ids=id_of)
def test_under_fenced_they_say_the_same(schedule: Schedule, tmp_path: Path) -> None:
    by_oracle, by_judge = both(schedule, Preset.FENCED, tmp_path / "run")
    assert by_judge.outcome is by_oracle.outcome, by_judge.reasons


@pytest.mark.parametrize("schedule", schedules_of(1001, 8, tuple(Family)), ids=id_of)
def test_under_v3_what_the_judge_finds_besides_has_its_row(
    schedule: Schedule, tmp_path: Path
) -> None:
    """By traces, an obedient cut after an unclean election is one of a member (row 1)."""
    by_oracle, by_judge = both(schedule, Preset.V3, tmp_path / "run")
    assert by_oracle.outcome is not Outcome.FAIL or by_judge.outcome is Outcome.FAIL
    found = [finding for check in by_judge.checks for finding in check.findings]
    if by_oracle.outcome is not Outcome.FAIL:
        assert all(finding.rows for finding in found), by_judge.reasons
