"""Jobs of clients and operators, in their order of arrival; each is done in steps.

A job may name thousands of topics or partitions, and many jobs may come at once. Other events are
handled between two steps: a failover, an ISR change or a broker's shutdown waits for one step at
most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from highwater_controller.config_requests import Altering
from highwater_controller.controller_events import Outcome, RequestReceived
from highwater_controller.leader_elections import Electing
from highwater_controller.partition_requests import Expansion
from highwater_controller.reassignment_requests import Reassigning
from highwater_controller.term import Term
from highwater_controller.topic_requests import Creation, Deletion
from highwater_controller.topic_waits import Done
from highwater_core.admin_messages import (
    AlterConfigsRequest,
    AlterReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
)
from highwater_core.errors import ErrorCode
from highwater_core.messages import (
    ControllerCommand,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    refusal,
)

WAITING_MAX = 100
"""Most waiting jobs. Further requests are refused; their brokers send them again later."""


class Work(Protocol):
    """A job that is done a step at a time."""

    @property
    def is_over(self) -> bool: ...

    @property
    def answer(self) -> Outcome | None:
        """The answer to the client once the work is over; None for a job without a client."""
        ...

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None: ...


_WORKS: dict[type[ControllerCommand], Callable[[Any], Work]] = {
    CreateTopicsRequest: Creation,
    DeleteTopicsRequest: Deletion,
    CreatePartitionsRequest: Expansion,
    ElectLeadersRequest: Electing,
    AlterReassignmentsRequest: Reassigning,
    AlterConfigsRequest: Altering,
}


def is_stepwise(request: ControllerCommand) -> bool:
    """Return whether the request is done in steps."""
    return type(request) in _WORKS


@dataclass(slots=True)
class _Waiting:
    work: Work
    trigger: str
    """The request or znode of the job, for the state-change log."""
    received: RequestReceived | None = None
    """None: the job is from an admin znode."""
    has_begun: bool = False


class WaitingJobs:
    """The jobs of one term that are not done yet."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def take_request(self, received: RequestReceived) -> None:
        """Queue a request, or answer that too many wait."""
        if len(self._waiting) >= WAITING_MAX:
            received.reply.set(refusal(received.request, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
            return
        work = _WORKS[type(received.request)](received.request)
        self._waiting.append(_Waiting(work, type(received.request).__name__, received))

    def take_written(self, trigger: str, work: Work) -> None:
        """Queue an admin znode that was written, unless it is queued already."""
        if not any(each.trigger == trigger and not each.has_begun for each in self._waiting):
            self._waiting.append(_Waiting(work, trigger))

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Do a step of the oldest job, and answer it if that was its last."""
        oldest = self._waiting[0]
        oldest.has_begun = True
        term.context.trigger = oldest.trigger
        await oldest.work.step(term, make_done)
        if not oldest.work.is_over:
            return
        self._waiting.popleft()
        answer = oldest.work.answer
        if oldest.received is not None and answer is not None:
            oldest.received.reply.set(answer)

    def abandon(self) -> None:
        """Answer all requests with an unknown outcome."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if each.received is not None:
                error = ErrorCode.REQUEST_TIMED_OUT if each.has_begun else ErrorCode.NOT_CONTROLLER
                each.received.reply.set(refusal(each.received.request, error))
