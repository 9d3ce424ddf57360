"""A small effect of each planted bug of committed offsets, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from highwater_broker.coordinator.logic.loaded_records import LoadedRecords
from highwater_broker.replica_manager import ReplicaManager
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch
from highwater_core.messages import StopReplicaPartition
from tests.unit.coordinator.conftest import CoordinatorWorld, committed

Probe = Callable[[Any], object]


def _in_a_world(probe: Callable[[CoordinatorWorld], object]) -> Probe:
    def probed(_bench: Any) -> object:
        world = CoordinatorWorld()
        try:
            return probe(world)
        finally:
            world.kernel.close()

    return probed


def answers_before_the_commit(world: CoordinatorWorld) -> Sequence[ErrorCode]:
    world.lead_loaded(world.host_for("g"))
    return world.start_append("g", committed("g", 1))


def refusal_while_the_high_watermark_lags(world: CoordinatorWorld) -> object:
    partition = world.host_for("g", [committed("g", 1)], [committed("g", 2)])
    world.lead(partition)
    partition.commit(1)
    world.kernel.run_for(100)
    return world.ownership.refusal("g").name


def orders_after_the_lead_was_lost(world: CoordinatorWorld) -> object:
    partition = world.host_for("g", [committed("g", 1)])
    world.lead(partition)
    partition.commit(1)
    partition.lose_leadership()
    world.kernel.run_for(100)
    return [order for order, _ in world.cache.told]


def answer_after_the_lead_was_lost(world: CoordinatorWorld) -> object:
    partition = world.host_for("g")
    world.lead_loaded(partition)
    told = world.start_append("g", committed("g", 1))
    partition.lose_leadership()
    world.kernel.run_for(100)
    return told


def offset_that_was_loaded(_bench: Any) -> object:
    records = LoadedRecords()
    for offset in (1, 2):
        records.apply(committed("g", offset))
    return [each.offset for each in records.groups()["g"].offsets.values()]


def refusal_after_a_late_stop(world: CoordinatorWorld) -> object:
    partition = world.host_for("g", [committed("g", 1)])
    world.lead_loaded(partition)
    late = StopReplicaPartition(
        partition.topic_partition, False, LeaderEpoch(partition.leader_epoch - 1)
    )
    manager = SimpleNamespace(
        _logs=SimpleNamespace(may_start=lambda key, is_new: True),
        _partitions=world.hosted,
        _toggles=partition._context.toggles,
        _context=partition._context,
    )
    error = ReplicaManager._stop_replica(manager, late, {})  # type: ignore[arg-type]
    return error.name, world.ownership.refusal("g").name


OFFSETS: dict[str, tuple[Probe, object, object]] = {
    "offset_commit_acknowledged_on_append": (
        _in_a_world(answers_before_the_commit),
        [],
        [ErrorCode.NONE],
    ),
    "group_load_stops_early": (
        _in_a_world(refusal_while_the_high_watermark_lags),
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NONE",
    ),
    "group_load_after_unload": (_in_a_world(orders_after_the_lead_was_lost), [], ["take_over"]),
    "deposed_coordinator_acknowledges": (
        _in_a_world(answer_after_the_lead_was_lost),
        [ErrorCode.NOT_COORDINATOR],
        [ErrorCode.NONE],
    ),
    "offset_goes_back": (offset_that_was_loaded, [2], [1]),
    "late_stop_unloads_groups": (
        _in_a_world(refusal_after_a_late_stop),
        ("FENCED_LEADER_EPOCH", "NONE"),
        ("FENCED_LEADER_EPOCH", "NOT_COORDINATOR"),
    ),
}
