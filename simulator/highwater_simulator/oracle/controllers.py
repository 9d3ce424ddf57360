"""I8, and I16 for controllers: one controller per epoch, and no writes once another is elected."""

from __future__ import annotations

from collections.abc import Callable

from highwater_checker.invariants.transitions import wrong_transition
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.znodes import PartitionLeadership

Report = Callable[[TopicPartition | None, str, str], None]


class ControllerChecks:
    """Follows /controller_epoch and the controllers that wrote under it."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._elected: dict[int, int] = {}
        self._epoch_of: dict[int, int] = {}
        """The latest epoch of each controller."""
        self._epoch = 0

    def elected(self, event: TraceEvent) -> None:
        """I8: a controller epoch belongs to one controller."""
        if event.controller_epoch is None:
            return
        self._epoch_of[event.node] = event.controller_epoch
        known = self._elected.setdefault(event.controller_epoch, event.node)
        if known != event.node:
            self._report(
                None, "I8", f"{known} and {event.node} both hold controller epoch "
                f"{event.controller_epoch}",
            )  # fmt: skip

    def state_change(self, event: TraceEvent) -> None:
        """I12: partitions and replicas reach a state only from those before it, and no other change
        is attempted."""
        wrong = wrong_transition(event)
        if wrong is not None:
            self._report(event.topic_partition, "I12", wrong)

    def epoch_written(self, data: bytes) -> None:
        """I7: the controller epoch only rises."""
        epoch = int(data or b"0")
        if epoch < self._epoch:
            self._report(None, "I7", f"the controller epoch fell from {self._epoch} to {epoch}")
        self._epoch = epoch

    def topic_written(self, author: int, topic: str) -> None:
        """I8, for the creation and the deletion of a topic, and the requests for them."""
        epoch = self._epoch_of.get(author, self._epoch)
        if epoch < self._epoch:
            self._report(
                None,
                "I8",
                f"controller {author} created or deleted topic {topic} with controller epoch "
                f"{epoch}; {self._epoch} is elected",
            )

    def leadership_written(
        self, at: TopicPartition, author: str, after: PartitionLeadership
    ) -> None:
        """I8: no controller writes under its epoch once another controller has a later one."""
        if author.startswith("controller") and after.controller_epoch < self._epoch:
            self._report(
                at,
                "I8",
                f"{author} wrote with controller epoch {after.controller_epoch}; "
                f"{self._epoch} is elected",
            )
