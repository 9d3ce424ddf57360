"""Carries out the controller's commands one at a time, in their order, and answers.

Source: ARCHITECTURE.md: one queue in place of Kafka's replicaStateChangeLock.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater_broker.replica_manager import ReplicaManager
from highwater_core.errors import ErrorCode
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import ControllerEpoch, NodeId
from highwater_core.messages import (
    BrokerCommand,
    CommandResponse,
    ControlRequest,
    ControlResponse,
    HoldRequest,
    InspectRequest,
    LeaderAndIsrRequest,
    NodeSnapshot,
    SetFailPointRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    refusal,
)
from highwater_core.runtime import Event, Future, Queue, Runtime, TimedOut

MAX_HOLD_MS = 60_000
"""A call is held no longer, whatever its caller asks for."""
ANNOUNCE_REFUSED_MS = 1_000
"""How long after the last command the controller is asked to repeat refused ones."""


class ControlRequests:
    """The queue of commands and its task.

    Ordering: no command is carried out before the broker is registered. Until then it does not know
    its own epoch, and could not refuse a command for an earlier incarnation.
    """

    def __init__(
        self,
        runtime: Runtime,
        registered: Event,
        replicas: ReplicaManager,
        snapshot: Callable[[], NodeSnapshot],
        fail_points: FailPoints,
        commanded_by: Callable[[NodeId, ControllerEpoch], None],
    ) -> None:
        """commanded_by: is told of the controller of each command, before it is carried out."""
        self._runtime = runtime
        self._registered = registered
        self._replicas = replicas
        self._snapshot = snapshot
        self._fail_points = fail_points
        self._commanded_by = commanded_by
        self._queue: Queue[tuple[BrokerCommand | str, Future[CommandResponse]]] = runtime.queue()
        """A str is the name of a log folder that has failed."""

    async def handle(self, request: ControlRequest) -> ControlResponse:
        """Return the response; for a command after it was carried out in its turn."""
        match request:
            case LeaderAndIsrRequest() | StopReplicaRequest() | UpdateMetadataRequest():
                answer: Future[CommandResponse] = self._runtime.future()
                self._queue.put((request, answer))
                return await answer.wait()
            case InspectRequest():
                return self._snapshot()
            case SetFailPointRequest():
                return self._fail_points.answer(request)
            case HoldRequest():
                await self._runtime.sleep(min(request.hold_ms, MAX_HOLD_MS))
                return CommandResponse(ErrorCode.NONE)
        return refusal(request, ErrorCode.NOT_CONTROLLER)

    def folder_failed(self, name: str) -> None:
        """Take the folder's replicas out of service, between two commands."""
        self._queue.put((name, self._runtime.future()))

    async def run(self) -> None:
        await self._registered.wait()
        while True:
            try:
                request, answer = await self._queue.get(
                    ANNOUNCE_REFUSED_MS if self._replicas.has_refused else None
                )
            except TimedOut:
                self._replicas.announce_refused()
                continue
            if isinstance(request, str):
                self._replicas.fail_folder(request)
                continue
            await self._fail_points.reach(FailPoint.BEFORE_COMMAND)
            if self._replicas.fence(request) is ErrorCode.NONE:
                self._commanded_by(request.controller_id, request.controller_epoch)
            answer.set(await self._replicas.carry_out(request))
