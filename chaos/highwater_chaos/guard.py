"""The quorum guard: counts the nodes that a plan takes out at once, and bounds them. Pure.

A node is out while it is down, is paused, is cut off, has a full, failing or slow disk, or waits at
a fail-point for a second or more. A node that is cut off from ZooKeeper is out, and so is a broker
that is cut off from its clients. Of two nodes that are cut off from each other one is out: the
guard chooses so that the fewest are. A link counts as cut if it loses half of its packets, is slow
by a second or is half open. A ZooKeeper that is slow by a second counts as away. Links that lose or
delay less take no node out.
At most (replication factor - min.insync.replicas) brokers may be out at once, and not all
controllers. Then every partition can be written to, and a controller can elect leaders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from highwater_chaos import faults as f
from highwater_chaos.fault_problems import is_described
from highwater_chaos.plan import Plan, Step, node_names
from highwater_chaos.words import say_step

STOPPING_MS = 3_000
"""How long a node may take to stop, before its time down begins."""
UPGRADING_MS = 2 * STOPPING_MS
"""How long a node may take to stop, and to serve again with another image."""
CUT_BY_LOSS_PERCENT = 50
"""From here on a lossy link counts as cut."""
CUT_BY_LATENCY_MS = 1_000
"""From here on a slow link counts as cut."""
AWAY_BY_DELAY_MS = 1_000
"""From here on a slow ZooKeeper counts as away: two such replies outlast a session's least time."""
OUT_BY_DELAY_MS = 1_000
"""From here on a node that waits at a fail-point counts as out."""
_Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Acting:
    """When a step acts, if it begins in time: [begin_ms, end_ms) of the plan's time."""

    step: Step
    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Budget:
    """The number of nodes that may be out at once."""

    brokers: int
    controllers: int

    def __str__(self) -> str:
        return f"{self.brokers} of the brokers and {self.controllers} of the controllers"


def budget_of(plan: Plan) -> Budget:
    """Return the guard's budget for the plan's cluster and all of its topics."""
    spare = [topic.replication_factor - topic.min_insync_replicas for topic in plan.workload.topics]
    return Budget(max(0, min(spare, default=0)), plan.topology.controllers - 1)


def acting_of(step: Step, quiet_after_ms: int) -> Acting:
    """Return the time in which the step acts.

    A step with a condition may act at any moment from its time on. One that is never undone acts to
    the end; one that is over at once has no length.
    """
    fault = step.do
    for_ms: int | None = getattr(fault, "for_ms", 0)
    if isinstance(fault, f.CrashAt):
        # Armed for for_ms, and down from some moment of this time on.
        restart_ms = fault.restart_after_ms
        for_ms = None if for_ms is None or restart_ms is None else for_ms + restart_ms
    if isinstance(fault, f.DelayAt) and for_ms is not None:
        for_ms += fault.delay_ms  # it may be reached at the end of its time
    if isinstance(fault, f.Terminate) and for_ms is not None:
        for_ms += STOPPING_MS
    if isinstance(fault, f.Upgrade):
        for_ms = UPGRADING_MS
    if for_ms is None or step.when is not None:
        return Acting(step, step.at_ms, max(step.at_ms, quiet_after_ms))
    return Acting(step, step.at_ms, step.at_ms + for_ms)


def problems_with_quorum(plan: Plan, *, recovery_ms: int = 0) -> list[str]:
    """Return the steps at whose beginnings too many nodes are out; empty when there are none.

    recovery_ms: how long a node still counts as out after its fault.
    """
    steps = [acting_of(step, plan.quiet_after_ms) for step in plan.steps]
    budget = budget_of(plan)
    names = node_names(plan.topology)
    problems: list[str] = []
    for at_ms in sorted({each.begin_ms for each in steps}):
        together = [
            each.step
            for each in steps
            if each.begin_ms <= at_ms < max(each.end_ms, each.begin_ms + 1) + recovery_ms
        ]
        if not _is_within(together, names, budget):
            said = "; ".join(say_step(step) for step in together)
            problems.append(f"more are out at {at_ms} ms than {budget}: {said}")
    return problems


def _is_within(steps: Sequence[Step], names: Sequence[str], budget: Budget) -> bool:
    """Return whether these steps together stay within the budget."""
    out: set[str] = set()
    edges: list[_Edge] = []
    for number, step in enumerate(steps):
        fault = _as_it_counts(step.do)
        out |= _out_by_themselves(fault, names, number)
        edges += _cut_between(fault, names, number)
    brokers = sum(not _is_controller(node) for node in out)
    left = Budget(budget.brokers - brokers, budget.controllers - (len(out) - brokers))
    if left.brokers < 0 or left.controllers < 0:
        return False
    return _is_covered([edge for edge in edges if not out.intersection(edge)], left)


def _is_covered(edges: Sequence[_Edge], left: Budget) -> bool:
    """Return whether so many nodes include an end of every cut."""
    if not edges:
        return True
    for node in edges[0]:
        if _is_controller(node):
            less = Budget(left.brokers, left.controllers - 1)
        else:
            less = Budget(left.brokers - 1, left.controllers)
        rest = [edge for edge in edges if node not in edge]
        if min(less.brokers, less.controllers) >= 0 and _is_covered(rest, less):
            return True
    return False


def _as_it_counts(fault: f.Fault) -> f.Fault:
    """Return the simpler fault for which the guard counts this one, or the fault itself."""
    match fault:
        case f.LossyLink() if fault.loss_percent >= CUT_BY_LOSS_PERCENT:
            return f.Cut(fault.source, fault.target, fault.plane)
        case f.SlowLink() if fault.latency_ms >= CUT_BY_LATENCY_MS:
            return f.Cut(fault.source, fault.target, fault.plane)
        case f.HalfOpen():
            return f.Cut(fault.source, fault.target, fault.plane)
        case f.SlowZooKeeper() if fault.delay_ms >= AWAY_BY_DELAY_MS:
            return f.RestartZooKeeper()
        case f.PauseZooKeeper():
            return f.RestartZooKeeper()
        case _:
            return fault


def _out_by_themselves(fault: f.Fault, names: Sequence[str], number: int) -> set[str]:
    match fault:
        case f.Kill() | f.Terminate() | f.Pause() | f.PowerLoss() | f.FlipBit() | f.Isolate():
            return {_node(fault.node, number)}
        case f.Upgrade():
            return {_node(fault.node, number)}
        case f.ExpireSession():  # out until it has registered again
            return {_node(fault.node, number)}
        case f.CrashLoop():  # its starts in between are short
            return {_node(fault.node, number)}
        case f.CrashAt():  # armed, it may die at any moment
            return {_node(fault.node, number)}
        case f.DelayAt() if fault.delay_ms >= OUT_BY_DELAY_MS:
            return {_node(fault.node, number)}
        case (
            f.DiskFull() | f.DiskErrors() | f.FailFolder() | f.SlowDisk()
        ):  # the broker may stop, or leave the ISR
            return {_node(fault.node, number)}
        case f.RestartZooKeeper():
            return set(names)
        case f.Cut(plane="zookeeper"):
            ends = [end for end in (fault.source, fault.target) if end != "zookeeper"]
            return {each for end in ends for each in _nodes(end, names, number)}
        case f.Cut(plane="client"):
            ends = [end for end in (fault.source, fault.target) if end != f.ANY]
            brokers = [name for name in names if not _is_controller(name)]
            return {_node(end, number) for end in ends} or set(brokers)
        case _:
            return set()


def _cut_between(fault: f.Fault, names: Sequence[str], number: int) -> Iterator[_Edge]:
    """Yield the pairs of nodes that a cut separates: brokers, or a broker and a controller."""
    if not isinstance(fault, f.Cut) or fault.plane not in ("replication", "control"):
        return
    for source in _nodes(fault.source, names, number):
        for target in _nodes(fault.target, names, number):
            controllers = _is_controller(source) + _is_controller(target)
            if source != target and controllers == (fault.plane == "control"):
                yield source, target


def _nodes(words: str, names: Sequence[str], number: int) -> Iterable[str]:
    return names if words == f.ANY else (_node(words, number),)


def _node(words: str, number: int) -> str:
    """Return the node's name; a node given by a role may be another one each time."""
    return f"{words}, {number}" if is_described(words) else words


def _is_controller(name: str) -> bool:
    return name.startswith(("controller-", "active controller"))
