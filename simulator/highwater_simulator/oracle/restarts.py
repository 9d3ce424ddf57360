"""I15 and I16: what a restarted broker starts from, and which commands it carries out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_BROKER_EPOCH, TopicPartition
from highwater_simulator.oracle.checkpoints import checkpointed_high_watermarks

if TYPE_CHECKING:
    from highwater_simulator.world import World

Report = Callable[[TopicPartition | None, str, str, int], None]


class RestartChecks:
    """Follows each broker's incarnations: what it read at its start, the epochs it obeys."""

    def __init__(self, world: World, report: Report) -> None:
        self._world = world
        self._report = report
        self._checkpointed: dict[int, dict[TopicPartition, int]] = {}
        self._controller_epochs: dict[int, int] = {}
        self._broker_epochs: dict[int, int] = {}
        self._roles: dict[tuple[int, TopicPartition], tuple[str, int]] = {}

    def registration(self, broker: int) -> int:
        """Return the broker epoch with which the broker registered last, -1 before the first."""
        return self._broker_epochs.get(broker, NO_BROKER_EPOCH)

    def event_traced(self, event: TraceEvent) -> None:
        at = event.topic_partition
        match event.kind:
            case EventKind.NODE_STARTED:
                self._started(event.node)
            case EventKind.REPLICA_STARTED if at is not None:
                self._replica_started(event, at)
            case EventKind.BROKER_REGISTERED:
                self._broker_epochs[event.node] = event.detail["broker_epoch"]
            case EventKind.REPLICA_STOPPED if at is not None and event.detail["deleted"]:
                self._roles.pop((event.node, at), None)
            case EventKind.REQUEST_HANDLED:
                self._command_handled(event)
            case EventKind.BECAME_LEADER | EventKind.BECAME_FOLLOWER if at is not None:
                self._role_taken(event, at)
            case _:
                pass

    def _started(self, broker: int) -> None:
        self._controller_epochs.pop(broker, None)
        self._roles = {key: role for key, role in self._roles.items() if key[0] != broker}
        self._checkpointed[broker] = checkpointed_high_watermarks(self._world, broker)

    def _replica_started(self, event: TraceEvent, at: TopicPartition) -> None:
        """I15: the high watermark is not below what was checkpointed, nor beyond the log."""
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
        """I16: no command of an older controller, or to an older registration of the broker."""
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

    def _role_taken(self, event: TraceEvent, at: TopicPartition) -> None:
        """I16: no role of an older leader epoch; topics told apart by their ids."""
        hosted = self._world.hosted(event.node, at)
        topic_id = "" if hosted is None else str(hosted.topic_id)
        known_id, known = self._roles.get((event.node, at), (topic_id, -1))
        epoch = event.leader_epoch or 0
        if known_id == topic_id and epoch < known:
            self._report(
                at, "I16", f"broker {event.node} took a role of epoch {epoch} after {known}", -1
            )
        self._roles[event.node, at] = topic_id, epoch
