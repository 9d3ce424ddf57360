"""What clients and operators ask for, in the order in which it came; each job is done in steps.

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
"""At most so many jobs wait. Further requests are refused; their brokers send them again later."""


class Work(Protocol):
    """A job that is done a step at a time."""

    @property
    def is_over(self) -> bool: ...

    @property
    def answer(self) -> Outcome | None:
        """What the client is told once the work is over; None where no client asked for it."""
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
    work: Work
    trigger: str
    """What asked for it, as the state-change log has it."""
    received: RequestReceived | None = None
    """None: somebody wrote it into ZooKeeper."""
    has_begun: bool = False


class WaitingJobs:
    """What one term was asked for and has not done yet."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def take_request(self, received: RequestReceived) -> None:
        """Take a request in, or answer that too many wait."""
        if len(self._waiting) >= WAITING_MAX:
            received.reply.set(refusal(received.request, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
            return
        work = _WORKS[type(received.request)](received.request)
        self._waiting.append(_Waiting(work, type(received.request).__name__, received))

    def take_written(self, trigger: str, work: Work) -> None:
        """Take in that an admin znode was written, unless it is still to be read anyway."""
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
        """Answer all requests: of what was begun the outcome stays unknown."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if each.received is not None:
                error = ErrorCode.REQUEST_TIMED_OUT if each.has_begun else ErrorCode.NOT_CONTROLLER
                each.received.reply.set(refusal(each.received.request, error))
