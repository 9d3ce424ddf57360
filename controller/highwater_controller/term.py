"""One term of the active controller, which its procedures get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from highwater_controller.broker_channels import BrokerChannels
from highwater_controller.context import ControllerContext
from highwater_controller.settings import ControllerSettings
from highwater_controller.store import ControllerStore, TermEpoch
from highwater_controller.topic_waits import TopicWaits
from highwater_core.config import Toggles
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoints
from highwater_core.ids import NO_TOPIC_ID, TopicPartition
from highwater_core.ports import Rng, Trace
from highwater_core.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Term:
    """All state that ends when the controller resigns; procedures take it as first argument."""

    epoch: TermEpoch
    settings: ControllerSettings
    toggles: Toggles
    context: ControllerContext
    store: ControllerStore
    channels: BrokerChannels
    waits: TopicWaits
    runtime: Runtime
    rng: Rng
    trace: Trace
    fail_points: FailPoints

    def emit(self, kind: EventKind, partition: TopicPartition | None = None, **detail: Any) -> None:
        """Trace an event of this term, about a partition where one is named."""
        topic, number = (None, None) if partition is None else partition
        self.trace.emit(
            kind,
            topic=topic,
            topic_id=NO_TOPIC_ID if topic is None else self.context.topic_id(topic),
            partition=number,
            controller_epoch=self.epoch.controller_epoch,
            **detail,
        )
