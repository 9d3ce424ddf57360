"""From a seed to a plan for containers: a cluster, clients, and faults that can all be proven.

Faults come at random times, each with its own duration, and all end before the plan does. A step
without a target, or on a node that is down already, proves nothing. So two faults of whole nodes
never meet on one node, and while a step names a role ("leader of t-0") no other fault may change it
at that moment. A guarded plan also keeps the quorum; see guard.
Source: swarm testing (Groce and others, ISSTA 2012): each plan leaves some kinds out altogether.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from highwater_chaos.draw import Draw
from highwater_chaos.guard import acting_of, problems_with_quorum
from highwater_chaos.plan import (
    ACKS_ALL,
    MAX_IN_FLIGHT,
    Consumer,
    Group,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    Workload,
    problems_of,
)
from highwater_chaos.random_kinds import (
    BREAKS_EVERY_QUORUM,
    ON_LINKS,
    Kind,
    Targets,
    collide,
    draw_kind,
)
from highwater_core.check import check
from highwater_core.config import Preset
from highwater_core.ports import Rng

LEAST_DURATION_MS = 10_000
FIRST_AT_MS = 2_000
"""Time before the first fault: records are written, and work on links begins early."""
LAST_END_MS = 1_000
"""Time between the end of every fault and the plan's end."""
RECOVERY_MS = 5_000
"""Time for a node to start, register and catch up before the next node has a fault."""
TRY_EVERY_MS = 750
"""One fault is tried for every so many ms of the plan; many do not fit."""
LINK_LEAD_MS = 1_500
"""The longest time between the begin of work on a fault on a link and its acting."""
LINK_WORK_MS = 2_500
"""The time to begin or end a fault on one link; links take their turns."""
GROUP_SESSION_MS = 3_000
_AT_STEP_MS = 100


class NoRoom(ValueError):
    """No fault of these kinds fits into the plan; the message names them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a random plan; equal options give equal plans."""

    seed: int
    duration_ms: int
    preset: Preset = Preset.FENCED
    brokers: int = 3
    controllers: int = 2
    is_swarm: bool = False
    """Whether only some kinds of faults are drawn; otherwise every kind, each at its own times."""
    is_guarded: bool = True
    """Whether the quorum is kept."""
    without: tuple[Kind, ...] = ()
    """Kinds that the plan must not have."""
    topic: str = Topic().name

    def __post_init__(self) -> None:
        if self.duration_ms < LEAST_DURATION_MS:
            raise ValueError(f"a random plan lasts at least {LEAST_DURATION_MS / 1000:g} s")
        if self.brokers < 1 or self.controllers < 1:
            raise ValueError("a cluster has at least one broker and one controller")
        if not self.kinds:
            raise ValueError("a random plan has at least one kind of fault")

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that the plan may have."""
        left_out = (*self.without, *(BREAKS_EVERY_QUORUM if self.is_guarded else ()))
        return tuple(kind for kind in Kind if kind not in left_out)


def random_plan(wanted: Wanted, rng: Rng) -> Plan:
    """Return the plan; rng: a fresh stream of the seed.

    Raises:
        NoRoom: the cluster is too small for all of these kinds, or the time too short.
    """
    draw = Draw(rng)
    topology = _topology(draw, wanted)
    workload = _workload(draw, topology, wanted.topic)
    clients = Draw(rng.stream("clients"))  # of its own: older plans keep all else
    topology, workload = _with_later_clients(clients, topology, workload)
    way = "a swarm" if wanted.is_swarm else "independent faults"
    guarded = "" if wanted.is_guarded else ", unguarded"
    plan = Plan(
        seed=wanted.seed,
        title=f"seed {wanted.seed}, {wanted.duration_ms / 1000:g} s, {way}{guarded}",
        topology=topology,
        workload=workload,
        quiet_after_ms=wanted.duration_ms,
    )
    planner = _Planner(draw, plan, wanted)
    kinds = _kinds(draw, wanted)
    for _ in range(max(4, wanted.duration_ms // TRY_EVERY_MS)):
        planner.try_one(draw.weighted(kinds))
    for kind in wanted.kinds:  # the drawn fault may not fit
        if not planner.steps:
            planner.try_one(kind)
    if not planner.steps:
        named = ", ".join(wanted.kinds)
        raise NoRoom(
            f"no fault of these kinds fits into this plan: {named}; "
            "more time, more nodes, other kinds or another seed may do"
        )
    plan = planner.plan()
    check(not problems_of(plan), "a random plan is possible")
    return plan


# ---------------------------------------------------------------- the cluster and its clients


def _topology(draw: Draw, wanted: Wanted) -> PlanTopology:
    session_timeout_ms = draw.of((2_000, 2_000, 3_000))
    return PlanTopology(
        brokers=wanted.brokers,
        controllers=wanted.controllers,
        preset=wanted.preset,
        broker_settings={
            "session_timeout_ms": session_timeout_ms,
            "replica_lag_time_max_ms": draw.of((1_500, 3_000)),
            "replica_fetch_wait_max_ms": draw.of((100, 500)),
            "replica_fetch_timeout_ms": 2_000,
            "high_watermark_checkpoint_interval_ms": draw.of((500, 5_000)),
            "alter_partition_timeout_ms": 2_000,
            "isr_change_check_interval_ms": 500,
            "isr_change_quiet_ms": 1_000,
            "isr_change_propagation_max_ms": 5_000,
        },
        controller_settings={
            "session_timeout_ms": session_timeout_ms,
            "command_timeout_ms": 2_000,
        },
    )


def _workload(draw: Draw, topology: PlanTopology, name: str) -> Workload:
    factor = min(3, topology.brokers)
    topic = Topic(
        name=name,
        partitions=draw.of((1, 2, 3)),
        replication_factor=factor,
        min_insync_replicas=max(1, factor - 1),
    )
    producers = (
        Producer(name, rate_per_s=draw.of((20, 40))),
        Producer(name, rate_per_s=20, retries=False, max_in_flight=draw.of((1, 5))),
        Producer(name, rate_per_s=10, acks=1, batch_max_records=draw.of((1, 4)), linger_ms=10),
    )
    return Workload((topic,), producers, (Consumer(name), Consumer(name)))


def _with_later_clients(
    draw: Draw, topology: PlanTopology, workload: Workload
) -> tuple[PlanTopology, Workload]:
    """Return both with a group in half of all plans, and with idempotent producers in half."""
    if draw.chance(0.5):
        in_flight = draw.of((1, MAX_IN_FLIGHT))
        producers = tuple(
            replace(each, idempotent=True, max_in_flight=in_flight)
            if each.acks == ACKS_ALL and each.retries
            else each
            for each in workload.producers
        )
        workload = replace(workload, producers=producers)
    if draw.chance(0.5):
        (topic,) = workload.topics
        group = Group(
            topic=topic.name,
            members=draw.of((1, 2, 3)),
            commit_every_ms=draw.of((200, 1_000)),
            stays_ms=draw.of((0, 5_000)),
            session_timeout_ms=GROUP_SESSION_MS,
        )
        settings = {
            "group_min_session_timeout_ms": GROUP_SESSION_MS,
            "group_initial_rebalance_delay_ms": 500,
            "offsets_topic_partitions": draw.of((1, 3)),
            "offsets_topic_replication_factor": topic.replication_factor,
            "offsets_topic_min_insync_replicas": topic.min_insync_replicas,
        }
        workload = replace(workload, groups=(group,))
        topology = replace(topology, broker_settings=topology.broker_settings | settings)
    return topology, workload


def _kinds(draw: Draw, wanted: Wanted) -> list[tuple[Kind, int]]:
    """Return the kinds that the plan may have, with the number of tries of each."""
    known = wanted.kinds
    if not wanted.is_swarm or len(known) == 1:
        return [(kind, 1) for kind in known]
    chosen = draw.shuffled(known)[: draw.between(1, len(known))]
    return [(kind, draw.of((1, 3))) for kind in chosen]


# ---------------------------------------------------------------- steps


class _Planner:
    """Collects the steps that fit together."""

    def __init__(self, draw: Draw, plan: Plan, wanted: Wanted) -> None:
        self._draw = draw
        self._plan = plan
        self._is_guarded = wanted.is_guarded
        self._targets = Targets(draw, plan)
        self._busy: list[tuple[int, int]] = []
        """When faults on links begin or end, [from, to) in ms."""
        self.steps: list[Step] = []

    def try_one(self, kind: Kind) -> None:
        """Draw one fault of the kind, and keep it if it fits."""
        for_ms, made = draw_kind(kind, self._targets)
        latest_ms = self._plan.quiet_after_ms - LAST_END_MS - for_ms
        if latest_ms <= FIRST_AT_MS:
            return
        at_ms = self._draw.between(FIRST_AT_MS // _AT_STEP_MS, latest_ms // _AT_STEP_MS + 1)
        drawn = [replace(step, at_ms=step.at_ms + at_ms * _AT_STEP_MS) for step in made]
        if drawn and self._has_room(drawn):
            self.steps += drawn
            self._busy += self._work_on_links(drawn)

    def plan(self) -> Plan:
        return self._with(self.steps)

    def _with(self, steps: Sequence[Step]) -> Plan:
        in_order = tuple(sorted(steps, key=lambda step: step.at_ms))
        return replace(self._plan, steps=in_order)

    def _has_room(self, drawn: Sequence[Step]) -> bool:
        quiet_after_ms = self._plan.quiet_after_ms
        last_ms = max(acting_of(step, quiet_after_ms).end_ms for step in drawn)
        if last_ms > quiet_after_ms - LAST_END_MS:
            return False
        if any(self._collide(new, old) for new in drawn for old in self.steps):
            return False
        if any(
            begin_ms < busy_until_ms and busy_ms < end_ms
            for begin_ms, end_ms in self._work_on_links(drawn)
            for busy_ms, busy_until_ms in self._busy
        ):
            return False
        together = self._with([*self.steps, *drawn])
        return not (self._is_guarded and problems_with_quorum(together, recovery_ms=RECOVERY_MS))

    def _work_on_links(self, steps: Sequence[Step]) -> list[tuple[int, int]]:
        """Return when these steps begin or end faults on links, [from, to) in ms."""
        on_links = [step for step in steps if isinstance(step.do, ON_LINKS)]
        acting = [acting_of(step, self._plan.quiet_after_ms) for step in on_links]
        moments = Counter(each.begin_ms - LINK_LEAD_MS for each in acting)
        moments.update(each.end_ms for each in acting)
        return [(moment, moment + LINK_WORK_MS * links) for moment, links in moments.items()]

    def _collide(self, one: Step, other: Step) -> bool:
        """Return whether the two may meet so that one could not be done or proven."""
        first, then = (acting_of(step, self._plan.quiet_after_ms) for step in (one, other))
        if first.begin_ms >= then.end_ms + RECOVERY_MS:
            return False
        if then.begin_ms >= first.end_ms + RECOVERY_MS:
            return False
        mine, its = self._targets.touched(one.do), self._targets.touched(other.do)
        return any(name in its for name in mine) and collide(one.do, other.do)
