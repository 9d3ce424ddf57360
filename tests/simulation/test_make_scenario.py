"""A scenario that is made from a plan keeps the plan's expectations."""

from __future__ import annotations

from msgspec.structs import replace

from highwater.project import project_root
from highwater.runs.plans.scenarios import make_scenario
from highwater_chaos.plan import Expected, decode_plan

LEADER_KILLED = project_root() / "tests" / "scenarios" / "leader_killed.json"


def test_a_scenario_keeps_the_least_that_its_plan_asks_for() -> None:
    asked = Expected("pass", least_acknowledged=3, least_takeovers=1, with_every_fix="mended")
    plan = replace(decode_plan(LEADER_KILLED.read_bytes()), expected=asked)
    made = make_scenario(plan).expected
    assert made == asked
