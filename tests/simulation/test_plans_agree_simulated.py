"""The plans of tests/plans in the simulator: each has the same result as in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_simulator import run_in_simulator
from highwater.runs.plans.running import read_plan
from highwater.runs.plans.translation import unsupported
from highwater_core.config import Preset
from tests.plans.agreement import PLANS, SITUATIONS, assert_shown


def test_eleven_plans_of_which_five_fail_each_with_a_situation_of_its_own_to_reach() -> None:
    assert {path.stem for path in PLANS} == set(SITUATIONS)
    plans = [read_plan(path) for path in PLANS]
    expected = [plan.expected for plan in plans if plan.expected is not None]
    failing = [each for each in expected if each.verdict == "fail"]
    assert (len(plans), len(expected)) == (11, 11)
    assert len(failing) >= 5
    assert all(each.invariant for each in failing)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_plan_file_can_be_run_by_containers(path: Path) -> None:
    plan = read_plan(path)
    assert plan.title
    assert unsupported(plan) == []
    if plan.topology.preset is Preset.V3 and plan.expected and plan.expected.verdict == "fail":
        assert plan.expected.rows, "what v3 loses is named"


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_plan_shows_its_expected_findings_in_the_simulator(path: Path, tmp_path: Path) -> None:
    plan = read_plan(path)
    with Screen() as screen:
        result = run_in_simulator(plan, RunFolder(tmp_path / "run"), screen)
    assert_shown(path.stem, plan, result)
