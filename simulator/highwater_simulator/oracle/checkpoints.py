"""I15: a checkpoint lists every hosted partition, and no recovery point is above durable data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition
from highwater_simulator.disk import joined
from highwater_simulator.oracle.checkpoint_text import read_rows
from highwater_simulator.oracle.shadow import ReplicaShadow

if TYPE_CHECKING:
    from highwater_broker.partition import Partition
    from highwater_simulator.world import World

Report = Callable[[TopicPartition | None, str, str, int], None]

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"


class CheckpointChecks:
    """Follows the checkpoints that each broker writes."""

    def __init__(
        self, world: World, shadows: Mapping[str, Mapping[int, ReplicaShadow]], report: Report
    ) -> None:
        self._world = world
        self._shadows = shadows
        self._report = report
        self._hosted: dict[tuple[int, str], tuple[int, tuple[Partition, ...]]] = {}
        """By broker and log folder, incarnation and hosted replicas at the last high watermark
checkpoint."""

    def written(self, event: TraceEvent) -> None:
        """Judge a checkpoint that a broker has just written."""
        if event.detail["file"] == HIGH_WATERMARKS:
            self._check_listed(event)
        elif event.detail["file"] == RECOVERY_POINTS:
            self._check_durable(event)

    def appended(self, broker: int, at: TopicPartition, base_offset: int) -> None:
        """Report an append below the recovery point.

        A power loss may leave any bytes there, and no start checks them. The recovery point counts
        as the file has it, and as the file would have it after a power loss.
        """
        disk = self._world.brokers[broker].disk
        path = joined(self._shadows[str(at)][broker].log_folder, RECOVERY_POINTS)
        visible = bytes(disk.content(path) or b"")
        recovery_point = max(
            _read_again(content).get(at, 0) for content in (visible, disk.durable_content(path))
        )
        if base_offset < recovery_point:
            self._report(
                at,
                "I15",
                f"broker {broker} appends below its recovery point {recovery_point}",
                base_offset,
            )

    def _check_listed(self, event: TraceEvent) -> None:
        """Report hosted replicas that the high watermark checkpoint lacks.

        It must list each replica that was hosted at the previous checkpoint and still is.
        """
        now, key = self._hosted_where(event), (event.node, _folder_of(event))
        incarnation, before = self._hosted.get(key, (event.incarnation, ()))
        # The replica itself: that of a topic created again is another one.
        stayed = [replica for replica in now if any(replica is each for each in before)]
        must = [replica.topic_partition for replica in stayed]
        if incarnation != event.incarnation:
            must = []
        listed = checkpointed_high_watermarks(self._world, event.node)
        for at in must:
            if at not in listed:
                message = f"broker {event.node} hosts it; its high watermark checkpoint does not"
                self._report(at, "I15", f"{message} list it", -1)
        self._hosted[key] = event.incarnation, now

    def _hosted_where(self, event: TraceEvent) -> tuple[Partition, ...]:
        """Return the hosted replicas of the log folder whose checkpoint was written."""
        node, folder = self._world.broker_node(event.node), _folder_of(event)
        hosted = () if node is None else node.replicas.partitions()
        if not folder:
            return hosted
        disk = self._world.brokers[event.node].disk
        return tuple(
            replica
            for replica in hosted
            if joined(folder, str(replica.topic_partition))
            in disk.replica_folders(str(replica.topic_partition))
        )

    def _check_durable(self, event: TraceEvent) -> None:
        log_starts = _checkpointed(self._world, event.node, LOG_STARTS)
        points = _checkpointed(self._world, event.node, RECOVERY_POINTS)
        for partition in self._hosted_where(event):
            at = partition.topic_partition
            shadow = self._shadows.get(str(at), {}).get(event.node)
            if shadow is None or shadow.is_stale:
                continue
            # Batches below the start that is on the disk are not in the log after a power loss.
            durable_end = shadow.durable_end(event.incarnation, log_starts.get(at, 0))
            # The one in memory rises with a log start that is still being written.
            recovery_point = min(points.get(at, 0), partition.log.recovery_point)
            if recovery_point > durable_end:
                self._report(
                    at,
                    "I15",
                    f"broker {event.node} takes its log for durable up to {recovery_point}; "
                    f"it is up to {durable_end}",
                    durable_end,
                )
            missing = shadow.missing_epochs(
                partition.log_start_offset, recovery_point, event.incarnation
            )
            # An epoch that the cache in memory lacks there, too, is a violation of I10, not of
            # durability.
            known = [
                entry.leader_epoch
                for entry in partition.log.epoch_cache.entries
                if entry.start_offset < recovery_point
            ]
            epoch = next((each for each in missing if each in known), None)
            if epoch is not None:
                self._report(
                    at,
                    "I15",
                    f"broker {event.node} takes its log for durable up to {recovery_point}; "
                    f"its epoch file lacks {epoch}",
                    recovery_point,
                )


def checkpointed_high_watermarks(world: World, broker: int) -> dict[TopicPartition, int]:
    """Return the high watermarks in the checkpoint on the broker's disk."""
    return _checkpointed(world, broker, HIGH_WATERMARKS)


def _folder_of(event: TraceEvent) -> str:
    return str(event.detail.get("folder", ""))


def _checkpointed(world: World, broker: int, name: str) -> dict[TopicPartition, int]:
    """Return the offsets in the checkpoints of every log folder.

    Of a partition in several log folders it is the least: a log that was set aside may be listed
    for a while longer.
    """
    disk = world.brokers[broker].disk
    found: dict[TopicPartition, int] = {}
    for folder in disk.log_folders:
        content = disk.content(joined(folder, name))
        for at, offset in read_checkpoint(bytes(content or b"")).items():
            found[at] = min(offset, found.get(at, offset))
    return found


def read_checkpoint(content: bytes) -> dict[TopicPartition, int]:
    """Return the offsets of a whole offset checkpoint, nothing of a broken one."""
    rows = read_rows(content) or []
    return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in rows}


@lru_cache(maxsize=64)
def _read_again(content: bytes) -> Mapping[TopicPartition, int]:
    """Return the same as `read_checkpoint`, cached: each append needs it, and it seldom changes."""
    return read_checkpoint(content)
