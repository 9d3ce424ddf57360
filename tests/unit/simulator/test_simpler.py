"""Fewer nodes: names in steps and core are replaced by names of remaining nodes."""

from __future__ import annotations

import pytest

from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Step, problems_of
from highwater_simulator.simpler import with_brokers, with_controllers, with_log_folders

B0, B1, B2, B3 = (f"broker-{number}" for number in range(4))
C0, C1, C2 = (f"controller-{number}" for number in range(1000, 1003))


def plan(core: tuple[str, ...], *killed: str) -> Plan:
    steps = tuple(Step(0, f.Kill(node)) for node in killed)
    return Plan(1, topology=PlanTopology(brokers=4, controllers=3), steps=steps, core=core)


@pytest.mark.parametrize(
    ("before", "count", "core", "killed"),
    [
        (plan((B0, B1, C1)), 1, (B0, B1, C0), []),
        (plan((B0, B1, C1), C1), 1, (B0, B1, C0), [C0]),
        (plan((B0, B1, C2), C0), 2, (B0, B1, C0), [C0]),
        (plan((B0, B1, C0, C2), C0), 2, (B0, B1, C0), [C0]),
        (plan((B0, B1, C0, C2), C0, C2), 2, (B0, B1, C0, C1), [C0, C1]),
        (plan((B0, B1, B2, B3, C0, C1), C2), 2, (), [C0]),
        (plan(()), 1, (), []),
    ],
)
def test_a_core_keeps_a_controller(
    before: Plan, count: int, core: tuple[str, ...], killed: list[str]
) -> None:
    after = with_controllers(before, count)
    assert problems_of(after) == []
    assert after.core == core
    assert [step.do.node for step in after.steps] == killed  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("before", "count", "core"),
    [
        (plan((B3, C1)), 3, (B0, C1)),
        (plan((B0, B1, B3, C1)), 3, (B0, B1, C1)),
        (plan((B1, B3, C1), B3), 3, (B0, B1, C1)),
        (plan((B1, B2, C0)), 1, (B0, C0)),
    ],
)
def test_a_core_keeps_a_broker(before: Plan, count: int, core: tuple[str, ...]) -> None:
    after = with_brokers(before, count)
    assert problems_of(after) == []
    assert after.core == core


def test_a_core_that_became_all_nodes_is_no_core() -> None:
    everyone = (B0, B1, B2, B3, C1)
    assert with_controllers(plan(everyone), 1).core == ()


def test_the_folder_that_fails_is_among_the_log_folders_that_are_left() -> None:
    first, last = (Step(0, f.FailFolder(B0, folder=folder)) for folder in (0, 2))
    steps = first, last, Step(0, f.Kill(B0))
    three = Plan(1, topology=PlanTopology(log_folders_per_broker=3), steps=steps)
    two, one = with_log_folders(three, 2), with_log_folders(three, 1)
    assert [problems_of(each) for each in (three, two, one)] == [[], [], []]
    for plan_left, folders in ((two, [0, 1]), (one, [None, None])):
        failing = [each.do for each in plan_left.steps if isinstance(each.do, f.FailFolder)]
        assert [each.folder for each in failing] == folders
        assert plan_left.steps[-1] == three.steps[-1]
