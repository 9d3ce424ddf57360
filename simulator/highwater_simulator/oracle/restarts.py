"""I15 and I16: a restarted broker's high watermarks, and the commands that a broker obeys.

The high watermarks are compared with the checkpoint that the broker last wrote, not with the one
on its disk: a checkpoint that a power loss has torn or undone must not excuse itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import (
    DELETION_EPOCH,
    NO_BROKER_EPOCH,
    NO_EPOCH,
    NO_TOPIC_ID,
    TopicPartition,
)
from highwater_core.messages import ControlRequest, StopReplicaPartition, StopReplicaRequest
from highwater_simulator.failed_folders import failed_folders
from highwater_simulator.oracle.checkpoints import HIGH_WATERMARKS, checkpointed_high_watermarks

if TYPE_CHECKING:
    from highwater_simulator.world import World

_STOP_REPLICA = "StopReplica"

Report = Callable[[TopicPartition | None, str, str, int], None]


class RestartChecks:
    """Follows each broker's incarnations: its checkpoint at the start, the epochs that it obeys."""

    def __init__(self, world: World, report: Report) -> None:
        self._world = world
        self._report = report
        self._checkpointed: dict[int, dict[TopicPartition, int]] = {}
        """By broker, the high watermarks that its replicas must start with, until they have."""
        self._placed: dict[int, list[dict[TopicPartition, int]]] = {}
        """By broker, its checkpoints from the last one that it reported as written on."""
        self._controller_epochs: dict[int, int] = {}
        self._broker_epochs: dict[int, int] = {}
        self._roles: dict[tuple[int, TopicPartition], tuple[str, int]] = {}
        self._stops: dict[tuple[int, int, int], StopReplicaRequest] = {}
        """StopReplicas that arrived, by broker, controller epoch and correlation id."""
        self._just_deleted: dict[tuple[int, TopicPartition], tuple[str, int]] = {}

    def registration(self, broker: int) -> int:
        """Return the broker epoch with which the broker registered last, -1 before the first."""
        return self._broker_epochs.get(broker, NO_BROKER_EPOCH)

    def event_traced(self, event: TraceEvent) -> None:
        at = event.topic_partition
        match event.kind:
            case EventKind.NODE_STARTED:
                self._started(event.node)
            case EventKind.NODE_STOPPED:
                self._stopped(event.node)
            case EventKind.REPLICA_STARTED if at is not None:
                self._replica_started(event, at)
            case EventKind.BROKER_REGISTERED:
                self._broker_epochs[event.node] = event.detail["broker_epoch"]
            case EventKind.CHECKPOINT_WRITTEN if event.detail["file"] == HIGH_WATERMARKS:
                del self._placed.setdefault(event.node, [])[:-1]
            case EventKind.REPLICA_STOPPED if at is not None and event.detail["deleted"]:
                role = self._roles.pop((event.node, at), None)
                if role is not None:
                    self._just_deleted[event.node, at] = role
            case EventKind.REQUEST_HANDLED:
                self._command_handled(event)
                self._stops_handled(event)
            case EventKind.BECAME_LEADER | EventKind.BECAME_FOLLOWER if at is not None:
                self._role_taken(event, at)
            case _:
                pass

    def _started(self, broker: int) -> None:
        self._controller_epochs.pop(broker, None)
        self._roles = {key: role for key, role in self._roles.items() if key[0] != broker}
        placed = self._placed.get(broker)
        if placed is None:
            self._checkpointed[broker] = checkpointed_high_watermarks(self._world, broker)
            return
        self._checkpointed[broker] = {
            at: min(each[at] for each in placed)
            for at in (placed[0] if placed else ())
            if all(at in each for each in placed)
        }

    def _stopped(self, broker: int) -> None:
        """L11: a broker stops by itself only once all of its log folders have failed."""
        handle, failed = self._world.brokers[broker], failed_folders(self._world, broker)
        sound = [each for each in handle.disk.log_folders if each not in failed]
        if failed and sound and not handle.is_asked_to_stop:
            message = f"broker {broker} stops by itself; log folder {sound[0]} has not failed"
            self._report(None, "L11", message, -1)

    def checkpoint_placed(self, broker: int) -> None:
        """Note that a new file took the place of the broker's checkpoint.

        Until the broker reports it as written, a power loss may leave the new file or the old one.
        The first checkpoint has an empty one before it.
        """
        now = checkpointed_high_watermarks(self._world, broker)
        placed = self._placed.setdefault(broker, [])
        if not placed:
            placed.append({})
        placed.append(now)

    def disk_lost(self, broker: int, files: Sequence[str]) -> None:
        """Note that a fault removed or changed files.

        Is a checkpoint of high watermarks among them, the next start is not compared.
        """
        disk = self._world.brokers[broker].disk
        if any(disk.in_log_folder(path)[1] == HIGH_WATERMARKS for path in files):
            self._placed[broker] = []

    def command_arrived(self, broker: int, request: ControlRequest) -> None:
        if isinstance(request, StopReplicaRequest):
            key = broker, int(request.controller_epoch), request.correlation_id
            self._stops[key] = request

    def _replica_started(self, event: TraceEvent, at: TopicPartition) -> None:
        """I15: a high watermark is at least the checkpoint's, or the log's end if that is less."""
        written = self._checkpointed.get(event.node, {}).pop(at, None)
        end_offset = event.offset or 0
        high_watermark = event.detail["high_watermark"]
        if written is not None and high_watermark < min(written, end_offset):
            self._report(
                at,
                "I15",
                f"broker {event.node} starts with high watermark {high_watermark}; checkpointed: "
                f"{written}, log end {end_offset}",
                high_watermark,
            )

    def _command_handled(self, event: TraceEvent) -> None:
        """I16: no command of an older controller, or to an older registration, is obeyed."""
        epoch = event.controller_epoch
        if epoch is None:
            return
        known = self._controller_epochs.get(event.node, epoch)
        if epoch < known:
            self._report(
                None,
                "I16",
                f"broker {event.node} obeyed controller epoch {epoch} after {known}",
                -1,
            )
        self._controller_epochs[event.node] = max(known, epoch)
        told = event.detail.get("broker_epoch", -1)
        registered = self._broker_epochs.get(event.node, -1)
        if 0 <= told < registered:
            self._report(
                None,
                "I16",
                f"broker {event.node} obeyed a command to its registration {told}; it is "
                f"{registered}",
                -1,
            )

    def _stops_handled(self, event: TraceEvent) -> None:
        """I16: no StopReplica of an older leader epoch than the replica's own stops it."""
        deleted, self._just_deleted = self._just_deleted, {}
        if event.detail["request"] != _STOP_REPLICA:
            return
        key = event.node, event.controller_epoch or 0, event.detail["correlation_id"]
        if key not in self._stops:
            return
        for command in self._stops[key].partitions:
            at = command.topic_partition
            role = deleted.get((event.node, at)) or self._roles.get((event.node, at))
            if role is not None and str(at) not in event.detail["refused"]:
                self._check_stop(event.node, command, *role)

    def _check_stop(
        self, broker: int, command: StopReplicaPartition, topic_id: str, known: int
    ) -> None:
        is_fenced = command.leader_epoch not in (NO_EPOCH, DELETION_EPOCH)
        is_same_topic = command.topic_id in (NO_TOPIC_ID, topic_id)
        if is_fenced and is_same_topic and command.leader_epoch < known:
            self._report(
                command.topic_partition,
                "I16",
                f"broker {broker} was stopped in epoch {known} by a command of epoch "
                f"{command.leader_epoch}",
                -1,
            )

    def _role_taken(self, event: TraceEvent, at: TopicPartition) -> None:
        """I16: within one topic id, a broker takes no role of an older leader epoch than before."""
        hosted = self._world.hosted(event.node, at)
        topic_id = "" if hosted is None else str(hosted.topic_id)
        known_id, known = self._roles.get((event.node, at), (topic_id, -1))
        epoch = event.leader_epoch or 0
        if known_id == topic_id and epoch < known:
            self._report(
                at, "I16", f"broker {event.node} took a role of epoch {epoch} after {known}", -1
            )
        self._roles[event.node, at] = topic_id, epoch
