"""One node's tasks in virtual time: the Runtime port and what its tasks wait for.

A node's incarnation is killed as one: its tasks take no further step, and whoever holds its
runtime sees is_alive turn False first (ports are fenced before tasks are dropped).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from highwater_core.check import BugFound, check
from highwater_core.runtime import TaskCancelled, TimedOut

if TYPE_CHECKING:
    from types import FrameType

T = TypeVar("T")

_NS_PER_MS = 1_000_000


class Clockwork(Protocol):
    """What a node's runtime needs of the kernel."""

    def now_ns(self) -> int: ...

    def wall_clock_ms(self) -> int: ...

    def call_at(self, deadline_ns: int, action: Callable[[], None]) -> CancellableTimer: ...

    def fail(self, where: str, error: BaseException) -> None: ...


class CancellableTimer(Protocol):
    def cancel(self) -> None: ...


class _Wait:
    """One await of one task: ends once, by being woken, by its timer or by cancellation."""

    __slots__ = ("_task", "_timer", "is_over", "is_woken")

    def __init__(self, runtime: NodeRuntime, deadline_ns: int | None) -> None:
        self._task: SimulatedTask | None = None
        self.is_over = False
        self.is_woken = False
        self._timer: CancellableTimer | None = None
        if deadline_ns is not None:
            self._timer = runtime.clockwork.call_at(deadline_ns, self._expire)

    def __await__(self) -> Generator[_Wait, None, bool]:
        """Return whether it was woken; False when its time passed first."""
        yield self
        return self.is_woken

    def attach(self, task: SimulatedTask) -> None:
        self._task = task
        if self.is_over:
            task.schedule()

    def wake(self) -> bool:
        """End the wait; return whether it had not ended before."""
        if self.is_over:
            return False
        self.is_woken = True
        self._end()
        return True

    def abandon(self) -> None:
        """End the wait of a cancelled or dropped task, which is not resumed by it."""
        self.is_over = True
        self._task = None
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        if not self.is_over:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.schedule()


class _Waiters:
    """The waits on one thing, in the order in which they began."""

    __slots__ = ("_runtime", "_waits")

    def __init__(self, runtime: NodeRuntime) -> None:
        self._runtime = runtime
        self._waits: dict[_Wait, None] = {}

    async def wait(self, deadline_ns: int | None) -> bool:
        """Return True when woken, False when the deadline came first."""
        wait = _Wait(self._runtime, deadline_ns)
        self._waits[wait] = None
        try:
            return await wait
        finally:
            self._waits.pop(wait, None)

    def wake_all(self) -> None:
        waits, self._waits = self._waits, {}
        for wait in waits:
            wait.wake()

    def wake_first(self) -> None:
        while self._waits:
            wait = next(iter(self._waits))
            del self._waits[wait]
            if wait.wake():
                return


class SimulatedEvent:
    """The Event protocol."""

    __slots__ = ("_is_set", "_runtime", "_waiters")

    def __init__(self, runtime: NodeRuntime) -> None:
        self._runtime = runtime
        self._waiters = _Waiters(runtime)
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        self._waiters.wake_all()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self, timeout_ms: int | None = None) -> bool:
        return self._is_set or await self._waiters.wait(self._runtime.deadline_after(timeout_ms))


class SimulatedFuture(Generic[T]):
    """The Future protocol."""

    __slots__ = ("_runtime", "_values", "_waiters")

    def __init__(self, runtime: NodeRuntime) -> None:
        self._runtime = runtime
        self._waiters = _Waiters(runtime)
        self._values: list[T] = []

    def set(self, value: T) -> None:
        check(not self._values, "a future is set once")
        self._values.append(value)
        self._waiters.wake_all()

    def is_set(self) -> bool:
        return bool(self._values)

    async def wait(self, timeout_ms: int | None = None) -> T:
        if not self._values:
            await self._waiters.wait(self._runtime.deadline_after(timeout_ms))
        if not self._values:
            raise TimedOut(f"no value within {timeout_ms} ms")
        return self._values[0]


class SimulatedQueue(Generic[T]):
    """The Queue protocol.

    A woken task takes the item that is first when it runs: one that put_first inserted since
    comes before the one that woke it.
    """

    __slots__ = ("_items", "_runtime", "_waiters")

    def __init__(self, runtime: NodeRuntime) -> None:
        self._runtime = runtime
        self._waiters = _Waiters(runtime)
        self._items: deque[T] = deque()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._waiters.wake_first()

    def put_first(self, item: T) -> None:
        self._items.appendleft(item)
        self._waiters.wake_first()

    def drain(self) -> list[T]:
        items = list(self._items)
        self._items.clear()
        return items

    def __len__(self) -> int:
        return len(self._items)

    async def get(self, timeout_ms: int | None = None) -> T:
        deadline_ns = self._runtime.deadline_after(timeout_ms)
        while not self._items:
            try:
                woken = await self._waiters.wait(deadline_ns)
            except TaskCancelled:
                if self._items:  # perhaps woken, then cancelled before it ran: the next one's turn
                    self._waiters.wake_first()
                raise
            if not woken and not self._items:
                raise TimedOut(f"no item within {timeout_ms} ms")
        return self._items.popleft()


class SimulatedTask:
    """The Task protocol: a coroutine that the kernel sends into."""

    def __init__(self, runtime: NodeRuntime, name: str, work: Coroutine[_Wait, None, None]) -> None:
        self._runtime = runtime
        self._name = name
        self._work = work
        self._wait: _Wait | None = None
        self._is_scheduled = False
        self._is_cancelled = False
        self._is_done = False
        self.schedule()

    @property
    def name(self) -> str:
        return self._name

    def is_done(self) -> bool:
        return self._is_done

    def cancel(self) -> None:
        check(self._runtime.current_task is not self, f"{self._name} cancels itself")
        if self._is_done or self._is_cancelled:
            return
        self._is_cancelled = True
        if self._wait is not None:
            self._wait.abandon()
        self.schedule()

    def schedule(self) -> None:
        """Take the next step at this instant, after all that is already due; once."""
        if not self._is_scheduled and not self._is_done:
            self._is_scheduled = True
            self._runtime.soon(self.step)

    def step(self) -> None:
        """Run the coroutine to its next await."""
        if self._is_done:
            return
        if self._runtime.is_paused:
            self._runtime.hold(self)
            return
        self._is_scheduled = False
        self._wait = None
        self._runtime.current_task = self
        try:
            wait = (
                self._work.throw(TaskCancelled()) if self._is_cancelled else self._work.send(None)
            )
        except StopIteration:
            self._is_done = True
        except TaskCancelled as error:
            self._is_done = True
            if not self._is_cancelled:
                self._runtime.fail(self._name, error)
        except (Exception, BugFound) as error:  # noqa: BLE001 (handed on whole)
            self._is_done = True
            self._runtime.fail(self._name, error)
        else:
            check(isinstance(wait, _Wait), f"{self._name} awaits a foreign {wait!r}")
            check(not self._is_cancelled, f"{self._name} awaits after it was cancelled")
            self._wait = wait
            wait.attach(self)
        finally:
            self._runtime.current_task = None

    def drop(self) -> None:
        """End the task without letting it touch the world; its `finally` blocks still run."""
        if self._is_done:
            return
        self._is_done = True
        if self._wait is not None:
            self._wait.abandon()
        self._work.close()

    def describe(self) -> str:
        """Return name and the innermost line of node code that awaits."""
        where = ""
        coroutine: Any = self._work
        while coroutine is not None and (frame := getattr(coroutine, "cr_frame", None)):
            if frame.f_code.co_filename != __file__:
                where = _place(frame)
            coroutine = coroutine.cr_await
        return f"{self._name} at {where}"


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno} {frame.f_code.co_name}"


class SimulatedScope:
    """The TaskScope protocol."""

    def __init__(self, runtime: NodeRuntime, name: str) -> None:
        self._runtime = runtime
        self._tasks: list[SimulatedTask] = []
        self.name = name

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> SimulatedTask:
        self._forget_done()
        task = self._runtime.start(name, work)
        self._tasks.append(task)
        return task

    def tasks(self) -> tuple[SimulatedTask, ...]:
        self._forget_done()
        return tuple(self._tasks)

    def cancel(self) -> None:
        for task in self.tasks():
            task.cancel()

    def _forget_done(self) -> None:
        self._tasks = [task for task in self._tasks if not task.is_done()]


class NodeRuntime:
    """The Runtime port of one incarnation of one node."""

    def __init__(self, clockwork: Clockwork, node_name: str, incarnation: int) -> None:
        self.clockwork = clockwork
        self.node_name = node_name
        self.incarnation = incarnation
        self.wall_clock_offset_ms = 0
        self.current_task: SimulatedTask | None = None
        self.is_alive = True
        self.is_paused = False
        self._tasks: dict[SimulatedTask, None] = {}
        self._next_sweep = 64
        self._held: list[SimulatedTask] = []

    # ------------------------------------------------------------ the port

    def now_ns(self) -> int:
        return self.clockwork.now_ns()

    def now_ms(self) -> int:
        return self.clockwork.now_ns() // _NS_PER_MS

    def wall_clock_ms(self) -> int:
        return self.clockwork.wall_clock_ms() + self.wall_clock_offset_ms

    async def sleep(self, duration_ms: int) -> None:
        await self.sleep_ns(duration_ms * _NS_PER_MS)

    def event(self) -> SimulatedEvent:
        return SimulatedEvent(self)

    def future(self) -> SimulatedFuture[Any]:
        return SimulatedFuture(self)

    def queue(self) -> SimulatedQueue[Any]:
        return SimulatedQueue(self)

    def scope(self, name: str) -> SimulatedScope:
        return SimulatedScope(self, name)

    def fail(self, task_name: str, error: BaseException) -> None:
        self.clockwork.fail(f"{self.node_name} (incarnation {self.incarnation}) {task_name}", error)

    # ------------------------------------------------------------ for the simulator

    async def sleep_ns(self, duration_ns: int) -> None:
        await _Wait(self, self.now_ns() + duration_ns)

    def deadline_after(self, timeout_ms: int | None) -> int | None:
        return None if timeout_ms is None else self.now_ns() + timeout_ms * _NS_PER_MS

    def soon(self, action: Callable[[], None]) -> None:
        """Run the action at this instant, after all that is already due."""
        self.clockwork.call_at(self.now_ns(), action)

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> SimulatedTask:
        """Run the coroutine as a task of this node; a dead node's is dropped at once."""
        if len(self._tasks) >= self._next_sweep:
            self._tasks = {task: None for task in self._tasks if not task.is_done()}
            self._next_sweep = max(64, 2 * len(self._tasks))
        task = SimulatedTask(self, name, work)
        self._tasks[task] = None
        if not self.is_alive:
            task.drop()
        return task

    def kill(self) -> None:
        """SIGKILL: fence first, then drop every task, oldest first."""
        self.is_alive = False
        for task in tuple(self._tasks):
            task.drop()
        self._tasks.clear()
        self._held.clear()

    def pause(self) -> None:
        """SIGSTOP: what becomes due is held until resume."""
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT: held steps are taken in the order in which they became due."""
        self.is_paused = False
        held, self._held = self._held, []
        for task in held:
            self.soon(task.step)

    def hold(self, task: SimulatedTask) -> None:
        self._held.append(task)

    def describe(self) -> list[str]:
        state = "paused" if self.is_paused else "alive" if self.is_alive else "dead"
        tasks = [task.describe() for task in self._tasks if not task.is_done()]
        return [f"{self.node_name} ({state})", *(f"  {line}" for line in tasks)]
