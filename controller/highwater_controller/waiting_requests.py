"""What clients ask for, in the order in which it came; each request is worked on in steps.

One may name thousands of topics or partitions, and many may come at once. Whatever else happens is
handled between two steps: no failover, no ISR change and no broker that stops waits for longer.
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
"""At most so many requests wait. Further ones are refused; their brokers send them again later."""


class Work(Protocol):
    """A request that is carried out a step at a time."""

    @property
    def is_over(self) -> bool: ...

    @property
    def answer(self) -> Outcome:
        """What the client is told once the work is over."""
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
    """Return whether the request is worked on in steps."""
    return type(request) in _WORKS


@dataclass(slots=True)
class _Waiting:
    received: RequestReceived
    work: Work
    has_begun: bool = False


class WaitingRequests:
    """What clients have asked one term for and is not answered yet."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, received: RequestReceived) -> None:
        """Take a request in, or answer that too many wait."""
        if len(self._waiting) >= WAITING_MAX:
            received.reply.set(refusal(received.request, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
            return
        work = _WORKS[type(received.request)](received.request)
        self._waiting.append(_Waiting(received, work))

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Do a step of the oldest request, and answer it if that was its last."""
        oldest = self._waiting[0]
        oldest.has_begun = True
        term.context.trigger = type(oldest.received.request).__name__
        await oldest.work.step(term, make_done)
        if oldest.work.is_over:
            self._waiting.popleft()
            oldest.received.reply.set(oldest.work.answer)

    def abandon(self) -> None:
        """Answer all: of what was begun the outcome stays unknown."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            error = ErrorCode.REQUEST_TIMED_OUT if each.has_begun else ErrorCode.NOT_CONTROLLER
            each.received.reply.set(refusal(each.received.request, error))
