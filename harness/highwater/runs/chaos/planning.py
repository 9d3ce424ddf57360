"""Makes a plan from the command line's options, and checks it for the simulator."""

from __future__ import annotations

from dataclasses import replace

from highwater.errors import HarnessError
from highwater.search.planting import problems_with_bug
from highwater_chaos.plan import Plan
from highwater_chaos.random_plan import NoRoom, Wanted, random_plan
from highwater_core.config import Preset, has_controllers
from highwater_core.ports import Rng


def plan_of(wanted: Wanted) -> Plan:
    """Return the plan of a seed and its options; equal ones give equal plans.

    Raises:
        HarnessError: no fault of these kinds fits into it.
    """
    from highwater_simulator.rng import SeededRng

    try:
        return plan_for_preset(wanted, SeededRng(wanted.seed).stream("chaos"))
    except NoRoom as error:
        raise HarnessError(str(error)) from error


def plan_for_preset(wanted: Wanted, rng: Rng) -> Plan:
    """Return a random plan; without steps that need a controller where the preset has none.

    Raises:
        NoRoom: no fault of these kinds fits into it.
    """
    if has_controllers(wanted.preset):
        return random_plan(wanted, rng)
    from highwater_simulator.without_controllers import without_controllers

    drawn = random_plan(replace(wanted, preset=Preset.FENCED), rng)
    plan = without_controllers(drawn, wanted.preset)
    if not plan.steps:
        raise NoRoom("every fault that was drawn needs a controller; another seed may do")
    return plan


def problems_in_simulator(plan: Plan) -> list[str]:
    """Return why the simulator cannot run the plan, one line each; empty when it can."""
    from highwater_simulator.unsupported import unsupported

    return unsupported(plan) + problems_with_bug(plan)
