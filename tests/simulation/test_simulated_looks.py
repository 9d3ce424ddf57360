"""Observing a simulated run: it changes nothing, and shows the steps and their effects."""

from __future__ import annotations

import io
from itertools import pairwise

from rich.console import Console

from highwater.report.observation import active_controller
from highwater.report.screen import Screen
from highwater.runs.plans.simulated_looks import LOOK_EVERY_NS, SimulatedObserver
from highwater_chaos import faults as f
from highwater_chaos.plan import Network, Plan, PlanTopology, Step
from highwater_checker.looks import leaderships
from highwater_core.ids import TopicPartition
from highwater_simulator.runner import PlanRun, run_plan

SESSION = {"session_timeout_ms": 1_000}
KILL = Step(500, f.Kill("leader of t-0", 2_500))
PLAN = Plan(
    seed=3,
    topology=PlanTopology(broker_settings=SESSION, controller_settings=SESSION),
    network=Network(shuffles_ties=True),
    steps=(KILL,),
    quiet_after_ms=4_000,
)


def test_a_run_that_is_looked_at_is_the_same_run() -> None:
    told = io.StringIO()
    run = PlanRun(PLAN)
    observer = SimulatedObserver(run.world, PLAN.steps, Screen(Console(file=told, width=200)))
    result = run.run()
    assert result.passed
    assert result.digest() == run_plan(PLAN).digest()
    assert result.events == run_plan(PLAN).events

    times = [look.time_ns for look in observer.looks]
    assert all(after - before >= LOOK_EVERY_NS for before, after in pairwise(times))
    assert len(times) > result.simulated_ns // (2 * LOOK_EVERY_NS)
    led = [leaderships(look).get(TopicPartition("t", 0)) for look in observer.looks]
    assert {each.leader_epoch for each in led if each is not None} >= {0, 1}
    assert active_controller(observer.looks[-1]) is not None

    lines = told.getvalue().splitlines()
    assert any("kill leader of t-0, started again after 2500 ms (node" in line for line in lines)
    assert any("leads at leader_epoch 1" in line for line in lines)
