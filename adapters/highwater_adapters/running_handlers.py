"""Runs one connection's handlers: without a task up to a handler's second wait, then with one.

Ordering: `start` runs a handler up to its first wait. `cancel` raises asyncio.CancelledError where
each handler waits, as cancelling a task does.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Generator
from types import coroutine as generator_coroutine
from typing import Any, Generic, TypeVar

from highwater_core.check import BugFound
from highwater_wire.kafka.messages import KafkaAnswer

K = TypeVar("K")
Work = Coroutine[Any, Any, KafkaAnswer]

_ENDED = object()
"""The result of a step whose handler has ended."""


class RunningHandlers(Generic[K]):
    """The running handlers, each with a key of its own.

    settle: called with the response of each one that ends.
    report_bug: called with the exception of one that fails.
    """

    __slots__ = ("_first_waits", "_loop", "_report_bug", "_settle", "_tasks")

    def __init__(
        self,
        settle: Callable[[K, KafkaAnswer], None],
        report_bug: Callable[[K, BaseException], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._settle = settle
        self._report_bug = report_bug
        self._first_waits: dict[K, Work] = {}
        self._tasks: dict[asyncio.Task[None], Work] = {}

    def start(self, key: K, work: Work) -> None:
        awaited = self._step(key, work)
        if isinstance(awaited, asyncio.Future):
            # Most requests wait once, for one future: no task is made for them.
            awaited._asyncio_future_blocking = False  # as a task does with its future
            self._first_waits[key] = work
            awaited.add_done_callback(functools.partial(self._resume, key))
        elif awaited is not _ENDED:
            self._make_task(key, work, awaited)

    def cancel(self) -> None:
        """End every waiting handler; one that waits again in the end becomes a task."""
        works, self._first_waits = self._first_waits, {}
        for key, work in works.items():
            awaited = self._cancel_first_wait(key, work)
            if awaited is not _ENDED:
                self._make_task(key, work, awaited)
        for task in tuple(self._tasks):
            task.cancel()

    def _resume(self, key: K, _awaited: asyncio.Future[Any]) -> None:
        """Resume a handler whose first wait is over; a second wait makes it a task."""
        work = self._first_waits.pop(key, None)
        if work is None:
            return  # cancelled meanwhile
        awaited = self._step(key, work)
        if awaited is not _ENDED:
            self._make_task(key, work, awaited)

    def _step(self, key: K, work: Work) -> Any:
        """Run the handler up to its next wait; return its future, or _ENDED."""
        try:
            return work.send(None)
        except StopIteration as stop:
            self._settle(key, stop.value)
        except (Exception, BugFound) as error:  # noqa: BLE001 (reported whole, the node stops)
            self._report_bug(key, error)
        return _ENDED

    def _cancel_first_wait(self, key: K, work: Work) -> Any:
        try:
            return work.throw(asyncio.CancelledError())
        except (StopIteration, asyncio.CancelledError):
            pass  # no client gets the answer
        except (Exception, BugFound) as error:  # noqa: BLE001 (reported whole, the node stops)
            self._report_bug(key, error)
        return _ENDED

    def _make_task(self, key: K, work: Work, awaited: Any) -> None:
        if awaited is not None:
            awaited._asyncio_future_blocking = False  # others may await it before the task does
        task = self._loop.create_task(self._finish(key, _go_on(work, awaited)))
        self._tasks[task] = work
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task).close()  # from a task that was cancelled before its first step

    async def _finish(self, key: K, work: Work) -> None:
        try:
            response = await work
        except (Exception, BugFound) as error:  # noqa: BLE001 (reported whole, the node stops)
            self._report_bug(key, error)
        else:
            self._settle(key, response)


@generator_coroutine
def _go_on(work: Work, awaited: Any) -> Generator[Any, Any, KafkaAnswer]:
    """Resume, within a task, a coroutine that was started outside one and awaits a future."""
    if awaited is not None:
        awaited._asyncio_future_blocking = True  # as a task's step yields it
    while True:
        thrown: BaseException | None = None
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001 (the future's, or a cancellation: passed on)
            thrown = error
        if thrown is None:
            answer: KafkaAnswer = yield from work
            return answer
        try:
            awaited = work.throw(thrown)
        except StopIteration as stop:
            response: KafkaAnswer = stop.value
            return response
