"""The plans that a soak draws from its seed."""

from __future__ import annotations

import pytest

from highwater.errors import HarnessError
from highwater.runs.plans.translation import unsupported
from highwater.soak.draws import SoakSettings, draw
from highwater_chaos.plan import encode_plan, problems_of
from highwater_chaos.random_kinds import Kind
from highwater_core.config import Preset

NUMBERS = range(1, 41)


def test_equal_settings_and_numbers_give_equal_plans_and_others_others() -> None:
    settings = SoakSettings(seed=7)
    plans = [encode_plan(draw(settings, number).plan) for number in NUMBERS]
    assert plans == [encode_plan(draw(settings, number).plan) for number in NUMBERS]
    assert len(set(plans)) == len(plans)
    assert encode_plan(draw(SoakSettings(seed=8), 1).plan) != plans[0]


def test_plans_have_several_clusters_clients_and_sizes_and_all_can_run_on_containers() -> None:
    settings = SoakSettings(seed=7, presets=(Preset.FENCED, Preset.V3))
    drawn = [draw(settings, number) for number in NUMBERS]
    for each in drawn:
        assert problems_of(each.plan) == []
        assert unsupported(each.plan) == []
        assert each.plan.steps
    topologies = [each.plan.topology for each in drawn]
    assert {each.preset for each in topologies} == {Preset.FENCED, Preset.V3}
    assert {each.brokers for each in topologies} == {3, 4}
    assert {each.controllers for each in topologies} == {1, 2, 3}
    assert {each.client for each in drawn} == set(settings.clients)
    rates = {p.rate_per_s for each in drawn for p in each.plan.workload.producers}
    assert max(rates) >= 400
    assert {p.value_bytes for each in drawn for p in each.plan.workload.producers} == {0, 100, 4000}


def test_plans_of_brokers_that_elect_leaders_themselves_need_no_controller() -> None:
    drawn = [draw(SoakSettings(seed=7, presets=(Preset.V2,)), number) for number in NUMBERS]
    words = " ".join(encode_plan(each.plan).decode() for each in drawn)
    assert "active controller" not in words


def test_no_room_for_any_fault_is_told() -> None:
    most = tuple(kind for kind in Kind if kind is not Kind.FLAP)
    with pytest.raises(HarnessError, match="plan 1 of seed 7"):
        draw(SoakSettings(seed=7, without=most, longest_ms=10_000), 1)
