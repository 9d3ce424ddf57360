"""What node code meets when its ZooKeeper session is expired, its connection lost, its process
stopped: one suite for the simulator's ZooKeeper and for the real one behind kazoo.

The real one's address is in HIGHWATER_TEST_ZOOKEEPER (host:port).
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest
from kazoo.client import KazooClient

from highwater_adapters.coordination import KazooCoordination, KazooCoordinationFactory
from highwater_core.ports import (
    ConnectionLost,
    Coordination,
    CoordinationEvent,
    CoordinationEventKind,
    SessionExpired,
)
from highwater_core.runtime import Runtime, Task, TimedOut
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Network
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime
from highwater_simulator.zookeeper import ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

TIMEOUT_MS = 3_000
"""Of a session that is to expire by silence: short, but longer than a busy machine starves it."""
LONG_MS = 10_000

KIND = CoordinationEventKind
SUSPENDED = CoordinationEvent(KIND.SESSION_SUSPENDED)
ESTABLISHED = CoordinationEvent(KIND.SESSION_ESTABLISHED)
EXPIRED = CoordinationEvent(KIND.SESSION_EXPIRED)


class Ensemble(Protocol):
    """Opens sessions, each a process of its own, and does to them what a test asks for."""

    root: str

    @property
    def runtime(self) -> Runtime: ...

    async def open(self, timeout_ms: int) -> Coordination: ...

    async def expire(self, session: Any) -> None: ...

    def lose_connection(self, session: Any) -> None: ...

    def pause(self, session: Any) -> None: ...

    def resume(self, session: Any) -> None: ...


class SimulatedEnsemble:
    def __init__(self, runtime: NodeRuntime, kernel: Kernel) -> None:
        self.runtime = runtime
        self.root = "/contract"
        self._kernel = kernel
        self._server = ZooKeeper(kernel, Network(kernel, SeededRng(1)))
        self._runtimes: dict[int, NodeRuntime] = {}

    async def open(self, timeout_ms: int) -> Coordination:
        runtime = self._kernel.runtime(f"node-{len(self._runtimes)}")
        session = await SimulatedCoordinationFactory(self._server, runtime).open(timeout_ms)
        self._runtimes[session.session_id] = runtime
        return session

    async def expire(self, session: Coordination) -> None:
        self._server.expire(session.session_id)

    def lose_connection(self, session: Coordination) -> None:
        self._server.lose_connection(session.session_id)

    def pause(self, session: Coordination) -> None:
        self._runtimes[session.session_id].pause()

    def resume(self, session: Coordination) -> None:
        self._runtimes[session.session_id].resume()


class KazooEnsemble:
    """A stopped process is one whose kazoo thread does nothing after its select."""

    def __init__(self, runtime: Runtime, address: str) -> None:
        self.runtime = runtime
        self.root = f"/contract-{uuid.uuid4().hex}"
        self._address = address
        self._runs: dict[int, threading.Event] = {}

    async def open(self, timeout_ms: int) -> Coordination:
        session = await KazooCoordinationFactory(self._address).open(timeout_ms)
        runs = self._runs[session.session_id] = threading.Event()
        runs.set()
        select = session._handler.select

        def select_unless_stopped(*arguments: Any, **options: Any) -> Any:
            found = select(*arguments, **options)
            if runs.is_set():
                return found
            runs.wait()
            return select(*arguments[:3], 0)

        session._handler.select = select_unless_stopped
        return session

    async def expire(self, session: KazooCoordination) -> None:
        """End the session as another client of the same session may.

        Its own client is stopped meanwhile: on a busy machine it takes the session back, which
        ends the other's connection.
        """
        client = KazooClient(self._address, client_id=session._client.client_id)
        self.pause(session)
        try:
            client.start()
            client.stop()
            client.close()
        finally:
            self.resume(session)

    def lose_connection(self, session: KazooCoordination) -> None:
        session._client._connection._socket.shutdown(socket.SHUT_RDWR)

    def pause(self, session: KazooCoordination) -> None:
        self._runs[session.session_id].clear()

    def resume(self, session: KazooCoordination) -> None:
        self._runs[session.session_id].set()


class Stage:
    """Two sessions under a root znode of the test's own: the one that suffers, and another."""

    def __init__(self, ensemble: Ensemble, session: Coordination, other: Coordination) -> None:
        self.ensemble = ensemble
        self.session = session
        self.other = other
        self.runtime = ensemble.runtime
        self.root = ensemble.root

    async def next_event(self) -> CoordinationEvent:
        return await self.session.events.get(LONG_MS)

    async def until_gone(self, path: str) -> None:
        for _ in range(4_000):
            if await self.other.exists(path) is None:
                return
            await self.runtime.sleep(5)
        raise AssertionError(f"{path} is still there")

    async def until_done(self, task: Task) -> None:
        for _ in range(1_000):
            if task.is_done():
                return
            await self.runtime.sleep(5)
        raise AssertionError("the call has no outcome")


@asynccontextmanager
async def stage(ensemble: Ensemble, timeout_ms: int) -> AsyncIterator[Stage]:
    other, session = await ensemble.open(LONG_MS), await ensemble.open(timeout_ms)
    try:
        await other.ensure_path(ensemble.root)
        assert await session.events.get(LONG_MS) == ESTABLISHED
        yield Stage(ensemble, session, other)
    finally:
        ensemble.resume(session)
        await session.close()
        await other.close()


Body = Callable[[Stage], Coroutine[Any, Any, None]]


class Run(Protocol):
    """Runs a body on a stage whose session has that timeout."""

    def __call__(self, body: Body, timeout_ms: int = LONG_MS) -> None: ...


class World(Protocol):
    def run(self, body: Callable[[Runtime], Coroutine[Any, Any, None]]) -> None: ...


@pytest.fixture(params=["kernel", pytest.param("asyncio", marks=pytest.mark.docker)])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a body against the simulator's ZooKeeper or the one at the address."""
    world: World = request.getfixturevalue(f"{request.param}_world")

    def ensemble(runtime: Runtime) -> Ensemble:
        if isinstance(runtime, NodeRuntime):
            return SimulatedEnsemble(runtime, request.getfixturevalue("kernel_world").kernel)
        return KazooEnsemble(runtime, request.getfixturevalue("zookeeper_address"))

    async def on_stage(runtime: Runtime, body: Body, timeout_ms: int) -> None:
        async with stage(ensemble(runtime), timeout_ms) as opened:
            await body(opened)

    def run(body: Body, timeout_ms: int = LONG_MS) -> None:
        world.run(lambda runtime: on_stage(runtime, body, timeout_ms))

    return run


@pytest.fixture(scope="session")
def zookeeper_address(request: pytest.FixtureRequest) -> str:
    """Return the server that HIGHWATER_TEST_ZOOKEEPER names, else a container's."""
    named = os.environ.get("HIGHWATER_TEST_ZOOKEEPER", "")
    return named or str(request.getfixturevalue("highwater_zookeeper"))


def test_expired_session_is_suspended_first_then_expired_and_refuses_calls(run: Run) -> None:
    async def body(s: Stage) -> None:
        await s.session.create(f"{s.root}/e", b"", ephemeral=True)
        await s.ensemble.expire(s.session)
        assert [await s.next_event() for _ in range(2)] == [SUSPENDED, EXPIRED]
        await s.until_gone(f"{s.root}/e")
        with pytest.raises(SessionExpired):
            await s.session.exists(s.root)
        with pytest.raises(TimedOut):
            await s.session.events.get(1)

    run(body)


def test_watches_of_an_expired_session_never_fire(run: Run) -> None:
    async def body(s: Stage) -> None:
        await s.session.create(f"{s.root}/e", b"", ephemeral=True)
        await s.session.get(f"{s.root}/e", watch=True)
        await s.session.children(s.root, watch=True)
        await s.ensemble.expire(s.session)
        await s.until_gone(f"{s.root}/e")
        assert [await s.next_event() for _ in range(2)] == [SUSPENDED, EXPIRED]
        await s.other.create(f"{s.root}/later", b"")
        with pytest.raises(TimedOut):
            await s.session.events.get(50)

    run(body)


def test_lost_connection_keeps_the_session_and_what_it_owns(run: Run) -> None:
    async def body(s: Stage) -> None:
        await s.session.create(f"{s.root}/e", b"", ephemeral=True)
        s.ensemble.lose_connection(s.session)
        assert [await s.next_event() for _ in range(2)] == [SUSPENDED, ESTABLISHED]
        stat = await s.session.exists(f"{s.root}/e")
        assert stat is not None
        assert stat.ephemeral_owner == s.session.session_id

    run(body)


def test_each_watch_fires_once_after_a_lost_connection_changed_or_not(run: Run) -> None:
    async def body(s: Stage) -> None:
        path = f"{s.root}/a"
        await s.session.create(path, b"")
        await s.session.get(path, watch=True)
        await s.session.children(s.root, watch=True)
        s.ensemble.lose_connection(s.session)
        assert [await s.next_event() for _ in range(2)] == [SUSPENDED, ESTABLISHED]
        assert [await s.next_event() for _ in range(2)] == [
            CoordinationEvent(KIND.CHILDREN_CHANGED, s.root),
            CoordinationEvent(KIND.NODE_CHANGED, path),
        ]
        await s.other.set(path, b"1")
        assert (await s.session.get(path))[0] == b"1"
        assert len(s.session.events) == 0

    run(body)


def test_call_in_flight_when_the_connection_is_lost_fails_and_one_made_meanwhile_waits(
    run: Run,
) -> None:
    async def body(s: Stage) -> None:
        outcomes: list[str] = []

        async def write() -> None:
            try:
                await s.session.set(s.root, b"in flight")
            except ConnectionLost:
                outcomes.append("lost")

        s.ensemble.pause(s.session)  # so that no answer is read before the connection is lost
        s.runtime.scope("writers").spawn("writer", write())
        await s.runtime.sleep(20)
        s.ensemble.lose_connection(s.session)
        s.ensemble.resume(s.session)
        assert await s.next_event() == SUSPENDED
        await s.session.set(s.root, b"meanwhile")
        assert (await s.other.get(s.root))[0] == b"meanwhile"
        assert await s.next_event() == ESTABLISHED
        assert outcomes in (["lost"], [])

    run(body)


def test_process_that_is_stopped_for_less_than_the_timeout_notices_nothing(run: Run) -> None:
    async def body(s: Stage) -> None:
        await s.session.create(f"{s.root}/e", b"", ephemeral=True)
        s.ensemble.pause(s.session)
        await s.runtime.sleep(TIMEOUT_MS * 4 // 10)
        s.ensemble.resume(s.session)
        assert await s.session.exists(f"{s.root}/e") is not None
        await s.runtime.sleep(TIMEOUT_MS)
        assert len(s.session.events) == 0
        assert await s.other.exists(f"{s.root}/e") is not None

    run(body, TIMEOUT_MS)


def test_process_that_is_stopped_for_longer_finds_its_session_suspended_then_expired(
    run: Run,
) -> None:
    async def body(s: Stage) -> None:
        await s.session.create(f"{s.root}/e", b"", ephemeral=True)
        s.ensemble.pause(s.session)
        await s.until_gone(f"{s.root}/e")
        s.ensemble.resume(s.session)
        assert [await s.next_event() for _ in range(2)] == [SUSPENDED, EXPIRED]
        with pytest.raises(SessionExpired):
            await s.session.set(s.root, b"")

    run(body, TIMEOUT_MS)


def test_what_a_process_writes_on_waking_up_after_its_expiry_is_not_carried_out(run: Run) -> None:
    async def body(s: Stage) -> None:
        await s.session.create(f"{s.root}/e", b"", ephemeral=True)
        s.ensemble.pause(s.session)
        await s.until_gone(f"{s.root}/e")
        refused: list[type[Exception]] = []

        async def write() -> None:
            try:
                await s.session.set(s.root, b"from beyond")
            except (ConnectionLost, SessionExpired) as error:
                refused.append(type(error))

        writer = s.runtime.scope("writers").spawn("writer", write())
        s.ensemble.resume(s.session)
        while await s.next_event() != EXPIRED:
            assert (await s.other.get(s.root))[0] == b""
        await s.until_done(writer)
        assert len(refused) == 1
        assert (await s.other.get(s.root))[0] == b""

    run(body, TIMEOUT_MS)


def test_session_is_closed_without_its_connection(run: Run) -> None:
    async def body(s: Stage) -> None:
        await s.session.create(f"{s.root}/e", b"", ephemeral=True)
        s.ensemble.lose_connection(s.session)
        await s.session.close()
        with pytest.raises(SessionExpired):
            await s.session.exists(s.root)
        await s.until_gone(f"{s.root}/e")

    run(body)
