"""Draws groups for a plan, and faults of their coordinators and members."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from highwater_chaos import faults as f
from highwater_chaos.draw import Draw
from highwater_chaos.plan import Group, Plan, Step, client_names
from highwater_core.internal_topics import OFFSETS_TOPIC

COORDINATOR = f"leader of {OFFSETS_TOPIC}-0"
SMALL_SEGMENT_BYTES = 700
_FOR_MS = (50, 400, 900, 2_000)


def with_groups(plan: Plan, draw: Draw, *, may_lose: bool) -> Plan:
    """Return the plan with one or two groups.

    may_lose: whether a disk may lose data; then committed offsets need two replicas in sync.
    """
    topics = plan.workload.topics
    groups = tuple(_group(draw, draw.of(topics).name) for _ in range(draw.of((1, 1, 2))))
    settings = {
        "group_min_session_timeout_ms": 100,
        "group_initial_rebalance_delay_ms": draw.of((0, 100, 600)),
        "offsets_topic_partitions": draw.of((1, 1, 2)),
        "offsets_topic_replication_factor": min(3, plan.topology.brokers),
        "offsets_topic_min_insync_replicas": 2 if may_lose else draw.of((1, 2)),
        "offsets_commit_timeout_ms": draw.of((300, 1_000, 5_000)),
    }
    if draw.chance(0.3):  # __consumer_offsets is compacted throughout the run
        settings["offsets_topic_segment_bytes"] = SMALL_SEGMENT_BYTES
        settings["log_cleaner_backoff_ms"] = draw.of((100, 300))
    topology = plan.topology
    together = topology.broker_settings | settings
    plan = replace(
        plan,
        topology=replace(topology, broker_settings=together),
        workload=replace(plan.workload, groups=groups),
    )
    return replace(plan, steps=(*plan.steps, *_steps(plan, draw)))


def _group(draw: Draw, topic: str) -> Group:
    return Group(
        topic,
        members=draw.of((1, 2, 2, 3)),
        commit_every_ms=draw.of((40, 200, 700)),
        stays_ms=draw.of((0, 0, 600, 1_700)),
        session_timeout_ms=draw.of((400, 900, 2_500)),
        request_timeout_ms=draw.of((300, 1_500)),
    )


def _steps(plan: Plan, draw: Draw) -> list[Step]:
    """Return faults of coordinators and members, from when the first group has a coordinator."""
    members = client_names(plan.workload)[-plan.workload.groups[0].members :]
    brokers = tuple(range(plan.topology.brokers))
    makes: tuple[Callable[[], f.Fault], ...] = (
        lambda: f.Kill(COORDINATOR, draw.of(_FOR_MS)),
        lambda: f.Kill(COORDINATOR, draw.of(_FOR_MS)),
        lambda: f.Terminate(COORDINATOR, draw.of(_FOR_MS)),
        lambda: f.Pause(COORDINATOR, draw.of(_FOR_MS)),
        lambda: f.Isolate(COORDINATOR, draw.of(_FOR_MS)),
        lambda: f.Cut(COORDINATOR, "any", "replication", True, draw.of(_FOR_MS)),
        lambda: f.ExpireSession(COORDINATOR),
        lambda: f.MoveReplicas(OFFSETS_TOPIC, tuple(draw.shuffled(brokers))[:3], 0),
        lambda: f.ElectPreferred(OFFSETS_TOPIC, 0),
        lambda: f.KillClient(draw.of(members), draw.of(_FOR_MS)),
        lambda: f.KillClient(draw.of(members), draw.of(_FOR_MS)),
    )
    return [
        Step(draw.between(plan.quiet_after_ms // 4, plan.quiet_after_ms), draw.of(makes)())
        for _ in range(draw.of((0, 1, 2, 4)))
    ]
