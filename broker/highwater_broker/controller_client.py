"""Calls the active controller, and finds the next one after a change.

Source: docs/explanation/replication.md, "ZooKeeper's tree" (`/controller`).
"""

from __future__ import annotations

from typing import TypeVar

from highwater_broker.current_session import CurrentSession
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, NodeId
from highwater_core.messages import ControllerCommand, ControllerResponse, ControlResponse
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


class ControllerClient:
    """Looks the controller up in ZooKeeper and remembers it while it answers as active."""

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
        self._endpoint: Endpoint | None = None
        self._look_up: Future[Endpoint | None] | None = None
        """The look-up under way, which all callers share."""
        self._last_retry_ms = 0
        """When the last request that a busy controller refused is sent again."""

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
                endpoint = self._endpoint or await self._find(remaining_ms)
                remaining_ms = deadline_ms - self._runtime.now_ms()
                response = await self._control.call(endpoint, request, remaining_ms)
                answer = _as_answer(request, response, response_type)
                if answer.error is not ErrorCode.NOT_CONTROLLER:
                    self._endpoint = endpoint
                    if answer.error is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                        return answer
                    await self._await_retry(deadline_ms)
                    continue
            except CallFailed as failure:
                was_sent = was_sent or failure.sent
            self._endpoint = None
            left_ms = max(0, deadline_ms - self._runtime.now_ms())
            await self._runtime.sleep(min(self._retry_ms, left_ms))
        raise CallFailed(f"no active controller answered within {timeout_ms} ms", sent=was_sent)

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

    async def _find(self, timeout_ms: int) -> Endpoint:
        """Return the active controller's endpoint.

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
        if found is None:
            raise CallFailed("no controller is elected", sent=False)
        return found

    async def _look_up_once(self, found: Future[Endpoint | None]) -> None:
        endpoint: Endpoint | None = None
        try:
            endpoint = await self._read_endpoint()
        except (CoordinationError, MalformedZnode):
            pass  # no controller is elected, or ZooKeeper is unreachable: callers retry
        finally:
            self._look_up = None
        found.set(endpoint)

    async def _read_endpoint(self) -> Endpoint:
        """Return where the active controller answers.

        Raises:
            NoNode: no controller is elected, or its endpoint is not published (yet).
            CoordinationError, MalformedZnode: it cannot be read.
        """
        session = self._session.get()
        data, _ = await session.get(CONTROLLER)
        controller = NodeId(decode(ControllerZnode, data, CONTROLLER).brokerid)
        path = controller_endpoint_path(controller)
        data, _ = await session.get(path)
        found = decode(ControllerEndpointZnode, data, path)
        return Endpoint(found.host, found.port)
