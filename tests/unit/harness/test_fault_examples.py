"""Every fault that containers can do has an example, for tests and benches of all."""

from __future__ import annotations

import pytest

from highwater.faults.examples import EXAMPLES, example_name
from highwater.faults.kind import Kind
from highwater.faults.kinds import ROWS
from highwater.runs.plans.translation import unsupported
from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, PlanTopology, Step, problems_of


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f.fault_name(row.fault))
def test_every_kind_that_containers_can_do_has_an_example_or_says_why_not(
    row: Kind[f.Fault],
) -> None:
    assert bool(row.unsupported) + bool(row.no_example) + bool(row.examples) == 1
    assert all(type(each) is row.fault for each in row.examples)


@pytest.mark.parametrize("fault", EXAMPLES, ids=example_name)
def test_each_example_is_possible_on_containers_and_lasts_until_it_is_taken_back(
    fault: f.Fault,
) -> None:
    plan = Plan(seed=0, topology=PlanTopology(controllers=1), steps=(Step(0, fault),))
    assert problems_of(plan) == []
    assert unsupported(plan) == []
    assert getattr(fault, "for_ms", None) is None


def test_examples_have_different_names() -> None:
    names = [example_name(each) for each in EXAMPLES]
    assert len(set(names)) == len(names)
