"""One node's tasks in virtual time: the Runtime port.

A node's incarnation is killed as a whole: its tasks take no further step. Its runtime's is_alive
turns False first: ports are fenced before tasks are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from highwater_core.check import BugFound, check
from highwater_core.runtime import TaskCancelled
from highwater_simulator import waits
from highwater_simulator.clocks import NS_PER_MS, WALL_CLOCK_START_MS, NodeClock
from highwater_simulator.waits import (
    SimulatedEvent,
    SimulatedFuture,
    SimulatedQueue,
    Timer,
    Wait,
)

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["NodeRuntime", "SimulatedFuture", "SimulatedQueue", "SimulatedScope", "SimulatedTask"]

_OWN_FILES = (__file__, waits.__file__)


class Clockwork(Protocol):
    """The part of the kernel that a node's runtime needs."""

    time_ns: int

    def arm(self, timer: Timer, deadline_ns: int) -> None: ...

    def soon(self, action: Callable[[], None], owner: object) -> None: ...

    def rearm(self, runtime: NodeRuntime) -> None: ...

    def fail(self, where: str, error: BaseException) -> None: ...


class SimulatedTask:
    """The Task protocol: a coroutine that the kernel sends into."""

    __slots__ = (
        "_is_cancelled",
        "_is_done",
        "_is_scheduled",
        "_name",
        "_runtime",
        "_wait",
        "_work",
    )

    def __init__(self, runtime: NodeRuntime, name: str, work: Coroutine[Wait, None, None]) -> None:
        self._runtime = runtime
        self._name = name
        self._work = work
        self._wait: Wait | None = None
        self._is_scheduled = False
        self._is_cancelled = False
        self._is_done = False

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
        """Take the next step at this instant, after all actions that are due; once."""
        if not self._is_scheduled and not self._is_done:
            self._is_scheduled = True
            runtime = self._runtime
            runtime.clockwork.soon(self.step, runtime)

    def step(self) -> None:
        """Run the coroutine to its next await."""
        if self._is_done:
            return
        runtime = self._runtime
        if runtime.is_paused:
            self._is_scheduled = True
            runtime.hold(self)
            return
        self._is_scheduled = False
        self._wait = None
        runtime.current_task = self
        try:
            if self._is_cancelled:
                wait = self._work.throw(TaskCancelled())
            else:
                wait = self._work.send(None)
        except StopIteration:
            self._end()
        except TaskCancelled as error:
            self._end()
            if not self._is_cancelled:
                runtime.fail(self._name, error)
        except (Exception, BugFound) as error:  # noqa: BLE001 (handed on whole)
            self._end()
            runtime.fail(self._name, error)
        else:
            if type(wait) is not Wait:
                raise BugFound(f"{self._name} awaits a foreign {wait!r}")
            if self._is_cancelled:
                raise BugFound(f"{self._name} awaits after it was cancelled")
            self._wait = wait
            wait.attach(self)
        finally:
            runtime.current_task = None

    def drop(self) -> None:
        """End the task without any effect on the world; its `finally` blocks still run."""
        if self._is_done:
            return
        self._end()
        if self._wait is not None:
            self._wait.abandon()
        self._work.close()

    def _end(self) -> None:
        self._is_done = True
        self._runtime.forget(self)

    def describe(self) -> str:
        """Return name and the innermost line of node code that awaits."""
        where = ""
        coroutine: Any = self._work
        while coroutine is not None and (frame := getattr(coroutine, "cr_frame", None)):
            if frame.f_code.co_filename not in _OWN_FILES:
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

    def __init__(
        self, clockwork: Clockwork, node_name: str, incarnation: int, clock: NodeClock
    ) -> None:
        self.clockwork = clockwork
        self.node_name = node_name
        self.incarnation = incarnation
        self.clock = clock
        self.current_task: SimulatedTask | None = None
        self.is_alive = True
        self.is_paused = False
        self._tasks: dict[SimulatedTask, None] = {}
        self._held: list[SimulatedTask] = []

    # ------------------------------------------------------------ the port

    def now_ns(self) -> int:
        time_ns = self.clockwork.time_ns
        return time_ns if self.clock.is_true else self.clock.shown_ns(time_ns)

    def now_ms(self) -> int:
        return self.now_ns() // NS_PER_MS

    def wall_clock_ms(self) -> int:
        return self.clock.wall_clock_ms(self.now_ns())

    def true_time_ms(self) -> int:
        return WALL_CLOCK_START_MS + self.clockwork.time_ns // NS_PER_MS

    async def sleep(self, duration_ms: int) -> None:
        await Wait(self, self.now_ns() + duration_ms * NS_PER_MS)

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

    # ------------------------------------------------------------ clocks

    def jump_wall_clock(self, by_ms: int) -> None:
        """Set the wall clock forward, or back when by_ms is negative."""
        self.clock.wall_clock_offset_ms += by_ms

    def set_clock_rate(self, rate_ppm: int) -> None:
        """Run the node's clocks at another rate from now on; deadlines of its waits move too."""
        self.clock.set_rate(rate_ppm, self.clockwork.time_ns)
        self.clockwork.rearm(self)

    # ------------------------------------------------------------ for the simulator

    async def sleep_ns(self, duration_ns: int) -> None:
        await Wait(self, self.now_ns() + duration_ns)

    def deadline_after(self, timeout_ms: int | None) -> int | None:
        return None if timeout_ms is None else self.now_ns() + timeout_ms * NS_PER_MS

    def arm(self, wait: Wait, deadline_ns: int) -> None:
        """End the wait when this node's monotonic clock shows deadline_ns."""
        if not self.clock.is_true:
            deadline_ns = self.clock.time_ns(deadline_ns)
        self.clockwork.arm(wait, deadline_ns)

    def soon(self, action: Callable[[], None]) -> None:
        """Run the action at this instant, after all due actions of this node."""
        self.clockwork.soon(action, self)

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> SimulatedTask:
        """Run the coroutine as a task of this node; a dead node's is dropped at once."""
        task = SimulatedTask(self, name, work)
        self._tasks[task] = None
        if self.is_alive:
            task.schedule()
        else:
            task.drop()
        return task

    def start_now(self, name: str, work: Coroutine[Any, Any, None]) -> SimulatedTask:
        """Start a task and take its first step within this event, as the event's last action.

        Only for the simulator's own actions, never for a task's.
        """
        task = SimulatedTask(self, name, work)
        self._tasks[task] = None
        if self.is_alive:
            task.step()
        else:
            task.drop()
        return task

    def forget(self, task: SimulatedTask) -> None:
        """Forget a finished task."""
        self._tasks.pop(task, None)

    def kill(self) -> None:
        """SIGKILL: fence first, then drop every task, oldest first."""
        self.is_alive = False
        for task in tuple(self._tasks):
            task.drop()
        self._tasks.clear()
        self._held.clear()

    def pause(self) -> None:
        """SIGSTOP: due actions are held until resume."""
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
