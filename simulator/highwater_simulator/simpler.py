"""Simpler variants of a plan, for the shrinker. Pure; no plan is run here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import fields, replace

from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Plan, Step, Workload, node_names

_NAMED = ("node", "source", "target")
_ACTIVE = "active controller"


def with_step(plan: Plan, number: int, step: Step) -> Plan:
    """Return the plan with another step in that place."""
    return replace(plan, steps=(*plan.steps[:number], step, *plan.steps[number + 1 :]))


# ---------------------------------------------------------------- steps


def number_fields(step: Step) -> Iterator[str]:
    """Yield the fault's fields whose numbers may be smaller: durations, counts, sizes."""
    for field in fields(step.do):
        value = getattr(step.do, field.name)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if is_number and field.name not in ("partitions", "replication_factor", "percent"):
            yield field.name


def names_instead(step: Step, plan: Plan) -> Iterator[Step]:
    """Yield the step with named nodes in place of roles: names are stable under other seeds."""
    topic = plan.workload.topics[0]
    roles = [
        f"{role} of {topic.name}-{number}"
        for number in range(topic.partitions)
        for role in ("leader", "follower")
    ]
    for field in _NAMED:
        name = getattr(step.do, field, "")
        if name.startswith("broker-"):
            yield from (replace(step, do=replace(step.do, **{field: role})) for role in roles)
        elif name.startswith("controller-"):
            yield replace(step, do=replace(step.do, **{field: _ACTIVE}))


# ---------------------------------------------------------------- the cluster


def with_brokers(plan: Plan, count: int) -> Plan:
    """Return the plan with so many brokers, its replicas and its steps' brokers among them."""
    topics = tuple(
        replace(
            topic,
            replication_factor=min(topic.replication_factor, count),
            min_insync_replicas=min(topic.min_insync_replicas, count),
        )
        for topic in plan.workload.topics
    )
    smaller = replace(
        plan,
        topology=replace(plan.topology, brokers=count),
        workload=replace(plan.workload, topics=topics),
    )
    return _among_the_nodes(smaller, node_names(plan.topology))


def with_controllers(plan: Plan, count: int) -> Plan:
    """Return the plan with so many controllers, its steps' controllers among them."""
    smaller = replace(plan, topology=replace(plan.topology, controllers=count))
    return _among_the_nodes(smaller, node_names(plan.topology))


def _among_the_nodes(plan: Plan, old_names: tuple[str, ...]) -> Plan:
    """Return the plan with an unused node in the place of each one that no longer exists.

    A core keeps a broker and a controller, without which it never makes progress.
    """
    names = node_names(plan.topology)
    used = {getattr(step.do, field, "") for step in plan.steps for field in _NAMED}
    used |= {step.when.node for step in plan.steps if step.when is not None}
    free = [name for name in names if name not in used]
    places: dict[str, str] = {}
    for name in old_names:
        kind = name.split("-")[0]
        fitting = [other for other in free if other.startswith(kind)]
        if name in used and name not in names and fitting:
            places[name] = fitting[0]
            free.remove(fitting[0])
    steps = tuple(_renamed(step, places) for step in plan.steps)
    core = _core_among(names, [places.get(name, name) for name in plan.core])
    return replace(plan, steps=steps, core=() if core == names else core)


def _core_among(names: tuple[str, ...], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the wanted nodes that exist; of a kind (broker, controller) without one, the first."""
    kept = {name for name in wanted if name in names}
    for kind in {name.split("-")[0]: None for name in wanted}:
        of_kind = [name for name in names if name.startswith(kind)]
        if kept.isdisjoint(of_kind):
            kept.add(of_kind[0])
    return tuple(name for name in names if name in kept)


def _renamed(step: Step, places: Mapping[str, str]) -> Step:
    changed = {
        field: places[name] for field in _NAMED if (name := getattr(step.do, field, "")) in places
    }
    if step.when is not None and step.when.node in places:
        step = replace(step, when=replace(step.when, node=places[step.when.node]))
    return replace(step, do=replace(step.do, **changed)) if changed else step


def without_settings(plan: Plan, kept: tuple[tuple[str, str], ...]) -> Plan:
    """Return the plan without all settings but the kept ones: (owner, setting)."""
    topology = replace(
        plan.topology,
        **{
            owner: {
                name: value
                for name, value in getattr(plan.topology, owner).items()
                if (owner, name) in kept
            }
            for owner in ("broker_settings", "controller_settings")
        },
    )
    return replace(plan, topology=topology)


def settings_of(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return every setting that the plan makes, as (owner, setting)."""
    return tuple(
        (owner, name)
        for owner in ("broker_settings", "controller_settings")
        for name in getattr(plan.topology, owner)
    )


def with_log_folders(plan: Plan, count: int) -> Plan:
    """Return the plan with that many log folders per broker; in place of others the last fails."""

    def step_on(step: Step) -> Step:
        if not isinstance(step.do, f.FailFolder):
            return step
        folder = None if count == 1 else min(step.do.folder or 0, count - 1)
        return replace(step, do=replace(step.do, folder=folder))

    topology = replace(plan.topology, log_folders_per_broker=count)
    return replace(plan, topology=topology, steps=tuple(map(step_on, plan.steps)))


# ---------------------------------------------------------------- the load


def with_partitions(plan: Plan, count: int) -> Plan:
    """Return the plan with count partitions of its first topic; steps name none beyond the last."""
    topic = plan.workload.topics[0]
    pattern = re.compile(rf"\b{re.escape(topic.name)}-(\d+)$")

    def moved(text: str) -> str:
        return pattern.sub(
            lambda found: f"{topic.name}-{min(int(found.group(1)), count - 1)}", text
        )

    def moved_step(step: Step) -> Step:
        changed = {
            field: moved(getattr(step.do, field)) for field in _NAMED if hasattr(step.do, field)
        }
        when = step.when
        if when is not None:
            when = replace(when, partition=moved(when.partition), node=moved(when.node))
        return replace(step, do=replace(step.do, **changed), when=when)

    topics = (replace(topic, partitions=count), *plan.workload.topics[1:])
    return replace(
        plan,
        workload=replace(plan.workload, topics=topics),
        steps=tuple(moved_step(step) for step in plan.steps),
    )


def with_workload(plan: Plan, **changes: Any) -> Plan:
    workload: Workload = replace(plan.workload, **changes)
    return replace(plan, workload=workload)


def with_client(plan: Plan, kind: str, number: int, **changes: Any) -> Plan:
    """Return the plan with one client changed; kind: the field of the workload that has it."""
    clients = list(getattr(plan.workload, kind))
    clients[number] = replace(clients[number], **changes)
    return with_workload(plan, **{kind: tuple(clients)})


def without_condition(step: Step, fired_at_ms: int | None) -> Iterator[Step]:
    """Yield the step at the time at which its condition held, then with a condition met once."""
    if step.when is None:
        return
    if fired_at_ms is not None:
        yield replace(step, at_ms=fired_at_ms, when=None)
    if step.when.count > 1 and step.when.state is Observed.EVENT:
        yield replace(step, when=replace(step.when, count=1))
    if step.when.then_after_ms:
        yield replace(step, when=replace(step.when, then_after_ms=0))


def forever(step: Step) -> Step | None:
    """Return the step with a fault that is never undone; None when the fault has no end."""
    if getattr(step.do, "for_ms", None) is None or isinstance(step.do, f.CrashAt | f.DelayAt):
        return None
    return replace(step, do=replace(step.do, for_ms=None))
