"""A planted bug that no node would have is refused in every command that takes one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from highwater.runs.plans.in_simulator import check_simulated
from highwater.runs.plans.translation import unsupported
from highwater.search.planting import NoSuchBug, PlantsNothing, bug_of, check_planting
from highwater_chaos.plan import Expected, Plan, PlanTopology
from highwater_core.config import Overrides, Preset, resolve_toggles
from highwater_planted import PLANTED

BY_TOGGLE = "truncate_to_high_watermark"
BY_FUNCTION = "truncate_nothing"
SAME: Overrides = {"truncation": "leader_epoch"}
OTHER: Overrides = {"stop_replica_leader_epoch": False}


@pytest.mark.parametrize(
    ("bug", "preset", "overrides"),
    [
        ("", Preset.V3, {}),
        (BY_FUNCTION, Preset.V3, {}),
        (BY_FUNCTION, Preset.FENCED, SAME),
        (BY_TOGGLE, Preset.FENCED, {}),
        (BY_TOGGLE, Preset.FENCED, OTHER),
    ],
)
def test_a_bug_that_nodes_would_have_is_planted(
    bug: str, preset: Preset, overrides: Overrides
) -> None:
    check_planting(bug, preset, overrides)


@pytest.mark.parametrize(
    ("bug", "preset", "overrides", "says"),
    [
        (BY_TOGGLE, Preset.V3, {}, "under preset v3 no node would have it"),
        ("stale_controller_accepted", Preset.V3, {}, "sets check_controller_epoch"),
        (BY_TOGGLE, Preset.FENCED, SAME, f"with toggles {SAME} no node"),
        (BY_TOGGLE, Preset.FENCED, {"no_such_toggle": True}, "no such toggle"),
    ],
)
def test_a_bug_that_no_node_would_have_is_refused(
    bug: str, preset: Preset, overrides: Overrides, says: str
) -> None:
    with pytest.raises(PlantsNothing, match=says):
        check_planting(bug, preset, overrides)


def test_asking_leaves_the_preset_as_it_was() -> None:
    before = resolve_toggles(Preset.FENCED)
    check_planting(BY_TOGGLE, Preset.FENCED)
    assert resolve_toggles(Preset.FENCED) == before


def test_every_bug_can_be_planted_in_the_modules_that_the_search_runs() -> None:
    for name in PLANTED:
        check_planting(name, Preset.FENCED)


def test_a_plan_names_its_bug_itself_and_another_counts_more() -> None:
    plan = Plan(seed=1, expected=Expected("fail", "I1", planted=BY_FUNCTION))
    assert bug_of(plan) == BY_FUNCTION
    assert bug_of(plan, BY_TOGGLE) == BY_TOGGLE
    assert bug_of(replace(plan, expected=None)) == ""
    with pytest.raises(NoSuchBug, match="forget_everything"):
        bug_of(plan, "forget_everything")


def test_neither_world_takes_a_plan_whose_nodes_would_not_have_its_bug() -> None:
    old_rules = PlanTopology(preset=Preset.V3)
    plan = Plan(seed=1, topology=old_rules, expected=Expected("fail", planted=BY_TOGGLE))
    with pytest.raises(PlantsNothing):
        check_simulated(plan)
    assert "under preset v3 no node" in "\n".join(unsupported(plan))
