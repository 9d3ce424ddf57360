"""Plans for clusters whose brokers command themselves: others' plans, without their controllers."""

from __future__ import annotations

from msgspec.structs import asdict, replace

from highwater_chaos import faults as f
from highwater_chaos.plan import Plan, Step
from highwater_core.config import Preset
from highwater_core.fail_points import CONTROLLER_FAIL_POINTS

_NOT_SERVED = (f.ElectPreferred,)
"""Admin requests that only a controller serves."""
_CONTROL = "control"


def without_controllers(plan: Plan, preset: Preset) -> Plan:
    """Return the plan under that preset, without the steps that need a controller."""
    core = tuple(name for name in plan.core if "controller" not in name)
    return replace(
        plan,
        topology=replace(plan.topology, preset=preset, controller_settings={}, toggles={}),
        steps=tuple(step for step in plan.steps if not _needs_controller(step)),
        core=() if len(core) == plan.topology.brokers else core,
    )


def _needs_controller(step: Step) -> bool:
    if isinstance(step.do, _NOT_SERVED):
        return True
    words = [value for value in asdict(step.do).values() if isinstance(value, str)]
    if isinstance(step.do, f.CrashAt | f.DelayAt):
        return step.do.point in {point.value for point in CONTROLLER_FAIL_POINTS} or any(
            "controller" in word for word in words
        )
    return any("controller" in word or word == _CONTROL for word in words) or (
        step.when is not None and "controller" in step.when.node
    )
