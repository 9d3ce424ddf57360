"""Whatever tries or measures every fault has one of each kind that containers can do."""

from __future__ import annotations

import pytest

from highwater.faults.examples import EXAMPLES, WITHOUT_EXAMPLE, example_name
from highwater.faults.support import REASONS
from highwater.runs.plans.translation import unsupported
from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, Step, Topology, problems_of


@pytest.mark.parametrize("kind", [kind for kind in f.FAULTS if kind not in REASONS])
def test_every_kind_that_containers_can_do_has_an_example(kind: type[f.Fault]) -> None:
    assert any(type(each) is kind for each in EXAMPLES) or kind in WITHOUT_EXAMPLE, (
        f"add one of {f.fault_name(kind)} to highwater/faults/examples.py: "
        "tests that kill the harness and the bench of faults take theirs from there"
    )


@pytest.mark.parametrize("fault", EXAMPLES, ids=example_name)
def test_each_example_is_possible_on_containers_and_lasts_until_it_is_taken_back(
    fault: f.Fault,
) -> None:
    plan = Plan(seed=0, topology=Topology(controllers=1), steps=(Step(0, fault),))
    assert problems_of(plan) == []
    assert unsupported(plan) == []
    assert getattr(fault, "for_ms", None) is None


def test_examples_are_told_apart_by_their_names() -> None:
    names = [example_name(each) for each in EXAMPLES]
    assert len(set(names)) == len(names)
