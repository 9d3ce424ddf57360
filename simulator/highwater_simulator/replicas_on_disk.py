"""Reads a replica's log from a simulated broker's disk, for the checks."""

from __future__ import annotations

from dataclasses import replace

from highwater_checker.segments import ReplicaLog, batches_in
from highwater_core.ids import TopicPartition
from highwater_simulator.minima import is_compacted
from highwater_simulator.oracle.shadow import LOG_SUFFIX
from highwater_simulator.world import World


def read_replica(
    world: World, broker_id: int, at: TopicPartition, *, retention: bool = False
) -> ReplicaLog:
    """Return the replica's log from its disk, in any log folder; all records count as committed.

    retention: old segments may be gone; the log starts where its first segment does, else at 0.

    Raises:
        DamagedLog: a segment has bytes that are no whole batch.
    """
    files = world.brokers[broker_id].disk.files()
    segments = [
        (path, content)
        for path, content in files.items()
        if f"/{at}/" in f"/{path}" and path.endswith(LOG_SUFFIX)
    ]
    compacted = is_compacted(world, at.topic)
    batches = batches_in(segments, is_compacted=compacted)
    names = [path.rpartition("/")[2] for path, _ in segments]
    start_offset = int(names[0].removesuffix(LOG_SUFFIX)) if names and retention else 0
    log = ReplicaLog(broker_id, at.topic, at.partition, batches, 0, start_offset, compacted)
    return replace(log, high_watermark=log.log_end_offset)
