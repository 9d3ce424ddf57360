"""From a seed to a plan: topology, settings, workload and faults, drawn as a swarm.

Each schedule draws which kinds of faults it has and how often (some none at all), timings from
extremes as well as from the middle, and waits for states as often as for times. It knows no
toggle and no planted bug: one configuration for all.
Source: docs/explanation/simulator.md; swarm testing, mixed with all-kinds schedules since
swarms alone found no more of crash bugs there.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec.structs import replace

from highwater_chaos import faults as f
from highwater_chaos.draw import Draw
from highwater_chaos.plan import (
    Consumer,
    Latencies,
    Network,
    Observed,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    When,
    Workload,
    node_names,
)
from highwater_core.config import Preset, has_controllers
from highwater_core.fail_points import BROKER_FAIL_POINTS, CONTROLLER_FAIL_POINTS
from highwater_simulator.budget import within_budget
from highwater_simulator.draws import Targets
from highwater_simulator.more_draws import Given, with_more
from highwater_simulator.motifs import JOIN_MOTIFS, MOTIFS
from highwater_simulator.rng import SeededRng
from highwater_simulator.without_controllers import without_controllers

_TRIGGERS = (
    "became_leader",
    "became_follower",
    "leader_elected",
    "isr_change_proposed",
    "isr_changed",
    "isr_written",
    "controller_elected",
    "failover_completed",
    "log_truncated",
    "high_watermark_advanced",
    "log_appended",
    "broker_registered",
    "fetcher_started",
    "checkpoint_written",
    "command_sent",
    "node_started",
    "brokers_changed",
)


class Family(StrEnum):
    """The faults that a schedule may have."""

    PROCESSES = "processes"
    """All faults but those of disks. Only an unclean election that is allowed excuses a loss."""
    DISKS = "disks"
    """Power losses and failing disks as well."""
    JOINS = "joins"
    """A few faults of all these kinds, aimed at replicas that leave the ISR and join it."""

    @property
    def may_lose(self) -> bool:
        """Whether disks may lose data."""
        return self is not Family.PROCESSES


def generate(seed: int, preset: Preset = Preset.FENCED, family: Family = Family.PROCESSES) -> Plan:
    """Return the plan of a seed; equal arguments give equal plans.

    Where brokers command themselves it is the default preset's plan, as far as that can be done.
    """
    if not has_controllers(preset):
        return without_controllers(generate(seed, family=family), preset)
    rng = SeededRng(seed).stream(f"plan/{family}")
    draw = Draw(rng)
    topology = _topology(draw, preset)
    if family is Family.JOINS:
        topology = _with_room_to_join(draw, topology)
    topics = _topics(draw, topology, family)
    workload = Workload(topics, _producers(draw, topics), (Consumer(),))
    quiet_after_ms = draw.of((2_500, 4_000, 6_000, 9_000))
    plan = Plan(
        seed=seed,
        title=f"seed {seed}, {family}",
        topology=topology,
        network=_network(draw),
        workload=workload,
        steps=_steps(draw, topology, topics, family, quiet_after_ms),
        quiet_after_ms=quiet_after_ms,
        core=_core(draw, topology),
        probes_shrinking=family is Family.JOINS and draw.chance(0.5),
    )
    given = Given(may_lose=family.may_lose, is_about_joins=family is Family.JOINS)
    more = with_more(plan, lambda name: Draw(rng.stream(name)), given)
    in_order = tuple(sorted(more.steps, key=lambda step: step.at_ms))
    if family.may_lose:
        in_order = tuple(map(_with_two_in_sync, in_order))
    return replace(more, steps=within_budget(in_order))


def _with_two_in_sync(step: Step) -> Step:
    """Make a created topic survive the loss of one disk."""
    match step.do:
        case f.CreateTopic(replication_factor=factor) if factor > 1:
            return replace(step, do=replace(step.do, min_insync_replicas=2))
    return step


# ---------------------------------------------------------------- the cluster


def _topology(draw: Draw, preset: Preset) -> PlanTopology:
    session_timeout_ms = draw.of((400, 900, 2_000))
    broker_settings = {
        "session_timeout_ms": session_timeout_ms,
        "replica_lag_time_max_ms": draw.of((300, 800, 2_000)),
        "replica_fetch_wait_max_ms": draw.of((10, 50, 200)),
        "replica_fetch_timeout_ms": draw.of((400, 1_500)),
        "replica_fetch_backoff_max_ms": draw.of((50, 300)),
        "replica_fetch_max_bytes": draw.of((300, 4_096, 1_048_576)),
        "high_watermark_checkpoint_interval_ms": draw.of((50, 400, 5_000)),
        "log_flush_interval_ms": draw.of((100, 700, 10_000)),
        "alter_partition_timeout_ms": draw.of((200, 1_000)),
        "isr_change_check_interval_ms": 200,
        "isr_change_quiet_ms": 400,
        "isr_change_propagation_max_ms": 2_000,
        "controlled_shutdown_timeout_ms": 500,
        "segment_bytes": draw.of((600, 1_073_741_824, 1_073_741_824)),
    }
    return PlanTopology(
        brokers=draw.of((2, 3, 3, 3, 4)),
        controllers=draw.of((1, 2, 2, 3)),
        preset=preset,
        broker_settings=broker_settings,
        controller_settings={
            "session_timeout_ms": draw.of((session_timeout_ms, 400, 1_500)),
            "command_timeout_ms": draw.of((200, 700, 2_000)),
        },
    )


def _with_room_to_join(draw: Draw, topology: PlanTopology) -> PlanTopology:
    """Return the topology with more brokers; its settings let a broker lag and keep its session."""
    session_timeout_ms = draw.of((900, 2_500, 6_000))
    joins = {
        "session_timeout_ms": session_timeout_ms,
        "replica_lag_time_max_ms": draw.of((300, 500, 800)),
        "replica_fetch_max_bytes": draw.of((300, 300, 300, 4_096)),
    }
    return replace(
        topology,
        brokers=draw.of((3, 4, 4, 4)),
        controllers=draw.of((1, 2)),
        broker_settings=topology.broker_settings | joins,
        controller_settings=topology.controller_settings
        | {"session_timeout_ms": session_timeout_ms},
    )


def _topics(draw: Draw, topology: PlanTopology, family: Family) -> tuple[Topic, ...]:
    factor = topology.brokers if topology.brokers < 3 else draw.of((2, 3, 3, topology.brokers))
    if family is Family.JOINS:
        factor = draw.of((3, *[topology.brokers] * 3))
    minima = (2,) if family.may_lose else (1, 1, 2)
    minimum = min(factor, draw.of(minima))
    return (
        Topic(
            partitions=draw.of((1, 1, 2, 3)),
            replication_factor=factor,
            min_insync_replicas=minimum,
        ),
    )


def _producers(draw: Draw, topics: tuple[Topic, ...]) -> tuple[Producer, ...]:
    return tuple(
        Producer(
            topic=topics[0].name,
            rate_per_s=draw.of((5, 15, 40)),
            acks=draw.of((-1, -1, -1, 1)) if number else -1,
            max_in_flight=draw.of((1, 1, 5)),
            batch_max_records=draw.of((1, 1, 4)),
            linger_ms=draw.of((0, 0, 10)),
            retries=draw.chance(0.8),
            request_timeout_ms=draw.of((300, 1_500)),
            delivery_timeout_ms=draw.of((1_000, 4_000)),
        )
        for number in range(draw.of((1, 1, 2)))
    )


def _network(draw: Draw) -> Network:
    minimum_us, maximum_us = draw.of(((100, 600), (50, 200), (500, 4_000), (1_000, 30_000)))
    return Network(
        latencies=draw.of((Latencies.EVEN, Latencies.EVEN, Latencies.HEAVY_TAILED)),
        minimum_us=minimum_us,
        maximum_us=maximum_us,
        through_codecs=draw.chance(0.5),
        shuffles_ties=draw.chance(0.3),
    )


def _core(draw: Draw, topology: PlanTopology) -> tuple[str, ...]:
    """Half of the schedules heal all nodes, the others leave one broker or controller behind."""
    names = node_names(topology)
    if draw.chance(0.5) or topology.brokers < 3:
        return ()
    left_behind = draw.of(names if topology.controllers > 1 else names[: topology.brokers])
    return tuple(name for name in names if name != left_behind)


# ---------------------------------------------------------------- the faults


def _steps(
    draw: Draw,
    topology: PlanTopology,
    topics: tuple[Topic, ...],
    family: Family,
    quiet_after_ms: int,
) -> tuple[Step, ...]:
    targets = Targets(draw, topology, topics, may_lose=family.may_lose)
    kinds = _kinds(family)
    if draw.chance(0.6):  # a swarm: some kinds are left out, the others come as often as drawn
        weights = [(make, draw.of((0, 0, 1, 3, 10)) * base) for make, base in kinds]
    else:
        weights = list(kinds)
    if not any(weight for _, weight in weights):
        weights = list(kinds)
    steps: list[Step] = []
    are_joins = family is Family.JOINS
    for _ in range(draw.of((1, 1, 2) if are_joins else (0, 0, 1, 1, 2))):
        motif = draw.of(JOIN_MOTIFS if are_joins else MOTIFS)
        steps += motif(targets, draw.between(0, quiet_after_ms // 2))
    if are_joins:
        count = draw.of((0, 0, 1, 3))
    else:
        count = draw.of((0, 1, 3, 6)) if steps else draw.of((2, 4, 7, 12))
    for _ in range(count):
        make = draw.weighted(weights)
        at_ms = draw.between(0, quiet_after_ms)
        when = _when(draw, targets) if draw.chance(0.35) else None
        steps.append(Step(at_ms=at_ms, do=make(targets), when=when))
    return tuple(steps)


def _when(draw: Draw, targets: Targets) -> When:
    then_after_ms = draw.of((0, 0, 1, 3, 10, 40))
    if draw.chance(0.7):
        return When(
            Observed.EVENT, event=draw.of(_TRIGGERS), count=draw.of((1, 1, 2, 4)),
            then_after_ms=then_after_ms,
        )  # fmt: skip
    state = draw.of(
        (Observed.ISR_IS_LEADER, Observed.FOLLOWER_BEHIND, Observed.HIGH_WATERMARK_BEHIND)
    )
    return When(state, partition=targets.partition(), then_after_ms=then_after_ms)


Make = Callable[[Targets], f.Fault]


def _cut(t: Targets) -> f.Fault:
    return f.Cut(*t.link(), both_ways=t.draw.chance(0.5), for_ms=t.for_ms())


def _slow_link(t: Targets) -> f.Fault:
    latency_ms = t.draw.of((5, 50, 300, 1_000))
    return f.SlowLink(*t.link(), latency_ms, t.draw.of((0, latency_ms)), t.for_ms())


def _crash_at(t: Targets) -> f.Fault:
    if t.draw.chance(0.6):
        node, point = t.broker(), t.draw.of(BROKER_FAIL_POINTS)
    else:
        node, point = t.controller(), t.draw.of(CONTROLLER_FAIL_POINTS)
    return f.CrashAt(node, point.value, t.draw.of((1, 50, 700, 2_500)), t.for_ms())


def _delay_at(t: Targets) -> f.Fault:
    if t.draw.chance(0.6):
        node, point = t.broker(), t.draw.of(BROKER_FAIL_POINTS)
    else:
        node, point = t.controller(), t.draw.of(CONTROLLER_FAIL_POINTS)
    delay_ms = t.draw.of((20, 200, 1_000, 3_000))
    return f.DelayAt(node, point.value, delay_ms, t.draw.of((1, 1, 3)), t.for_ms())


_PROCESS_KINDS: tuple[tuple[Make, int], ...] = (
    (lambda t: f.Kill(t.node(), t.for_ms()), 6),
    (lambda t: f.Terminate(t.node(), t.for_ms()), 2),
    (lambda t: f.Pause(t.node(), t.for_ms()), 4),
    (_crash_at, 4),
    (_delay_at, 4),
    (_cut, 6),
    (lambda t: f.Isolate(t.node(), t.for_ms()), 3),
    (_slow_link, 3),
    (lambda t: f.LossyLink(*t.link(), t.draw.of((5, 30)), t.for_ms()), 1),
    (lambda t: f.ResetConnections(*t.link()), 2),
    (lambda t: f.HalfOpen(*t.link()), 1),
    (lambda t: f.ExpireSession(t.node()), 3),
    (lambda t: f.LoseZooKeeperConnection(t.node()), 2),
    (lambda t: f.LoseZooKeeperReply(t.node(), t.draw.of((1, 1, 2, 4))), 3),
    (lambda t: f.SlowZooKeeper(t.draw.of((10, 100, 500)), t.for_ms()), 1),
    (lambda t: f.RestartZooKeeper(t.for_ms()), 1),
    (lambda t: f.ClockJump(t.node(), t.draw.of((-3_600_000, -500, 500, 3_600_000))), 1),
    (lambda t: f.ClockRate(t.node(), t.draw.of((-100_000, 100_000, 10_000)), t.for_ms()), 1),
    (lambda t: f.CreateTopic(t.draw.of(("x", "y")), 1, t.draw.of((1, 2))), 1),
    (lambda t: f.DeleteTopic(t.draw.of(("x", "y"))), 1),
)

_FLIPPED = (f.FileKind.INDEX, f.FileKind.CHECKPOINT, f.FileKind.EPOCHS)
"""Without logs: recovery does not read below the recovery point, in Kafka neither."""

_DISK_KINDS: tuple[tuple[Make, int], ...] = (
    (lambda t: f.PowerLoss(t.broker(), t.for_ms()), 10),
    (lambda t: f.Kill(t.broker(), t.for_ms(), f.DiskAtStart.EMPTY), 3),
    (lambda t: f.DiskFull(t.broker(), t.for_ms()), 4),
    (lambda t: f.DiskErrors(
        t.broker(), t.draw.of(tuple(f.DiskOperation)), t.draw.of((10, 100)), t.for_ms()
    ), 5),
    (lambda t: f.SlowDisk(t.broker(), t.draw.of((20, 300, 2_000)), t.for_ms()), 4),
    (lambda t: f.FlipBit(t.broker(), t.draw.of(_FLIPPED), t.for_ms()), 2),
)  # fmt: skip


def _kinds(family: Family) -> tuple[tuple[Make, int], ...]:
    return (*_PROCESS_KINDS, *_DISK_KINDS) if family.may_lose else _PROCESS_KINDS
