"""Checks one partition at a simulation's end, with the checker's checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from highwater_checker.history import HistoryEvent, sends_of
from highwater_checker.invariants.acknowledged_records import check_acknowledged_records
from highwater_checker.invariants.leader_uniqueness import check_leader_uniqueness
from highwater_checker.invariants.replica_equality import check_replica_equality
from highwater_checker.segments import ReplicaLog
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_simulator.replicas_on_disk import read_replica
from highwater_simulator.world import World


def values_of(log: ReplicaLog) -> list[tuple[int, bytes]]:
    """Return (offset, value) of each record, in order."""
    return [(offset, value or b"") for each in log.batches for offset, _, value in each.records()]


def find_differences(logs: Sequence[ReplicaLog]) -> list[str]:
    """Return the places where replicas differ from the first one; they should be equal."""
    end_offset = max(log.high_watermark for log in logs)
    whole = [replace(log, high_watermark=end_offset) for log in logs]
    return [str(finding) for finding in check_replica_equality(whole).findings]


def find_bad_epochs(world: World, at: TopicPartition) -> list[str]:
    """Return each leader epoch of the partition in which more than one broker led."""
    told = world.trace.events(
        EventKind.BECAME_LEADER, EventKind.TOPICS_CHANGED, EventKind.TOPIC_DELETED
    )
    own = [event for event in told if event.topic_partition in (at, None)]
    return [str(finding) for finding in check_leader_uniqueness(own).findings]


def verify(
    world: World,
    history: Iterable[HistoryEvent],
    at: TopicPartition,
    broker_ids: Iterable[int],
    *,
    retention: bool = False,
) -> list[str]:
    """Return every problem of a partition whose replicas should be equal by now.

    retention: the logs may have different starts.
    """
    logs = [read_replica(world, each, at, retention=retention) for each in broker_ids]
    acknowledged = [
        send
        for send in sends_of(history).acknowledged
        if (send.topic, send.partition) == (at.topic, at.partition)
    ]
    lost = check_acknowledged_records(acknowledged, logs).findings
    return [*find_differences(logs), *map(str, lost), *find_bad_epochs(world, at)]
