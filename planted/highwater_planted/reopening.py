"""A ZooKeeper session that hides its expiry: the mistake behind KAFKA-3083, as a port.

When a session expires the next one is opened in its place, and calls go on in it. The node never
learns that its ephemeral znodes and watches are gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from highwater_core.ports import (
    ANY_VERSION,
    Coordination,
    CoordinationEvent,
    CoordinationEventKind,
    CoordinationFactory,
    MultiOp,
    SessionExpired,
    Stat,
)
from highwater_core.runtime import Event, Queue, Runtime

T = TypeVar("T")


class ReopeningSession:
    """The Coordination port over one session after another."""

    def __init__(
        self,
        factory: CoordinationFactory,
        runtime: Runtime,
        session_timeout_ms: int,
        first: Coordination,
    ) -> None:
        self._factory = factory
        self._runtime = runtime
        self._session_timeout_ms = session_timeout_ms
        self._session = first
        self._reopened: Event = runtime.event()
        self._events: Queue[CoordinationEvent] = runtime.queue()
        self._is_closed = False
        runtime.scope("session").spawn("session-reopener", self._pass_events_on())

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def events(self) -> Queue[CoordinationEvent]:
        return self._events

    async def _pass_events_on(self) -> None:
        while not self._is_closed:
            event = await self._session.events.get()
            if event.kind is not CoordinationEventKind.SESSION_EXPIRED:
                self._events.put(event)
            elif not self._is_closed:
                self._session = await self._factory.open(self._session_timeout_ms)
                self._reopened.set()
                self._reopened = self._runtime.event()

    async def _in_any_session(self, call: Callable[[Coordination], Awaitable[T]]) -> T:
        while True:
            session = self._session
            try:
                return await call(session)
            except SessionExpired:
                if self._is_closed:
                    raise
                if session is self._session:
                    await self._reopened.wait()

    # ------------------------------------------------------------ the port

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        return await self._in_any_session(
            lambda session: session.create(path, data, ephemeral=ephemeral, sequential=sequential)
        )

    async def ensure_path(self, path: str) -> None:
        await self._in_any_session(lambda session: session.ensure_path(path))

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        return await self._in_any_session(lambda session: session.get(path, watch=watch))

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return await self._in_any_session(lambda session: session.exists(path, watch=watch))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return await self._in_any_session(lambda session: session.children(path, watch=watch))

    async def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        return await self._in_any_session(lambda session: session.set(path, data, expected_version))

    async def delete(self, path: str, expected_version: int = ANY_VERSION) -> None:
        await self._in_any_session(lambda session: session.delete(path, expected_version))

    async def multi(self, operations: Sequence[MultiOp]) -> list[Stat | None]:
        return await self._in_any_session(lambda session: session.multi(operations))

    async def close(self) -> None:
        self._is_closed = True
        await self._session.close()


class ReopeningFactory:
    """Opens sessions that hide their expiry."""

    def __init__(self, factory: CoordinationFactory, runtime: Runtime) -> None:
        self._factory = factory
        self._runtime = runtime

    async def open(self, session_timeout_ms: int) -> Coordination:
        first = await self._factory.open(session_timeout_ms)
        return ReopeningSession(self._factory, self._runtime, session_timeout_ms, first)
