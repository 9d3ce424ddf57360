"""Calls the active controller, and finds the next one after a change.

A controller that ZooKeeper alone cannot reach does not know that its term is over, and answers from
memory. Whoever commands this broker at a higher epoch is its successor.
Source: docs/explanation/replication.md, "ZooKeeper's tree" (`/controller`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from highwater_broker.current_session import CurrentSession
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    NO_CONTROLLER_EPOCH,
    NO_LEADER,
    ControllerEpoch,
    Endpoint,
    NodeId,
)
from highwater_core.messages import (
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControllerCommand,
    ControllerResponse,
    ControlResponse,
)
from highwater_core.ports import CallFailed, ControlPlane, CoordinationError
from highwater_core.runtime import Future, Runtime, TaskScope, TimedOut
from highwater_core.znodes import (
    CONTROLLER,
    ControllerEndpointZnode,
    ControllerZnode,
    MalformedZnode,
    controller_endpoint_path,
    decode,
)

Response = TypeVar("Response", bound=ControllerResponse)

BUSY_RETRY_MS = 100
"""The time between two retries to a controller that has too many requests."""


def _as_answer(
    request: ControllerCommand, response: ControlResponse, response_type: type[Response]
) -> Response:
    """Return the response if it is of the request's kind.

    Raises:
        CallFailed: it is another response; the outcome is unknown.
    """
    if isinstance(response, response_type):
        return response
    raise CallFailed(f"{type(request).__name__} was answered with {type(response).__name__}")


@dataclass(frozen=True, slots=True)
class _FoundController:
    """A controller that ZooKeeper named, and the known controller epoch when it was asked."""

    controller_id: NodeId
    endpoint: Endpoint
    known_epoch: ControllerEpoch


class ControllerClient:
    """Looks the controller up in ZooKeeper, and remembers it while it answers as active.

    It is forgotten once another one commands this broker at a higher controller epoch.
    """

    def __init__(
        self,
        session: CurrentSession,
        control: ControlPlane,
        runtime: Runtime,
        scope: TaskScope,
        retry_ms: int,
    ) -> None:
        """scope: ends the look-ups without a waiting caller."""
        self._session = session
        self._control = control
        self._runtime = runtime
        self._scope = scope
        self._retry_ms = retry_ms
        self._found: _FoundController | None = None
        self._look_up: Future[_FoundController | None] | None = None
        """The look-up under way, which all callers share."""
        self._commander = NO_LEADER
        self._controller_epoch = NO_CONTROLLER_EPOCH
        """Who commands this broker at the highest epoch, and that epoch."""
        self._under_way: dict[Future[ControlResponse | CallFailed], _FoundController] = {}
        self._last_retry_ms = 0
        """When the last request that a busy controller refused is sent again."""

    def commanded_by(self, controller_id: NodeId, controller_epoch: ControllerEpoch) -> None:
        """Take note of who commands this broker; calls to the controller before it are given up."""
        if controller_epoch <= self._controller_epoch:
            return
        self._commander, self._controller_epoch = controller_id, controller_epoch
        for answer, asked in tuple(self._under_way.items()):
            if self._is_deposed(asked) and not answer.is_set():
                answer.set(CallFailed(f"controller {controller_id} is its successor"))

    def _is_deposed(self, found: _FoundController) -> bool:
        """Return whether another controller commands this broker since this one was looked up."""
        is_earlier = found.known_epoch < self._controller_epoch
        return is_earlier and found.controller_id != self._commander

    async def call(
        self, request: ControllerCommand, response_type: type[Response], timeout_ms: int
    ) -> Response:
        """Return the active controller's answer, retrying until timeout_ms have passed.

        A request may be carried out more than once: after a lost answer it is sent again.

        Raises:
            CallFailed: no active controller answered in time; the outcome is unknown.
        """
        deadline_ms = self._runtime.now_ms() + timeout_ms
        was_sent = False
        while (remaining_ms := deadline_ms - self._runtime.now_ms()) > 0:
            try:
                found = self._found
                if found is None or self._is_deposed(found):
                    found = await self._find(remaining_ms)
                remaining_ms = deadline_ms - self._runtime.now_ms()
                response = await self._ask(found, request, remaining_ms)
                answer = _as_answer(request, response, response_type)
                if answer.error is not ErrorCode.NOT_CONTROLLER:
                    self._found = found
                    if answer.error is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                        return answer
                    await self._await_retry(deadline_ms)
                    continue
            except CallFailed as failure:
                was_sent = was_sent or failure.sent
            self._found = None
            left_ms = max(0, deadline_ms - self._runtime.now_ms())
            await self._runtime.sleep(min(self._retry_ms, left_ms))
        raise CallFailed(f"no active controller answered within {timeout_ms} ms", sent=was_sent)

    async def _ask(
        self, found: _FoundController, request: ControllerCommand, timeout_ms: int
    ) -> ControlResponse:
        """Return the controller's answer.

        Raises:
            CallFailed: the call failed, or another controller commands this broker meanwhile.
        """
        if isinstance(request, AlterPartitionRequest | ControlledShutdownRequest):
            request = replace(request, controller_epoch=self._controller_epoch)
        answer: Future[ControlResponse | CallFailed] = self._runtime.future()

        async def ask() -> None:
            outcome: ControlResponse | CallFailed
            try:
                outcome = await self._control.call(found.endpoint, request, timeout_ms)
            except CallFailed as failure:
                outcome = failure
            if not answer.is_set():
                answer.set(outcome)

        task = self._scope.spawn("ControllerCall", ask())
        self._under_way[answer] = found
        try:
            outcome = await answer.wait()
        finally:
            del self._under_way[answer]
            if not task.is_done():
                task.cancel()
        if isinstance(outcome, CallFailed):
            raise outcome
        return outcome

    async def _await_retry(self, deadline_ms: int) -> None:
        """Sleep until it is the caller's turn to retry, or until its deadline.

        Only one refused request is sent again every BUSY_RETRY_MS: requests may be large, and the
        controller has to read each.
        """
        now_ms = self._runtime.now_ms()
        retry_ms = max(now_ms, self._last_retry_ms) + BUSY_RETRY_MS
        if retry_ms < deadline_ms:  # otherwise later requests would wait for its unused turn
            self._last_retry_ms = retry_ms
        await self._runtime.sleep(max(0, min(retry_ms, deadline_ms) - now_ms))

    async def _find(self, timeout_ms: int) -> _FoundController:
        """Return the active controller.

        Raises:
            CallFailed: there is none, or ZooKeeper did not answer within timeout_ms.
        """
        if self._look_up is None:
            self._look_up = self._runtime.future()
            self._scope.spawn("ControllerLookUp", self._look_up_once(self._look_up))
        try:
            found = await self._look_up.wait(timeout_ms)
        except TimedOut:
            raise CallFailed("ZooKeeper did not say who the controller is", sent=False) from None
        if found is None or self._is_deposed(found):
            raise CallFailed("no controller is elected", sent=False)
        return found

    async def _look_up_once(self, answer: Future[_FoundController | None]) -> None:
        found: _FoundController | None = None
        try:
            found = await self._read_controller()
        except (CoordinationError, MalformedZnode):
            pass  # no controller is elected, or ZooKeeper is unreachable: callers retry
        finally:
            self._look_up = None
        answer.set(found)

    async def _read_controller(self) -> _FoundController:
        """Return the active controller, and where it answers.

        Raises:
            NoNode: no controller is elected, or its endpoint is not published (yet).
            CoordinationError, MalformedZnode: it cannot be read.
        """
        known_epoch = self._controller_epoch
        session = self._session.get()
        data, _ = await session.get(CONTROLLER)
        controller = NodeId(decode(ControllerZnode, data, CONTROLLER).brokerid)
        path = controller_endpoint_path(controller)
        data, _ = await session.get(path)
        at = decode(ControllerEndpointZnode, data, path)
        return _FoundController(controller, Endpoint(at.host, at.port), known_epoch)
