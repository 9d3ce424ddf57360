"""The parts of a plan that the simulator cannot do, with reasons. A table."""

from __future__ import annotations

from collections.abc import Mapping

from highwater_chaos import faults as f
from highwater_chaos.builds import THIS
from highwater_chaos.plan import Plan
from highwater_chaos.words import say_step

REASONS: Mapping[type[f.Fault], str] = {
    f.LimitBandwidth: "its links have latency and loss, and no bandwidth",
    f.PauseZooKeeper: "which sessions outlast it is a race of ZooKeeper's own threads",
}
ONE_BUILD = "its nodes run the code that is imported here, and no image"
OF_ALL_NODES = "a planted bug is in all of its nodes to the end"


def unsupported(plan: Plan) -> list[str]:
    """Return the parts of the plan that the simulator cannot do, one line each."""
    found = [
        f"unsupported in the simulator: {node} begins with image {build.image}: {ONE_BUILD}"
        for node, build in plan.topology.builds.items()
        if build.image != THIS
    ]
    return found + [
        f"unsupported in the simulator: {say_step(step)}: {reason}"
        for step in plan.steps
        if (reason := _why_not(plan, step.do))
    ]


def _why_not(plan: Plan, fault: f.Fault) -> str:
    if isinstance(fault, f.Upgrade):
        if fault.image != THIS:
            return ONE_BUILD
        return OF_ALL_NODES if plan.planted else ""
    return REASONS.get(type(fault), "")
