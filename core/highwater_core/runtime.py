"""The runtime that node code awaits: time, tasks, queues, events. It never awaits asyncio itself.

Two runtimes implement these protocols: highwater_adapters.asyncio_runtime in containers and
highwater_simulator.kernel in virtual time; one suite in tests/contract tests both. Node code may
await only the awaitables of these protocols and of highwater_core.ports, so that all code between
two awaits is atomic in both worlds.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class TimedOut(Exception):
    """A bounded wait passed its bound. The awaited event may still happen."""


class TaskCancelled(BaseException):
    """Raised in a task that its scope cancels, at its current await.

    The asyncio runtime throws asyncio.CancelledError instead; node code catches neither. It
    cleans up in `finally`, without awaiting there.
    """


class Event(Protocol):
    """A flag that tasks wait for; waiters wake in the order in which they began to wait."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    async def wait(self, timeout_ms: int | None = None) -> bool:
        """Return True once the flag is set, False when timeout_ms passed first."""
        ...


class Future(Protocol, Generic[T]):
    """A value that is set at most once and that any number of tasks may wait for."""

    def set(self, value: T) -> None:
        """Set the value and wake the waiters; a second call is a bug."""
        ...

    def is_set(self) -> bool: ...

    async def wait(self, timeout_ms: int | None = None) -> T:
        """Return the value.

        Raises:
            TimedOut: timeout_ms passed first; the value may still come.
        """
        ...


class Queue(Protocol, Generic[T]):
    """An unbounded first-in first-out queue (KAFKA-1305: a full queue must never hold a lock)."""

    def put(self, item: T) -> None: ...

    def drain(self) -> list[T]:
        """Remove and return all items, oldest first."""
        ...

    def __len__(self) -> int: ...

    async def get(self, timeout_ms: int | None = None) -> T:
        """Remove and return the oldest item.

        Raises:
            TimedOut: timeout_ms passed first.
        """
        ...


class Task(Protocol):
    """A running coroutine, with its name in traces and `status`."""

    @property
    def name(self) -> str: ...

    def is_done(self) -> bool: ...

    def cancel(self) -> None:
        """Stop the task at its current await; it takes no further step of its body after that.

        A task must not cancel itself this way: it returns.
        """
        ...


class TaskScope(Protocol):
    """Owns tasks, so that none outlives its purpose.

    An exception that a task does not catch is a bug of ours: the scope passes it to Runtime.fail.
    """

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> Task: ...

    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks that still run, oldest first."""
        ...

    def cancel(self) -> None:
        """Cancel every task, oldest first, without waiting; more may be spawned afterwards."""
        ...


class Runtime(Protocol):
    """Time and concurrency of one node."""

    def now_ns(self) -> int:
        """Return monotonic nanoseconds; only differences have a meaning."""
        ...

    def now_ms(self) -> int:
        """Return monotonic milliseconds, now_ns rounded down."""
        ...

    def wall_clock_ms(self) -> int:
        """Return milliseconds since 1970, by this node's (perhaps wrong) clock."""
        ...

    def true_time_ms(self) -> int:
        """Return milliseconds since 1970 by a clock that no fault moves: for evidence alone."""
        ...

    async def sleep(self, duration_ms: int) -> None: ...

    def event(self) -> Event: ...

    def future(self) -> Future[Any]: ...

    def queue(self) -> Queue[Any]: ...

    def scope(self, name: str) -> TaskScope: ...

    def fail(self, task_name: str, error: BaseException) -> None:
        """Report a bug: the node stops, and its trace and log say where."""
        ...
