"""The parts of a plan that the simulator cannot do, with reasons. A table."""

from __future__ import annotations

from collections.abc import Mapping

from highwater_chaos import faults as f
from highwater_chaos.plan import Plan
from highwater_chaos.words import say_step

REASONS: Mapping[type[f.Fault], str] = {
    f.LimitBandwidth: "its links have latency and loss, and no bandwidth",
    f.PauseZooKeeper: "which sessions outlast it is a race of ZooKeeper's own threads",
}


def unsupported(plan: Plan) -> list[str]:
    """Return the parts of the plan that the simulator cannot do, one line each."""
    return [
        f"unsupported in the simulator: {say_step(step)}: {reason}"
        for step in plan.steps
        if (reason := REASONS.get(type(step.do)))
    ]
