"""The plans of tests/plans in containers: each has the same result as in the simulator.

tests/simulation/test_plans_agree_simulated.py tests the same files by the same expectations. A plan
takes a cluster of its own and half a minute, so most plans run in the full matrix only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.runs.plans.running import read_plan
from tests.integration.plan_runs import run_plan
from tests.plans.agreement import PLANS, assert_shown

pytestmark = pytest.mark.docker

ALWAYS = ("slow_follower_then_the_leader_dies",)
"""A plan that v3 fails by a documented bug; test_planted_bugs_in_containers has planted bugs."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in ALWAYS else pytest.mark.full)
        for path in PLANS
    ],
)
def test_plan_shows_what_it_expects_in_containers(path: Path, tmp_path: Path) -> None:
    plan = read_plan(path)
    result = run_plan(plan, tmp_path)
    assert_shown(path.stem, plan, result)
