"""The Runtime port's events, futures and queues in virtual time.

A wait ends once: it is woken, its deadline passes, or its task is cancelled. Its task is scheduled
at that instant; no task is run here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Generic, Protocol, TypeVar

from highwater_core.check import check
from highwater_core.runtime import TaskCancelled, TimedOut

T = TypeVar("T")


class WaitingTask(Protocol):
    """The task that awaits."""

    def schedule(self) -> None: ...

    def step(self) -> None: ...


class Timekeeper(Protocol):
    """The node's time: deadlines, and timers that end waits."""

    def deadline_after(self, timeout_ms: int | None) -> int | None: ...

    def arm(self, wait: Wait, deadline_ns: int) -> None: ...


class Timer:
    """An action at a virtual time; cancelling it leaves its place in the kernel's heap empty."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None] | None) -> None:
        self.action = action

    @property
    def owner(self) -> object:
        """The object whose method the action is."""
        return getattr(self.action, "__self__", None)

    def cancel(self) -> None:
        self.action = None

    def run(self) -> None:
        """Carry the action out, unless it was cancelled."""
        action, self.action = self.action, None
        if action is not None:
            action()


class Wait(Timer):
    """One await of one task, and the timer of its deadline, which is in its node's time."""

    __slots__ = ("_runtime", "_task", "deadline_ns", "is_over", "is_woken")

    def __init__(self, runtime: Timekeeper, deadline_ns: int | None) -> None:
        self._runtime = runtime
        self._task: WaitingTask | None = None
        self.deadline_ns = deadline_ns
        self.is_over = False
        self.is_woken = False
        self.action = None
        if deadline_ns is not None:
            self.action = self._expire
            runtime.arm(self, deadline_ns)

    @property
    def owner(self) -> object:
        return self._runtime

    def __await__(self) -> Generator[Wait, None, bool]:
        """Return whether it was woken; False when its time passed first."""
        yield self
        return self.is_woken

    def attach(self, task: WaitingTask) -> None:
        self._task = task
        if self.is_over:
            task.schedule()

    def wake(self) -> bool:
        """End the wait; return whether it had not ended before."""
        if self.is_over:
            return False
        self.is_over = self.is_woken = True
        self.action = None
        if self._task is not None:
            self._task.schedule()
        return True

    def abandon(self) -> None:
        """End the wait of a cancelled or dropped task without resuming it."""
        self.is_over = True
        self.action = self._task = None

    def end_now(self) -> None:
        """End the wait and resume its task within this event, as the event's last action.

        A wait that has ended is left alone: its task is resumed anyway, perhaps after a pause.
        """
        if self.is_over:
            return
        self.is_woken = True
        self._expire()

    def _expire(self) -> None:
        """Resume the task within the timer's event."""
        self.is_over = True
        self.action = None
        if self._task is not None:
            self._task.step()


class SimulatedEvent:
    """The Event protocol."""

    __slots__ = ("_is_set", "_runtime", "_waits")

    def __init__(self, runtime: Timekeeper) -> None:
        self._runtime = runtime
        self._waits: dict[Wait, None] = {}
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        if self._waits:
            waits, self._waits = self._waits, {}
            for wait in waits:
                wait.wake()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self, timeout_ms: int | None = None) -> bool:
        if self._is_set:
            return True
        wait = Wait(self._runtime, self._runtime.deadline_after(timeout_ms))
        self._waits[wait] = None
        try:
            return await wait
        finally:
            self._waits.pop(wait, None)


class SimulatedFuture(Generic[T]):
    """The Future protocol."""

    __slots__ = ("_is_set", "_runtime", "_value", "_waits")

    _value: T

    def __init__(self, runtime: Timekeeper) -> None:
        self._runtime = runtime
        self._waits: dict[Wait, None] = {}
        self._is_set = False

    def set(self, value: T) -> None:
        check(not self._is_set, "a future is set once")
        self._is_set = True
        self._value = value
        waits, self._waits = self._waits, {}
        for wait in waits:
            wait.wake()

    def set_now(self, value: T) -> None:
        """Set the result and resume the waiting task within this event, as the event's last action.

        Only for the simulator's own actions, never for a task's.
        """
        if len(self._waits) != 1:
            self.set(value)
            return
        check(not self._is_set, "a future is set once")
        self._is_set = True
        self._value = value
        wait, _ = self._waits.popitem()
        wait.end_now()

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self, timeout_ms: int | None = None) -> T:
        if not self._is_set:
            wait = Wait(self._runtime, self._runtime.deadline_after(timeout_ms))
            self._waits[wait] = None
            try:
                await wait
            finally:
                self._waits.pop(wait, None)
            if not self._is_set:
                raise TimedOut(f"no value within {timeout_ms} ms")
        return self._value


class SimulatedQueue(Generic[T]):
    """The Queue protocol.

    A woken task takes the item that is first when it runs.
    """

    __slots__ = ("_items", "_runtime", "_waits")

    def __init__(self, runtime: Timekeeper) -> None:
        self._runtime = runtime
        self._waits: dict[Wait, None] = {}
        self._items: deque[T] = deque()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._wake_first()

    def drain(self) -> list[T]:
        items = list(self._items)
        self._items.clear()
        return items

    def __len__(self) -> int:
        return len(self._items)

    async def get(self, timeout_ms: int | None = None) -> T:
        deadline_ns = self._runtime.deadline_after(timeout_ms)
        while not self._items:
            wait = Wait(self._runtime, deadline_ns)
            self._waits[wait] = None
            try:
                woken = await wait
            except TaskCancelled:
                if self._items:  # perhaps woken, then cancelled before it ran: the next one's turn
                    self._waits.pop(wait, None)
                    self._wake_first()
                raise
            finally:
                self._waits.pop(wait, None)
            if not woken and not self._items:
                raise TimedOut(f"no item within {timeout_ms} ms")
        return self._items.popleft()

    def _wake_first(self) -> None:
        while self._waits:
            wait = next(iter(self._waits))
            del self._waits[wait]
            if wait.wake():
                return
