"""The Runtime port over asyncio: time, tasks, events, futures and queues of one event loop.

A wait is one future and, where bounded, one timer; asyncio.wait_for would make a task of each.
Waiters wake in the order in which they began to wait. Cancelling a task raises
asyncio.CancelledError at its current await.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from highwater_adapters.movable_clock import true_time_ns
from highwater_core.check import check
from highwater_core.runtime import TimedOut

T = TypeVar("T")

BUG_EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h: the node stopped because of a bug of its own."""

FailureReport = Callable[[str, BaseException], None]
"""Gets the task's name and the error, logs both and stops the process with BUG_EXIT_CODE."""


class _Waiters:
    """Tasks that wait, oldest first; each is woken with True, or with False by its timer."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[bool]] = []
        """Mostly one: a list, since an empty deque takes 700 bytes, and there are thousands."""

    def wake_one(self) -> bool:
        """Wake the waiter that has waited longest; return whether there was one."""
        while self._waiting:
            waiter = self._waiting.pop(0)
            if not waiter.done():
                waiter.set_result(True)
                return True
        return False

    def wake_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(True)

    async def wait(self, deadline: float | None) -> bool:
        """Return True when woken, False when the loop's clock reached the deadline before."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.append(waiter)
        timer = None if deadline is None else self._loop.call_at(deadline, _expire, waiter)
        woken = False
        try:
            woken = await waiter
        finally:
            if timer is not None:
                timer.cancel()
            if not woken:  # timed out or cancelled
                with contextlib.suppress(ValueError):
                    self._waiting.remove(waiter)
        return woken

    def deadline_after(self, timeout_ms: int | None) -> float | None:
        return None if timeout_ms is None else self._loop.time() + timeout_ms / 1000


def _expire(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


class AsyncioEvent:
    """See highwater_core.runtime.Event."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_set = False
        self._waiters = _Waiters(loop)

    def set(self) -> None:
        self._is_set = True
        self._waiters.wake_all()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self, timeout_ms: int | None = None) -> bool:
        if self._is_set:
            return True
        return await self._waiters.wait(self._waiters.deadline_after(timeout_ms))


class AsyncioFuture(Generic[T]):
    """See highwater_core.runtime.Future."""

    __slots__ = ("_is_set", "_value", "_waiters")

    _value: T

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_set = False
        self._waiters = _Waiters(loop)

    def set(self, value: T) -> None:
        check(not self._is_set, "a future is set once")
        self._value = value
        self._is_set = True
        self._waiters.wake_all()

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self, timeout_ms: int | None = None) -> T:
        if not self._is_set and not await self._waiters.wait(
            self._waiters.deadline_after(timeout_ms)
        ):
            raise TimedOut(f"no value within {timeout_ms} ms")
        return self._value


class AsyncioQueue(Generic[T]):
    """See highwater_core.runtime.Queue.

    A woken task takes the item that is first when it runs.
    """

    __slots__ = ("_items", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._items: deque[T] = deque()
        self._waiters = _Waiters(loop)

    def put(self, item: T) -> None:
        self._items.append(item)
        self._waiters.wake_one()

    def drain(self) -> list[T]:
        items = list(self._items)
        self._items.clear()
        return items

    def __len__(self) -> int:
        return len(self._items)

    async def get(self, timeout_ms: int | None = None) -> T:
        if self._items:
            return self._items.popleft()
        deadline = self._waiters.deadline_after(timeout_ms)
        while not self._items:
            try:
                woken = await self._waiters.wait(deadline)
            except asyncio.CancelledError:
                if self._items:  # perhaps woken, then cancelled before it ran: the next one's turn
                    self._waiters.wake_one()
                raise
            if not woken and not self._items:
                raise TimedOut(f"no item within {timeout_ms} ms")
        return self._items.popleft()


class AsyncioTask:
    """See highwater_core.runtime.Task."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    @property
    def name(self) -> str:
        return self._task.get_name()

    def is_done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        check(asyncio.current_task() is not self._task, f"{self.name} cancels itself")
        self._task.cancel()


class AsyncioTaskScope:
    """See highwater_core.runtime.TaskScope."""

    def __init__(self, runtime: AsyncioRuntime, name: str) -> None:
        self._runtime = runtime
        self._tasks: dict[asyncio.Task[None], AsyncioTask] = {}
        self.name = name

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> AsyncioTask:
        task = self._runtime.loop.create_task(work, name=name)
        self._tasks[task] = AsyncioTask(task)
        task.add_done_callback(self._settle)
        return self._tasks[task]

    def tasks(self) -> tuple[AsyncioTask, ...]:
        return tuple(task for task in self._tasks.values() if not task.is_done())

    def cancel(self) -> None:
        for task in self.tasks():
            task.cancel()

    def _settle(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._runtime.fail(task.get_name(), error)


class AsyncioRuntime:
    """See highwater_core.runtime.Runtime. Made inside its running loop."""

    def __init__(self, report_failure: FailureReport) -> None:
        self.loop = asyncio.get_running_loop()
        self._report_failure = report_failure

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_clock_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def true_time_ms(self) -> int:
        return true_time_ns() // 1_000_000

    async def sleep(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)

    def event(self) -> AsyncioEvent:
        return AsyncioEvent(self.loop)

    def future(self) -> AsyncioFuture[Any]:
        return AsyncioFuture(self.loop)

    def queue(self) -> AsyncioQueue[Any]:
        return AsyncioQueue(self.loop)

    def scope(self, name: str) -> AsyncioTaskScope:
        return AsyncioTaskScope(self, name)

    def fail(self, task_name: str, error: BaseException) -> None:
        self._report_failure(task_name, error)
