"""The plans that a soak draws from its seed."""

from __future__ import annotations

import re

import pytest

from highwater.errors import HarnessError
from highwater.runs.plans.translation import unsupported
from highwater.soak.draws import STRETCH, SoakSettings, draw, topology_of
from highwater_chaos import faults
from highwater_chaos.plan import Plan, encode_plan, problems_of
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


def test_rounds_on_one_cluster_have_one_topology_and_names_of_their_own() -> None:
    settings = SoakSettings(seed=7, one_cluster=True)
    drawn = [draw(settings, number) for number in NUMBERS]
    for each in drawn:
        assert problems_of(each.plan) == []
        assert unsupported(each.plan) == []
        assert each.plan.topology == topology_of(settings)
        workload = each.plan.workload
        assert {topic.name for topic in workload.topics} == {f"t{each.number}"}
        clients = (*workload.producers, *workload.consumers, *workload.groups)
        assert {client.topic for client in clients} == {f"t{each.number}"}
    assert len({words for each in drawn for words in _partitions_named(each.plan)}) > 20
    groups = [group.group_id for each in drawn for group in each.plan.workload.groups]
    assert len(groups) > 10
    assert len(set(groups)) == len(groups)


def test_in_half_of_all_stretches_no_node_of_one_cluster_is_killed() -> None:
    settings = SoakSettings(seed=7, one_cluster=True)
    ends = (faults.Kill, faults.CrashLoop, faults.Terminate)
    kills = [
        any(isinstance(step.do, ends) for step in draw(settings, number).plan.steps)
        for number in range(1, 2 * STRETCH + 1)
    ]
    half = STRETCH // 2
    for first in (0, STRETCH):
        assert any(kills[first : first + half])
        assert not any(kills[first + half : first + STRETCH])


def test_one_cluster_needs_controllers_who_delete_its_topics() -> None:
    with pytest.raises(HarnessError, match="preset v2 has no controllers"):
        draw(SoakSettings(seed=7, one_cluster=True, presets=(Preset.V2,)), 1)


def _partitions_named(plan: Plan) -> set[str]:
    words = encode_plan(plan).decode()
    found = set(re.findall(r" of (t[0-9]*-[0-9]+)", words))
    assert all(each.startswith(f"{plan.workload.topics[0].name}-") for each in found)
    return found
