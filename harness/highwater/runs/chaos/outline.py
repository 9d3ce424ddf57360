"""A plan in words, without a cluster: its steps, their times and targets, and obstacles.

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater.runs.plans.translation import differences, unsupported
from highwater_chaos import faults as f
from highwater_chaos.fault_problems import is_described
from highwater_chaos.guard import STOPPING_MS, acting_of, budget_of, problems_with_quorum
from highwater_chaos.plan import Plan, Step, problems_of
from highwater_chaos.words import say_fault, say_plan, say_when


def problems_in_containers(plan: Plan) -> list[str]:
    """Return why containers cannot run the plan, one line each; empty when they can."""
    return problems_of(plan) + unsupported(plan)


def outline(plan: Plan) -> Iterator[str]:
    """Yield the cluster, its load, each step's time, fault and target, and nodes out at once."""
    steps = len(plan.steps)
    said = list(say_plan(plan))
    yield from said[: len(said) - steps - 1]
    for step in plan.steps:
        yield f"{_span(step, plan.quiet_after_ms)}  {say_fault(step.do)}; acts on {_whom(step.do)}"
    yield said[-1]
    yield from about_quorum(plan)


def about_quorum(plan: Plan) -> Iterator[str]:
    """Yield whether the quorum is kept, and the times at which it is not."""
    problems = problems_with_quorum(plan)
    if problems:
        yield from problems
    else:
        yield f"the quorum is kept: at most {budget_of(plan)} are out at once"


def notes(plan: Plan) -> Iterator[str]:
    """Yield the differences between the plan and its run on containers."""
    for difference in differences(plan):
        yield f"unlike the plan: {difference}"


def _span(step: Step, quiet_after_ms: int) -> str:
    acting = acting_of(step, quiet_after_ms)
    end_ms = acting.end_ms - (STOPPING_MS if isinstance(step.do, f.Terminate) else 0)
    begin = f"{acting.begin_ms / 1000:7.2f} s"
    if step.when is not None:
        return f"{begin} or later, once {say_when(step.when)}:"
    if acting.begin_ms == acting.end_ms:
        return f"{begin}:"
    return f"{begin} to {end_ms / 1000:7.2f} s:"


def _whom(fault: f.Fault) -> str:
    if isinstance(fault, f.KillClient):
        return "the clients"
    source, target = getattr(fault, "source", None), getattr(fault, "target", None)
    if source is None or target is None:
        node = getattr(fault, "node", None)
        return "the cluster" if node is None else _say_node(node)
    ways = [(source, target)]
    if isinstance(fault, f.Cut) and fault.both_ways:
        ways.append((target, source))
    plane = getattr(fault, "plane", "")
    return " and ".join(
        f"what {_say_node(to)} receives from {_say_node(of)} on {plane}" for of, to in ways
    )


def _say_node(words: str) -> str:
    if words == f.ANY:
        return "everyone"
    return f"whoever is {words} then" if is_described(words) else words
