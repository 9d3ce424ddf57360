"""A broker's link with its controller: commands that come over gRPC, and what the broker reports.

Source: V3 design; ARCHITECTURE.md.
"""

from __future__ import annotations

from highwater_broker.commander import CommanderParts
from highwater_broker.control_requests import ControlRequests
from highwater_broker.controller_client import ControllerClient
from highwater_broker.isr_change_notifier import IsrChangeNotifier
from highwater_broker.isr_writer import IsrWriter, make_isr_writer
from highwater_broker.kafka_api.rest_of_broker import Response
from highwater_broker.log_folder_announcer import LogFolderAnnouncer
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_core.messages import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControllerCommand,
)
from highwater_core.ports import CallFailed, CoordinationEvent


class ControllerCommands:
    """The commander of brokers with a controller."""

    def __init__(self, parts: CommanderParts) -> None:
        self._parts = parts
        settings, runtime, session = parts.settings, parts.ports.runtime, parts.session
        self._controller = ControllerClient(
            session, parts.ports.control, runtime, parts.scope, settings.controller_retry_ms
        )
        self._notifier = IsrChangeNotifier(settings, runtime, session)
        self._announcer = LogFolderAnnouncer(settings.broker_id, runtime, session)
        self._requests = ControlRequests(
            runtime,
            parts.registration.registered,
            parts.replicas,
            parts.snapshot,
            parts.fail_points,
            self._controller.commanded_by,
        )
        self.isr_writer: IsrWriter = make_isr_writer(
            settings,
            parts.toggles,
            runtime,
            self._controller,
            session,
            parts.registration,
            self._notifier,
            parts.fail_points,
        )
        self.handle = self._requests.handle
        self.folder_failed = self._requests.folder_failed
        self.folders_changed = self._announcer.changed

    def start(self) -> None:
        scope = self._parts.scope
        scope.spawn("ControlRequestHandler", self._requests.run())
        scope.spawn("IsrWriter", self.isr_writer.run())
        scope.spawn("IsrChangeNotifier", self._notifier.run())
        scope.spawn("LogFolderAnnouncer", self._announcer.run())

    async def call(
        self, request: ControllerCommand, response_type: type[Response], timeout_ms: int
    ) -> Response:
        return await self._controller.call(request, response_type, timeout_ms)

    def on_event(self, event: CoordinationEvent) -> None:
        """Do nothing: the controller watches for this broker."""

    async def hand_over(self) -> None:
        """Ask the controller to move this broker's leaderships; stop anyway after some attempts.

        The last answer is traced.
        """
        settings, ports = self._parts.settings, self._parts.ports
        attempts, error = 0, ""
        remaining: tuple[TopicPartition, ...] = ()
        while attempts < settings.controlled_shutdown_attempts:
            if attempts:
                await ports.runtime.sleep(settings.controlled_shutdown_retry_ms)
            attempts += 1
            request = ControlledShutdownRequest(
                settings.broker_id, self._parts.registration.broker_epoch
            )
            try:
                response = await self._controller.call(
                    request, ControlledShutdownResponse, settings.controlled_shutdown_timeout_ms
                )
            except CallFailed as failure:
                error = str(failure)
                continue
            error, remaining = response.error.name, response.remaining
            if response.error is ErrorCode.NONE and not remaining:
                break
        ports.trace.emit(
            EventKind.LEADERSHIPS_HANDED_OVER,
            attempts=attempts,
            error=error[:300],
            remaining=[str(partition) for partition in remaining],
        )
