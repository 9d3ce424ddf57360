"""A plan's run in which a controller dies at one of its requests that change ZooKeeper.

The requests are counted at the server, from a moment on. A crash before a request: the request has
arrived and is not carried out. A crash after a request: it is carried out, and its answer is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from highwater_chaos.plan import Plan
from highwater_core.events import TraceEvent
from highwater_core.ports import ConnectionLost
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.liveness import Core
from highwater_simulator.runner import PlanRun
from highwater_simulator.world import World
from highwater_simulator.zookeeper import Session


@dataclass(frozen=True)
class WritePoint:
    """Before or after the controllers' request of that number, from 1 on."""

    request: int
    is_before: bool


class CrashingRun(PlanRun):
    """A run that notes controllers' requests and events from begin_ms after the first step's time,
    until all faults are healed.

    point: where a controller is killed, to be started again restart_after_ms later.
    begin: called at begin_ms.
    """

    def __init__(
        self,
        plan: Plan,
        begin_ms: int,
        begin: Callable[[World], None] = lambda world: None,
        point: WritePoint | None = None,
        restart_after_ms: int = 700,
        at_the_end: Callable[[World, Core | None], None] | None = None,
    ) -> None:
        super().__init__(plan, at_the_end)
        self.writes: list[int] = []
        """The numbers of the requests that changed a znode."""
        self.events: list[TraceEvent] = []
        self.died: list[str] = []
        self._begin_ms = begin_ms
        self._begin = begin
        self._point = point
        self._restart_after_ms = restart_after_ms
        self._is_counting = False
        self._requests = 0
        self._carry_out = self.world.zookeeper.apply
        self.world.zookeeper.apply = self._apply
        judge = self.world.on_event

        def on_event(event: TraceEvent) -> None:
            if judge is not None:
                judge(event)
            if self._is_counting:
                self.events.append(event)

        self.world.on_event = on_event

    def _do_faults(self) -> None:
        self.world.kernel.call_later(self._begin_ms * NS_PER_MS, self._begin_job)
        super()._do_faults()

    def _heal(self) -> Core:
        self._is_counting = False
        return super()._heal()

    def _begin_job(self) -> None:
        self._is_counting = True
        self._begin(self.world)

    def _apply(self, session: Session, operation: Callable[..., Any]) -> object:
        author = session.client.node_name
        if not self._is_counting or not author.startswith("controller"):
            return self._carry_out(session, operation)
        self._requests += 1
        number = self._requests
        if self._point == WritePoint(number, is_before=True):
            self._kill(author)
            raise ConnectionLost("its client is dead")

        def counted(tree: Any) -> Any:
            result, changes = operation(tree)
            if changes:
                self.writes.append(number)
            return result, changes

        result = self._carry_out(session, counted)
        if self._point == WritePoint(number, is_before=False):
            self._kill(author)
        return result

    def _kill(self, name: str) -> None:
        (node_id,) = [each for each, h in self.world.controllers.items() if h.name == name]
        self.world.kill(node_id)
        self.died.append(name)

        def start_again() -> None:
            if not self.world.handle(node_id).is_running:
                self.world.start(node_id)

        self.world.kernel.call_later(self._restart_after_ms * NS_PER_MS, start_again)
