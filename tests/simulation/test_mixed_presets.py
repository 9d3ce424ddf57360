"""Presets mixed in one cluster: what is allowed works, and what is refused would not."""

from __future__ import annotations

import pytest

from highwater_chaos import faults as f
from highwater_chaos.builds import NodeBuild
from highwater_chaos.plan import Plan, PlanTopology, Step, Topic, Workload, problems_of
from highwater_core.config import Preset
from highwater_simulator.runner import PlanRun
from highwater_simulator.unsupported import ONE_BUILD, unsupported

QUICK = {"session_timeout_ms": 1_000}


def with_broker_0_of(other: Preset, preset: Preset) -> Plan:
    """Return a plan in which two brokers die, one after the other, and come back."""
    return Plan(
        seed=1,
        topology=PlanTopology(
            preset=preset,
            broker_settings=QUICK,
            controller_settings=QUICK,
            builds={"broker-0": NodeBuild(preset=other)},
        ),
        workload=Workload((Topic(min_insync_replicas=2),)),
        steps=(
            Step(500, f.Kill("broker-1", for_ms=1_500)),
            Step(3_000, f.Kill("leader of t-0", for_ms=1_500)),
        ),
        quiet_after_ms=6_000,
    )


@pytest.mark.parametrize(
    ("other", "preset", "breaks"),
    [
        (Preset.V2, Preset.V3, "I7"),
        pytest.param(Preset.KIP101, Preset.FENCED, "L4", marks=pytest.mark.full),
    ],
)
def test_a_mix_that_is_refused_would_break_the_cluster(
    other: Preset, preset: Preset, breaks: str
) -> None:
    plan = with_broker_0_of(other, preset)
    (problem,) = problems_of(plan)
    assert "cannot be mixed" in problem
    violation = PlanRun(plan).run().violation
    assert violation is not None
    assert violation.invariant == breaks


@pytest.mark.full
@pytest.mark.parametrize(
    ("other", "preset"),
    [
        (Preset.CLASSIC, Preset.V3),
        (Preset.V3, Preset.CLASSIC),
        (Preset.KIP101, Preset.CLASSIC),
        (Preset.CLASSIC, Preset.KIP101),
        (Preset.KIP101, Preset.V3),
        (Preset.V3, Preset.KIP101),
    ],
)
def test_a_mix_that_is_allowed_outlives_its_leaders(other: Preset, preset: Preset) -> None:
    plan = with_broker_0_of(other, preset)
    assert problems_of(plan) == []
    result = PlanRun(plan).run()
    assert result.violation is None
    assert result.acknowledged > 0


def test_virtual_time_has_one_build() -> None:
    older = NodeBuild("0a1b")
    plan = Plan(
        1,
        topology=PlanTopology(builds={"any": older}),
        steps=(Step(0, f.Upgrade("broker-0", "0a1b")), Step(9, f.Upgrade("broker-0"))),
    )
    assert [each.rpartition(": ")[2] for each in unsupported(plan)] == [ONE_BUILD, ONE_BUILD]
