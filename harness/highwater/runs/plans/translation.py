"""The parts of a plan that containers cannot do, or do in another way. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.cluster.builds import NodeBuild
from highwater.cluster.topology import MIN_SESSION_TIMEOUT_MS, Topology
from highwater.faults.kinds import KINDS
from highwater.search.planting import problems_with_bug
from highwater_chaos.builds import SAME, THIS, build_of
from highwater_chaos.plan import Network, Plan
from highwater_chaos.words import say_step

_SESSION = "session_timeout_ms"


def unsupported(plan: Plan) -> list[str]:
    """Return the parts of the plan that containers cannot do, one line each."""
    found = [
        f"unsupported here: {say_step(step)}: {reason}"
        for step in plan.steps
        if (reason := KINDS[type(step.do)].why_not(step.do))
    ]
    found += problems_with_bug(plan)
    try:
        topology_of(plan)
    except ValueError as error:
        found.append(f"the plan's topology: {error}")
    return found


def topology_of(plan: Plan) -> Topology:
    """Return the cluster to bring up.

    Raises:
        ValueError: the cluster cannot be brought up; the message says why.
    """
    planned = plan.topology
    broker_settings = {k: v for k, v in planned.settings_of_brokers.items() if k != _SESSION}
    controller_settings = {k: v for k, v in planned.controller_settings.items() if k != _SESSION}
    sessions = {} if (timeout_ms := _session_timeout_ms(plan)) is None else {_SESSION: timeout_ms}
    return Topology(
        brokers=planned.brokers,
        controllers=planned.controllers,
        preset=planned.preset,
        toggles=planned.toggles,
        broker_settings=broker_settings,
        controller_settings=controller_settings,
        **sessions,
    )


def builds_of(plan: Plan, topology: Topology) -> dict[int, NodeBuild]:
    """Return the builds of the nodes that do not begin with the cluster's own."""
    found = {}
    for node in topology.node_ids:
        build = build_of(topology.node(node).name, plan.topology.builds)
        if build != SAME:
            planted = plan.planted if build.image == THIS else ""
            found[int(node)] = NodeBuild(build.image, build.preset, planted)
    return found


def _session_timeout_ms(plan: Plan) -> int | None:
    """Return the longest session timeout of the plan, or the least that ZooKeeper grants."""
    asked = [
        settings[_SESSION]
        for settings in (plan.topology.broker_settings, plan.topology.controller_settings)
        if _SESSION in settings
    ]
    return max(MIN_SESSION_TIMEOUT_MS, *asked) if asked else None


def differences(plan: Plan) -> Iterator[str]:
    """Yield the differences between the plan and its run on containers."""
    timeout_ms = _session_timeout_ms(plan)
    asked = {
        settings.get(_SESSION)
        for settings in (plan.topology.broker_settings, plan.topology.controller_settings)
    }
    if timeout_ms is not None and asked != {timeout_ms}:
        yield f"every session lasts {timeout_ms} ms: one for all nodes, and what ZooKeeper grants"
    if plan.core:
        yield "all nodes are healed, not the core alone"
    if plan.probes_shrinking:
        yield "no follower is kept from fetching at the end"
    if plan.network != Network():
        yield "messages travel as the engine's network has them"
