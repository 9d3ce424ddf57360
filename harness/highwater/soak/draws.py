"""Draws the plans of a soak from its seed: topology, preset, clients, sizes, faults. Pure.

Equal settings and numbers give equal plans, so that a plan of 3 a.m. can be drawn again alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from highwater.errors import HarnessError
from highwater.runs.chaos.planning import plan_for_preset
from highwater.runs.stock.libraries import ClientKind
from highwater_chaos.draw import Draw
from highwater_chaos.plan import Plan, Workload
from highwater_chaos.random_kinds import Kind
from highwater_chaos.random_plan import NoRoom, Wanted
from highwater_core.config import Preset

MOST_TRIES = 20
"""How often a plan is drawn while no fault fits into it."""
_CONTROLLERS = (1, 2, 2, 3)
_SHARES = (0.4, 0.7, 1.0)
"""A plan's length, of the longest."""
_RATES = (1, 1, 5, 20)
"""How many times a random plan's records per second."""
_VALUE_BYTES = (0, 0, 100, 4_000)
_MAX_SEED = 2**31


class SoakSettings(msgspec.Struct, frozen=True):
    """What a soak draws from; with the seed it names every plan.

    longest_ms: of a plan's faults. brokers: numbers of brokers, each as likely as it is named.
    """

    seed: int
    longest_ms: int = 60_000
    presets: tuple[Preset, ...] = (Preset.FENCED,)
    clients: tuple[ClientKind, ...] = (ClientKind.OWN, ClientKind.CONFLUENT)
    brokers: tuple[int, ...] = (3, 3, 3, 4)
    without: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True)
class Drawn:
    """One plan of a soak, and the library of its clients."""

    number: int
    plan: Plan
    client: ClientKind


def draw(settings: SoakSettings, number: int) -> Drawn:
    """Return the soak's plan of that number, from 1 on.

    Raises:
        HarnessError: no fault of the allowed kinds fits into any plan.
    """
    from highwater_simulator.rng import SeededRng

    rng = SeededRng(settings.seed).stream(f"soak {number}")
    draw = Draw(rng)
    client = draw.of(settings.clients)
    reason = ""
    for attempt in range(MOST_TRIES):
        wanted = _wanted(settings, draw)
        try:
            plan = plan_for_preset(wanted, rng.stream(f"plan {attempt}"))
        except NoRoom as fault:
            reason = str(fault)
            continue
        workload = _sized(plan.workload, draw)
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
