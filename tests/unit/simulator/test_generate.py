"""Generated plans: equal for equal seeds, with every kind of fault, and never impossible."""

from __future__ import annotations

from collections import Counter

import pytest

from highwater_broker.settings import BrokerSettings
from highwater_chaos import faults as f
from highwater_chaos.fault_problems import is_described
from highwater_chaos.plan import Observed, Plan, Step, encode_plan, node_names, problems_of
from highwater_controller.settings import ControllerSettings
from highwater_core.config import Preset
from highwater_core.events import EventKind
from highwater_core.fail_points import BROKER_FAIL_POINTS, CONTROLLER_FAIL_POINTS, FailPoint
from highwater_simulator.budget import is_losing, within_budget
from highwater_simulator.generate import _TRIGGERS, Family, generate
from highwater_simulator.group_draws import COORDINATOR

SEEDS = range(250)
PLANS: dict[Family, list[Plan]] = {
    family: [generate(seed, family=family) for seed in SEEDS] for family in Family
}
NOT_DRAWN = {"crash_loop", "limit_bandwidth", "pause_zookeeper", "upgrade"}
"""By the generator; plans that are written by hand have them."""
DISK_FAULTS = {"power_loss", "disk_full", "disk_errors", "slow_disk", "flip_bit"}


def steps(family: Family) -> list[Step]:
    return [step for plan in PLANS[family] for step in plan.steps]


@pytest.mark.parametrize("family", list(Family))
def test_equal_seeds_give_equal_plans_and_others_others(family: Family) -> None:
    again = [encode_plan(generate(seed, family=family)) for seed in SEEDS]
    assert again == [encode_plan(plan) for plan in PLANS[family]]
    assert len(set(again)) == len(again)


def test_a_preset_changes_nothing_of_a_plan_but_its_name() -> None:
    one, other = (encode_plan(generate(3, preset)) for preset in (Preset.FENCED, Preset.V3))
    assert one.replace(b'"fenced"', b'"v3"') == other


@pytest.mark.parametrize("family", list(Family))
def test_no_plan_is_impossible_or_names_a_toggle_of_history(family: Family) -> None:
    for plan in PLANS[family]:
        assert problems_of(plan) == []
        assert plan.topology.toggles in ({}, {"fast_failure_detection": True})


def test_every_kind_of_fault_comes_up_and_disks_suffer_in_their_family_only() -> None:
    found = {family: {f.fault_name(step.do) for step in steps(family)} for family in Family}
    every = {f.fault_name(kind) for kind in f.FAULTS} - NOT_DRAWN
    assert found[Family.DISKS] == every
    assert DISK_FAULTS < found[Family.JOINS] <= every
    assert found[Family.PROCESSES] == every - DISK_FAULTS
    assert not any(is_losing(step.do) for step in steps(Family.PROCESSES))


def test_a_bit_flips_in_every_kind_of_file_but_below_recovery_points() -> None:
    flips = [step.do for step in steps(Family.DISKS) if isinstance(step.do, f.FlipBit)]
    assert {flip.file for flip in flips} == set(f.FileKind) - {f.FileKind.LOG}


def test_every_trigger_comes_up_and_is_an_event_that_nodes_trace() -> None:
    conditions = [step.when for step in steps(Family.PROCESSES) if step.when is not None]
    events = {when.event for when in conditions if when.event}
    assert events >= set(_TRIGGERS)
    assert events <= {kind.value for kind in EventKind}
    assert {when.state for when in conditions} >= {
        Observed.EVENT,
        Observed.ISR_IS_LEADER,
        Observed.FOLLOWER_BEHIND,
        Observed.HIGH_WATERMARK_BEHIND,
    }


def test_every_fail_point_comes_up_on_a_node_that_has_it() -> None:
    found: set[str] = set()
    for step in steps(Family.PROCESSES):
        if isinstance(step.do, f.CrashAt | f.DelayAt):
            found.add(step.do.point)
            is_controllers = "controller" in step.do.node
            own = CONTROLLER_FAIL_POINTS if is_controllers else BROKER_FAIL_POINTS
            assert step.do.point in own
    assert found == {point.value for point in FailPoint}


def test_every_setting_is_one_that_nodes_have() -> None:
    for plan in PLANS[Family.DISKS][:40]:
        BrokerSettings(node_id=0, **plan.topology.broker_settings)
        ControllerSettings(node_id=1_000, **plan.topology.controller_settings)


@pytest.mark.parametrize("family", [Family.DISKS, Family.JOINS])
def test_at_most_one_disk_of_a_plan_loses_something_however_often(family: Family) -> None:
    losers = [
        [getattr(step.do, "node", "") for step in plan.steps if is_losing(step.do)]
        for plan in PLANS[family]
    ]
    assert {len(set(each)) for each in losers} == {0, 1}
    assert all(len(each) < 2 or not is_described(each[0]) for each in losers)
    assert sum(bool(each) for each in losers) > len(SEEDS) // 3


def test_the_budget_keeps_the_first_loss_and_all_that_loses_nothing() -> None:
    kill, wipe = f.Kill("broker-0"), f.Kill("broker-1", disk=f.DiskAtStart.EMPTY)
    power, flip = f.PowerLoss("broker-0"), f.FlipBit("broker-1", f.FileKind.INDEX)
    given = tuple(Step(number, fault) for number, fault in enumerate((kill, wipe, power, kill)))
    assert within_budget(given) == (given[0], given[1], given[3])
    assert within_budget((Step(0, flip), Step(1, power))) == (Step(0, flip),)


def test_the_budget_keeps_all_losses_of_one_disk_but_not_of_who_may_be_another() -> None:
    power, flip = f.PowerLoss("broker-1"), f.FlipBit("broker-1", f.FileKind.LOG_TAIL)
    same = (Step(0, power), Step(1, flip), Step(2, power))
    assert within_budget(same) == same
    leaders = f.PowerLoss("leader of t-0")
    assert within_budget((Step(0, leaders), Step(1, leaders))) == (Step(0, leaders),)


def test_a_record_that_one_disk_loses_is_on_two_where_disks_suffer() -> None:
    for plan in (*PLANS[Family.DISKS], *PLANS[Family.JOINS]):
        assert min(topic.least_in_sync for topic in plan.workload.topics) >= 2
        changed = [step.do for step in plan.steps if isinstance(step.do, f.ChangeConfig)]
        minima = [int(each.value) for each in changed if each.key == "min.insync.replicas"]
        assert min(minima, default=2) >= 2


def test_plans_about_joining_have_a_replica_to_spare_and_half_probe_shrinking() -> None:
    for plan in PLANS[Family.JOINS]:
        assert plan.steps
        for topic in plan.workload.topics:
            assert topic.replication_factor > topic.min_insync_replicas
    probing = {family: sum(plan.probes_shrinking for plan in PLANS[family]) for family in Family}
    assert probing.pop(Family.JOINS) in range(100, 150)
    assert set(probing.values()) == {0}


def test_cores_leave_one_node_behind_or_none_and_never_the_only_controller() -> None:
    left_behind = Counter[int]()
    for plan in PLANS[Family.PROCESSES]:
        missing = [name for name in node_names(plan.topology) if name not in plan.core]
        if plan.core:
            assert len(missing) == 1
            assert any("controller" in name for name in plan.core)
        left_behind[len(missing) if plan.core else 0] += 1
    assert min(left_behind[0], left_behind[1]) > len(SEEDS) // 5


def test_steps_are_in_the_order_of_their_times() -> None:
    for plan in PLANS[Family.DISKS]:
        times = [step.at_ms for step in plan.steps]
        assert times == sorted(times)


@pytest.mark.parametrize("family", list(Family))
def test_groups_come_up_with_faults_of_coordinators_and_members(family: Family) -> None:
    with_groups = [plan for plan in PLANS[family] if plan.workload.groups]
    assert 0.15 < len(with_groups) / len(PLANS[family]) < 0.35
    faults = [step.do for plan in with_groups for step in plan.steps]
    assert COORDINATOR in {getattr(fault, "node", "") for fault in faults}
    assert any(isinstance(each, f.KillClient) and each.client == "g0m0" for each in faults)
    groups = [group for plan in with_groups for group in plan.workload.groups]
    assert {bool(group.stays_ms) for group in groups} == {True, False}


@pytest.mark.parametrize("family", list(Family))
def test_brokers_have_several_log_folders_now_and_then_and_any_of_them_fails(
    family: Family,
) -> None:
    several = [plan for plan in PLANS[family] if plan.topology.log_folders_per_broker > 1]
    assert 0.05 < len(several) / len(PLANS[family]) < 0.2
    assert {plan.topology.log_folders_per_broker for plan in several} == {2, 3}
    faults = [step.do for plan in several for step in plan.steps]
    assert {each.folder for each in faults if isinstance(each, f.FailFolder)} >= {0, 1}
