"""Draws the plans of a soak from its seed: topology, preset, clients, sizes, faults. Pure.

Equal settings and numbers give equal plans, so that a plan of 3 a.m. can be drawn again alone.

With one cluster all plans have the topology that is drawn first, and each has a topic and groups of
its own name. In half of every STRETCH plans no node is killed: a node's memory is judged over
rounds that one start of it lived through.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from highwater.errors import HarnessError
from highwater.runs.chaos.planning import plan_for_preset
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.draw import Draw
from highwater_chaos.plan import Expected, Plan, PlanTopology, Workload, group_name
from highwater_chaos.random_kinds import Kind
from highwater_chaos.random_plan import NoRoom, Wanted
from highwater_core.config import Preset, has_controllers

MOST_TRIES = 20
"""How often a plan is drawn while no fault fits into it."""
_CONTROLLERS = (1, 2, 2, 3)
_SHARES = (0.4, 0.7, 1.0)
"""A plan's length, of the longest."""
_RATES = (1, 1, 5, 20)
"""How many times a random plan's records per second."""
_VALUE_BYTES = (0, 0, 100, 4_000)
_MAX_SEED = 2**31
STRETCH = 16
"""So many plans of one cluster: in the first half nodes are killed, in the second none is."""
_ENDS_NODES = (Kind.KILL, Kind.CRASH_LOOP, Kind.TERMINATE)
_TRACE_PART_BYTES = 1 << 20
_OF_GROUPS = {"group_min_session_timeout_ms": 3_000, "group_initial_rebalance_delay_ms": 500}


class SoakSettings(msgspec.Struct, frozen=True):
    """What a soak draws from; with the seed it names every plan.

    longest_ms: of a plan's faults. brokers: numbers of brokers, each as likely as it is named.
    one_cluster: whether plans are rounds on a cluster that lives on.
    """

    seed: int
    longest_ms: int = 60_000
    presets: tuple[Preset, ...] = (Preset.FENCED,)
    clients: tuple[ClientKind, ...] = (ClientKind.OWN, ClientKind.CONFLUENT)
    brokers: tuple[int, ...] = (3, 3, 3, 4)
    without: tuple[Kind, ...] = ()
    one_cluster: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """One plan of a soak, and the library of its clients."""

    number: int
    plan: Plan
    client: ClientKind

    def with_planted(self, name: str) -> Drawn:
        """Return the same plan for nodes with that planted bug, "" for none."""
        expected = Expected(planted=name) if name else None
        return dataclasses.replace(self, plan=replace(self.plan, expected=expected))


def draw(settings: SoakSettings, number: int) -> Drawn:
    """Return the soak's plan of that number, from 1 on.

    Raises:
        HarnessError: no fault of the allowed kinds fits into any plan.
    """
    from highwater_simulator.rng import SeededRng

    topology = topology_of(settings) if settings.one_cluster else None
    rng = SeededRng(settings.seed).stream(f"soak {number}")
    draw = Draw(rng)
    client = draw.of(settings.clients)
    reason = ""
    for attempt in range(MOST_TRIES):
        wanted = _wanted(settings, draw)
        if topology is not None:
            wanted = _on(topology, wanted, number)
        try:
            plan = plan_for_preset(wanted, rng.stream(f"plan {attempt}"))
        except NoRoom as fault:
            reason = str(fault)
            continue
        workload = _sized(plan.workload, draw)
        if topology is not None:
            plan, workload = replace(plan, topology=topology), _named(workload, number)
        title = f"soak {settings.seed}, plan {number}: {plan.title}"
        return Drawn(number, replace(plan, title=title, workload=workload), client)
    raise HarnessError(f"plan {number} of seed {settings.seed}: {reason}")


def _wanted(settings: SoakSettings, draw: Draw) -> Wanted:
    longest_ms = int(settings.longest_ms * draw.of(_SHARES))
    return Wanted(
        seed=draw.between(1, _MAX_SEED),
        duration_ms=max(longest_ms, 10_000),
        preset=draw.of(settings.presets),
        brokers=draw.of(settings.brokers),
        controllers=draw.of(_CONTROLLERS),
        is_swarm=draw.chance(0.5),
        without=settings.without,
    )


def _sized(workload: Workload, draw: Draw) -> Workload:
    rate, value_bytes = draw.of(_RATES), draw.of(_VALUE_BYTES)
    producers = tuple(
        replace(each, rate_per_s=each.rate_per_s * rate, value_bytes=value_bytes)
        for each in workload.producers
    )
    return replace(workload, producers=producers)


# ---------------------------------------------------------------- one cluster


@functools.cache
def topology_of(settings: SoakSettings) -> PlanTopology:
    """Return the topology of a soak's one cluster, which serves groups in every plan.

    Raises:
        HarnessError: the preset that is drawn has no controllers, who alone delete topics.
    """
    from highwater_simulator.rng import SeededRng

    rng = SeededRng(settings.seed).stream("soak of one cluster")
    wanted = _wanted(settings, Draw(rng))
    if not has_controllers(wanted.preset):
        raise HarnessError(
            f"preset {wanted.preset.value} has no controllers, which delete a round's topics: "
            "one cluster needs them"
        )
    some = dataclasses.replace(wanted, duration_ms=60_000, without=())
    topology = plan_for_preset(some, rng.stream("topology")).topology
    factor = min(3, topology.brokers)
    of_brokers = {
        "offsets_topic_partitions": Draw(rng.stream("groups")).of((1, 3)),
        "offsets_topic_replication_factor": factor,
        "offsets_topic_min_insync_replicas": max(1, factor - 1),
        "trace_part_bytes": _TRACE_PART_BYTES,
        **_OF_GROUPS,
    }
    of_controllers = {"trace_part_bytes": _TRACE_PART_BYTES}
    return replace(
        topology,
        broker_settings=topology.broker_settings | of_brokers,
        controller_settings=topology.controller_settings | of_controllers,
    )


def _on(topology: PlanTopology, wanted: Wanted, number: int) -> Wanted:
    """Return the options of a random plan on that topology, whose topic has a name of its own."""
    without = wanted.without
    calm = (*without, *_ENDS_NODES)
    is_calm = (number - 1) % STRETCH >= STRETCH // 2
    if is_calm and any(kind not in calm for kind in wanted.kinds):
        without = calm
    return dataclasses.replace(
        wanted,
        preset=topology.preset,
        brokers=topology.brokers,
        controllers=topology.controllers,
        without=without,
        topic=f"t{number}",
    )


def _named(workload: Workload, number: int) -> Workload:
    groups = tuple(
        replace(each, group_id=f"{group_name(place)}-{number}")
        for place, each in enumerate(workload.groups)
    )
    return replace(workload, groups=groups)
