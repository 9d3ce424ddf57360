"""A controller node: opens ZooKeeper sessions one after another and runs a Controller in each.

Losing the session ends the controller's term at once, in the middle of any step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from highwater_controller.controller import Controller
from highwater_controller.controller_events import Reply, RequestReceived, to_controller_event
from highwater_controller.registration import publish_endpoint
from highwater_controller.settings import ControllerSettings
from highwater_controller.statistics import count_partitions
from highwater_controller.topic_requests import TopicOutcome
from highwater_core import znodes
from highwater_core.admin_messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    TopicResult,
)
from highwater_core.config import resolve_toggles
from highwater_core.counting_trace import CountingTrace
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import CONTROLLER_FAIL_POINTS, FailPoints
from highwater_core.ids import NO_CONTROLLER_EPOCH, NO_LEADER
from highwater_core.messages import (
    BrokerCommand,
    CommandResponse,
    ControlRequest,
    ControlResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    HoldRequest,
    InspectRequest,
    NodeSnapshot,
    SetFailPointRequest,
    TaskSnapshot,
    refusal,
)
from highwater_core.ports import (
    Coordination,
    CoordinationError,
    CoordinationEvent,
    CoordinationEventKind,
    Ports,
    SessionExpired,
)
from highwater_core.runtime import TimedOut
from highwater_core.session_pace import SessionPace
from highwater_core.znodes import ControllerEndpointZnode

_RESPONSES_ABOUT_TOPICS: Mapping[
    type, Callable[[ErrorCode, tuple[TopicResult, ...]], ControlResponse]
] = {
    CreateTopicsRequest: CreateTopicsResponse,
    DeleteTopicsRequest: DeleteTopicsResponse,
    CreatePartitionsRequest: CreatePartitionsResponse,
}


_WHY_NOT_DONE: Mapping[ErrorCode, str] = {
    ErrorCode.REQUEST_TIMED_OUT: "it is under way, and may complete",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it was deleted meanwhile",
    ErrorCode.UNKNOWN_SERVER_ERROR: "the deletion failed",
}
"""By the outcomes of a topic's wait."""
_COUNTED: Mapping[EventKind, str] = {
    EventKind.CONTROLLER_ELECTED: "elections_won",
    EventKind.LEADER_ELECTED: "leaders_elected",
    EventKind.COMMAND_TIMED_OUT: "commands_timed_out",
    EventKind.COMMAND_DROPPED: "commands_dropped",
    EventKind.TRANSITION_REFUSED: "transitions_refused",
}
"""The kinds of trace events that are counted for snapshots."""


class ControllerNode:
    """One controller container's program, and one simulated controller."""

    def __init__(self, settings: ControllerSettings, ports: Ports) -> None:
        self._settings = settings
        self._toggles = resolve_toggles(settings.preset, settings.toggles)
        self._trace = CountingTrace(ports.trace, _COUNTED)
        ports = replace(ports, trace=self._trace)
        self._ports = ports
        self.fail_points = FailPoints(
            ports.runtime, ports.trace, ports.exit_now, CONTROLLER_FAIL_POINTS
        )
        self._scope = ports.runtime.scope("controller-node")
        self._session_scope = ports.runtime.scope("controller-session")
        self._stopping = ports.runtime.event()
        self._session: Coordination | None = None
        self._controller: Controller | None = None

    async def run(self) -> None:
        """Run until request_stop; then give up /controller at once."""
        trace, settings = self._ports.trace, self._settings
        build: dict[str, Any] = {"build": settings.build} if settings.build else {}
        trace.emit(EventKind.NODE_STARTED, node_kind="controller", preset=settings.preset, **build)
        self._ports.control.serve(self.answer)
        self._scope.spawn("session-thread", self._run_sessions())
        await self._stopping.wait()
        self._scope.cancel()
        self._end_session("the node stops")
        if self._session is not None:
            try:
                await self._session.close()
            except CoordinationError as fault:
                trace.emit(EventKind.SESSION_LOST, session_id=0, reason=type(fault).__name__)
        trace.emit(EventKind.NODE_STOPPED, reason="asked to stop")

    def request_stop(self) -> None:
        """Make run return soon."""
        self._stopping.set()

    # ------------------------------------------------------------ sessions

    async def _run_sessions(self) -> None:
        pace = SessionPace(self._ports.runtime)
        while True:
            await pace.wait()
            session = await self._ports.coordination.open(self._settings.session_timeout_ms)
            self._session = session
            trace = self._ports.trace
            trace.emit(EventKind.SESSION_OPENED, session_id=session.session_id)
            self._controller = Controller(
                self._settings, self._toggles, self._ports, session, self.fail_points
            )
            self._session_scope.spawn(
                "controller-event-thread", self._run_controller(session, self._controller)
            )
            await self._watch_session(session, self._controller)
            trace.emit(EventKind.SESSION_LOST, session_id=session.session_id)
            self._session = None
            self._end_session("the session is lost")

    async def _watch_session(self, session: Coordination, controller: Controller) -> None:
        """Pass fired watches to the controller until the session expires."""
        while True:
            fired = await session.events.get()
            if fired.kind is CoordinationEventKind.SESSION_EXPIRED:
                return
            event = to_controller_event(fired)
            if event is not None:
                controller.enqueue(event)

    def _end_session(self, reason: str) -> None:
        """Stop the controller in the middle of any step."""
        self._session_scope.cancel()
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.resign(reason)

    async def _run_controller(self, session: Coordination, controller: Controller) -> None:
        """Publish this controller's endpoint, then stand for election and handle events.

        Returns when ZooKeeper ends the session, which _watch_session notices too. A session in
        which an operation fails again and again is closed: its /controller is gone at once, and
        this node pauses for a session timeout so that others can be elected.
        """
        endpoint = ControllerEndpointZnode(
            host=self._settings.control_host, port=self._settings.control_port
        )
        try:
            await publish_endpoint(
                session,
                self._ports.runtime,
                self._settings.command_retry_ms,
                self._settings.zookeeper_give_up_ms,
                znodes.controller_endpoint_path(self._settings.node_id),
                znodes.encode(endpoint),
            )
            await controller.run()
        except SessionExpired:
            return
        except CoordinationError as fault:
            self._ports.trace.emit(
                EventKind.SESSION_GIVEN_UP,
                session_id=session.session_id,
                operation=f"{type(fault).__name__}: {fault}",
            )
            await session.close()
            await self._ports.runtime.sleep(self._settings.session_timeout_ms)
            session.events.put(CoordinationEvent(CoordinationEventKind.SESSION_EXPIRED))

    # ------------------------------------------------------------ requests

    async def answer(self, request: ControlRequest) -> ControlResponse:
        """Answer any request of the control plane."""
        if isinstance(request, InspectRequest):
            return self.snapshot()
        if isinstance(request, BrokerCommand | HoldRequest):
            self._ports.trace.emit(
                EventKind.REQUEST_REFUSED,
                request=type(request).__name__,
                error=ErrorCode.INVALID_REQUEST.name,
                reason="a controller takes no broker's commands",
            )
            return CommandResponse(ErrorCode.INVALID_REQUEST)
        if isinstance(request, SetFailPointRequest):
            return self.fail_points.answer(request)
        if self._controller is None:
            return refusal(request, ErrorCode.NOT_CONTROLLER)
        arrived_ms = self._ports.runtime.now_ms()
        reply: Reply = self._ports.runtime.future()
        self._controller.enqueue(RequestReceived(request, reply))
        outcome = await reply.wait()
        if not isinstance(outcome, list):
            return outcome
        if isinstance(request, CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest):
            results = await self._await_all(outcome, arrived_ms + request.timeout_ms)
            return _RESPONSES_ABOUT_TOPICS[type(request)](ErrorCode.NONE, results)
        return refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR)

    async def _await_all(
        self, outcomes: list[TopicOutcome], deadline_ms: int
    ) -> tuple[TopicResult, ...]:
        return tuple([await self._await_topic(outcome, deadline_ms) for outcome in outcomes])

    async def _await_topic(self, outcome: TopicOutcome, deadline_ms: int) -> TopicResult:
        """Wait as long as the client does until the topic has leaders, or is gone."""
        if outcome.done is None:
            return outcome.result
        left_ms = max(0, deadline_ms - self._ports.runtime.now_ms())
        try:
            error = await outcome.done.wait(left_ms)
        except TimedOut:
            error = ErrorCode.REQUEST_TIMED_OUT
        if error is ErrorCode.NONE:
            return outcome.result
        return TopicResult(outcome.result.name, error, _WHY_NOT_DONE[error])

    # ------------------------------------------------------------ inspection

    def snapshot(self) -> NodeSnapshot:
        """Return the node's state at this moment."""
        controller = self._controller
        term = None if controller is None else controller.term
        return NodeSnapshot(
            node_id=self._settings.node_id,
            kind="controller",
            incarnation=self._settings.incarnation,
            preset=self._settings.preset,
            controller_epoch=NO_CONTROLLER_EPOCH if term is None else term.epoch.controller_epoch,
            active_controller=term is not None,
            controller_id=NO_LEADER if controller is None else controller.active_id,
            live_brokers=() if term is None else tuple(term.context.live_brokers),
            tasks=self._tasks(),
            counters=(
                ("events_waiting", 0 if controller is None else controller.queue_depth),
                ("commands_waiting", 0 if term is None else term.channels.depth()),
                ("deletions_failed", 0 if term is None else len(term.context.failed_deletions)),
                *(() if term is None else count_partitions(term.context)),
                *self._trace.counters(),
                *(() if controller is None else controller.event_counters),
            ),
            unanswered_commands=() if term is None else term.channels.unanswered(),
            build=self._settings.build,
        )

    def _tasks(self) -> tuple[TaskSnapshot, ...]:
        term = None if self._controller is None else self._controller.term
        names = [task.name for task in (*self._scope.tasks(), *self._session_scope.tasks())]
        if term is not None:
            names.extend(term.channels.task_names())
        return tuple(TaskSnapshot(name, names.count(name)) for name in sorted(set(names)))
