"""The one place that knows who commands this broker's replicas.

A commander gives the replica manager its commands, one at a time, and takes what the rest of the
broker has to tell: a client's admin request, a proposed ISR, a failed log folder, a stop.
Source: docs/decisions/0010-who-commands-a-replica.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from highwater_broker.current_session import CurrentSession
from highwater_broker.isr_writer import IsrWriter
from highwater_broker.kafka_api.rest_of_broker import Response
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.registration import Registration
from highwater_broker.replica_manager import ReplicaManager
from highwater_broker.settings import BrokerSettings
from highwater_core.config import Toggles
from highwater_core.fail_points import FailPoints
from highwater_core.messages import (
    ControllerCommand,
    ControlRequest,
    ControlResponse,
    NodeSnapshot,
)
from highwater_core.ports import CoordinationEvent, Ports
from highwater_core.runtime import TaskScope


@dataclass(frozen=True, slots=True)
class CommanderParts:
    """The broker's parts that a commander uses."""

    settings: BrokerSettings
    toggles: Toggles
    ports: Ports
    scope: TaskScope
    """Of the broker: it ends with it."""
    session: CurrentSession
    registration: Registration
    replicas: ReplicaManager
    metadata: MetadataCache
    fail_points: FailPoints
    snapshot: Callable[[], NodeSnapshot]


class Commander(Protocol):
    """Commands the replicas.

    Ordering: no command is carried out before the broker is registered, and none while another is.
    """

    @property
    def isr_writer(self) -> IsrWriter:
        """Gets leaders' proposed ISRs written."""
        ...

    def start(self) -> None:
        """Start the commander's tasks in the broker's scope."""
        ...

    async def handle(self, request: ControlRequest) -> ControlResponse:
        """Answer a request on the control plane."""
        ...

    async def call(
        self, request: ControllerCommand, response_type: type[Response], timeout_ms: int
    ) -> Response:
        """Have a client's admin request carried out.

        Raises:
            CallFailed: nobody answered in time; the outcome is unknown.
        """
        ...

    def on_event(self, event: CoordinationEvent) -> None:
        """Take note of the ZooKeeper session's event."""
        ...

    def folder_failed(self, name: str) -> None:
        """Take the log folder's replicas out of service, between two commands."""
        ...

    def folders_changed(self) -> None:
        """Take note that replicas are out of service, or may be possible again."""
        ...

    async def hand_over(self) -> None:
        """Give this broker's leaderships to others, as far as that goes, before a clean stop."""
        ...
